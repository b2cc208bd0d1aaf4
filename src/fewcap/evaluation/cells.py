"""Cells of a table: a configuration and a seed, run stage by stage in folders that cells share as far as they agree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fewcap import __version__
from fewcap.core.config import Config
from fewcap.core.errors import FewcapError, UsageError
from fewcap.core.store import fingerprint, read_json, sha256_file, stage_seconds
from fewcap.evaluation.recipes import DATA_SETS, Row, Settings, TableRecipe, merge, nested, paper_settings
from fewcap.evaluation.stage import SCORES, evaluate
from fewcap.pseudo.invent import CHOICE

CONFIG = "fewcap.yaml"


@dataclass(frozen=True)
class Cell:
    """One run: a row of a table with one seed."""

    table: int
    row: int  # its number among the rows of the table
    name: str
    seed: int
    config: Config
    work: Path  # where cells keep their artefacts
    captions: str  # hash of the annotation files
    features: Path  # the folder of features

    @cached_property
    def key(self) -> str:
        """Of all that decides the result."""
        config = self.config.model_dump(mode="json") | {"label": self._label}
        return fingerprint({"config": config, "seed": self.seed, "captions": self.captions, "fewcap": __version__})

    @property
    def label(self) -> str:
        return f"table {self.table}, {self.name}, seed {self.seed}"

    @property
    def folders(self) -> dict[str, Path]:
        """Stage -> folder. A folder is named by the settings of its stage and of those to its left."""
        config, data_seed = self.config, self.config.seed
        names = {"data": [config.data, data_seed]}
        chains = {name: value for name, value in self._label.items() if name not in CHOICE}
        names["candidates"] = [*names["data"], chains, self.seed]
        names["pseudo"] = [*names["data"], config.features, self._label, self.seed]
        names["model"] = [*names["pseudo"], config.train]
        names["captions"] = [*names["model"], config.caption]
        names["scores"] = [*names["captions"], config.score]
        folders = {
            stage: self.work / stage / fingerprint([_plain(part) for part in parts])[:12]
            for stage, parts in names.items()
        }
        return {**folders, "features": self.features}

    @property
    def _label(self) -> dict[str, Any]:
        """How captions are invented; all the same when none are."""
        label = self.config.label
        return label.model_dump(mode="json") if label.enabled else {"enabled": False}

    @property
    def weight(self) -> float:
        """How long the cell takes against others of the same project, roughly: for planning, not for results."""
        train, model = self.config.train, self.config.train.model
        pseudo = self.config.label.keep if self.config.label.enabled else 0
        blocks = model.video_blocks + model.keyword_blocks + 2 * model.decoder_blocks
        sentences = train.members * train.epochs * (1 + min(pseudo, train.pseudo_per_video))
        return sentences * (1 + blocks) * (model.width / 384) ** 1.5


def _plain(part: Any) -> Any:
    return part.model_dump(mode="json") if hasattr(part, "model_dump") else part


def read_project(folder: Path) -> dict[str, Any]:
    """What a project's configuration file says."""
    path = folder / CONFIG
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise UsageError(f"{folder}: not a project folder (no {CONFIG}); make one with: fewcap init") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid YAML: {error}.") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: must hold sections such as 'train:'.")
    return content


RANDOM_START = {"train": {"start": "none"}}  # rows that change the network could not start where the others do


def data_set_of(project: Mapping[str, Any]) -> str | None:
    """Which published data set a project holds, if any."""
    source = (project.get("data") or {}).get("source")
    return source if source in DATA_SETS else None


def make_cells(
    recipe: TableRecipe,
    project: Path,
    work: Path,
    *,
    seeds: Iterable[int],
    settings: Settings,
    overrides: Mapping[str, Any],
) -> list[Cell]:
    """All cells of a table on a project, all rows with the first seed before the second.

    Later settings win: the paper's, the project's own, the row's, and what the caller overrides.
    """
    own = read_project(project)
    data_set = data_set_of(own)
    base = merge(RANDOM_START, merge(paper_settings(data_set, recipe.supervision, settings), own))
    cells = []
    for seed in seeds:
        for number, row in enumerate(recipe.rows):
            sentences = row.sentences_for(data_set)
            if row.settings is None or sentences is None or (data_set and data_set not in row.published):
                continue
            tree = merge(base, nested({**_supervision(row, sentences), **row.settings, **overrides}))
            try:
                config = Config.model_validate(tree)
            except ValidationError as error:
                problem = error.errors()[0]
                key = ".".join(map(str, problem["loc"]))
                raise UsageError(
                    f"{project / CONFIG} with table {recipe.table}, '{row.name}': {key}: {problem['msg']}"
                ) from None
            config = config.model_copy(update={"data": config.data.relative_to(project.resolve())})
            captions = fingerprint([sha256_file(path) for path in config.data.captions if path.is_file()])
            name = f"{row.name} ({sentences} GT, {row.pseudo} pseudo)"
            features = _features_folder(config, own, project, work)
            cells.append(Cell(recipe.table, number, name, seed, config, work, captions, features))
    if not cells:
        known = ", ".join(DATA_SETS[name] for name in DATA_SETS if any(name in row.published for row in recipe.rows))
        raise FewcapError(f"table {recipe.table} is about {known}; {project} holds {DATA_SETS.get(data_set or '')}.")
    return cells


def _features_folder(config: Config, own: Mapping[str, Any], project: Path, work: Path) -> Path:
    """The project's own features, which do not depend on the choice of sentences, unless a cell asks for others."""
    plain = config.features.model_dump(mode="json")
    of_project = Config.model_validate({part: own[part] for part in ("data", "features") if own.get(part)})
    if plain == of_project.features.model_dump(mode="json"):
        return project / "features"
    return work / "features" / fingerprint(plain)[:12]


def _supervision(row: Row, sentences: int | str) -> dict[str, Any]:
    changes: dict[str, Any] = {"data.sentences": sentences, "label.enabled": row.pseudo > 0}
    return changes | ({"label.keep": row.pseudo} if row.pseudo else {"train.word_loss": "off"})


def run_cell(cell: Cell) -> dict[str, Any]:
    """Runs every stage of a cell that is not up to date, and returns its scores."""
    from fewcap.captioning.caption import caption
    from fewcap.captioning.train import train
    from fewcap.data.prepare import prepare
    from fewcap.evaluation.metric import CiderMetric
    from fewcap.features.extract import extract
    from fewcap.pseudo.label import label

    config, at = cell.config, cell.folders
    prepare(at["data"], config.data, seed=config.seed)
    extract(at["data"], at["features"], config.features)
    pseudo = None
    if config.label.enabled:
        kept = at["candidates"]
        label(at["data"], at["features"], at["pseudo"], config.label, seed=cell.seed, candidates=kept)
        pseudo = at["pseudo"]
    train(at["data"], at["features"], pseudo, at["model"], config.train, seed=cell.seed, metric=CiderMetric())
    caption(at["data"], at["features"], at["model"], at["captions"], config.caption)
    evaluate(at["data"], at["captions"], at["scores"], config.score, features=at["features"])
    scores = read_json(at["scores"] / SCORES)
    return {"metrics": scores["metrics"], "items": scores["items"], "features": features_used(at["features"])}


def features_used(folder: Path) -> str:
    """The networks of a features folder, in the order of their kinds."""
    path = folder / "index.json"
    return " + ".join(facts["name"] for facts in read_json(path)["backbones"].values()) if path.exists() else ""


def features_planned(config: Config) -> str:
    parts = (config.features.appearance, config.features.motion, config.features.objects)
    if config.data.packed_features is not None:
        return config.data.packed_features.stem
    return " + ".join(part for part in parts if part)


def seconds_spent(cell: Cell) -> float:
    """What the stages of a cell took when they ran, features apart; pseudo-labels include their candidates."""
    apart = ("features", "candidates")
    return sum(stage_seconds(folder) or 0.0 for stage, folder in cell.folders.items() if stage not in apart)
