"""A project folder and the stages that fill it, left to right: one function a verb of the command line.

Each function first brings the stages to its left up to date; what has not changed is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fewcap.core.config import Config, load_config
from fewcap.core.config.load import parse_overrides
from fewcap.core.errors import UsageError, nearest
from fewcap.core.store import Manifest, readable_os_errors

if TYPE_CHECKING:
    from fewcap.evaluation.recipes import Settings
    from fewcap.evaluation.tables import Reproduction

CONFIG_FILE = "fewcap.yaml"


@dataclass(frozen=True)
class Project:
    """A folder with a configuration; every stage has its place in it."""

    folder: Path
    config: Config

    @classmethod
    def open(cls, folder: Path, overrides: Iterable[str] = ()) -> Project:
        """The project in ``folder``; paths in its configuration are relative to it."""
        config_file = folder / CONFIG_FILE
        if not config_file.exists():
            raise UsageError(
                f"{folder}: not a project folder (no {CONFIG_FILE}); "
                "make one with: fewcap init FOLDER --videos VIDEOS --captions CAPTIONS"
            )
        return cls(folder, load_config(config_file, overrides))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def features(self) -> Path:
        return self.folder / "features"

    @property
    def pseudo(self) -> Path:
        return self.folder / "pseudo"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def captions(self) -> Path:
        return self.folder / "captions"

    @property
    def scores(self) -> Path:
        return self.folder / "scores"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"


def prepare(project: Project) -> Manifest:
    """Reads videos and captions, chooses the sentences that exist, lists what is wrong with the data."""
    from fewcap.data.prepare import prepare as prepare_stage

    config = project.config.data.relative_to(project.folder.absolute())
    return prepare_stage(project.data, config, seed=project.config.seed)


def extract(project: Project) -> Manifest:
    """Appearance, motion and object features of every video."""
    from fewcap.features.extract import extract as extract_stage

    prepare(project)
    return extract_stage(project.data, project.features, project.config.features)


def label(project: Project) -> Manifest:
    """Invents captions around the keywords of the given ones and ranks them by the video."""
    from fewcap.pseudo.label import label as label_stage

    extract(project)
    return label_stage(project.data, project.features, project.pseudo, project.config.label, seed=project.config.seed)


def train(project: Project) -> Manifest:
    """Trains the captioner on given and invented captions."""
    from fewcap.captioning.train import train as train_stage
    from fewcap.evaluation.metric import CiderMetric

    if project.config.label.enabled:
        label(project)
    else:
        extract(project)
    return train_stage(
        project.data,
        project.features,
        project.pseudo if project.config.label.enabled else None,
        project.model,
        project.config.train.relative_to(project.folder.absolute()),
        seed=project.config.seed,
        metric=CiderMetric(),
    )


def caption(project: Project) -> Manifest:
    """Captions the held-out videos."""
    from fewcap.captioning.caption import caption as caption_stage

    train(project)
    return caption_stage(project.data, project.features, project.model, project.captions, project.config.caption)


def score(project: Project) -> Manifest:
    """Scores the captions of the held-out videos and writes the report."""
    from fewcap.evaluation.report import write_report
    from fewcap.evaluation.stage import evaluate

    caption(project)
    manifest = evaluate(project.data, project.captions, project.scores, project.config.score, features=project.features)
    with readable_os_errors(project.report):
        write_report(project.folder, project.report)
    return manifest


def train_language_models(project: Project) -> Path:
    """Trains the editor's language models on the project's own corpus; returns their folder, for ``label.models``."""
    from fewcap.pseudo.training import train_stage

    config = project.config.label.training
    corpus = tuple(project.folder / path for path in config.corpus)  # absolute paths stay what they are
    out = project.folder / "language-models"
    train_stage(out, config.model_copy(update={"corpus": corpus}), seed=project.config.seed)
    return out


def reproduce_table(
    table: int,
    folder: Path,
    out: Path,
    *,
    seeds: Sequence[int],
    budget: float | None,
    settings: Settings,
    overrides: Iterable[str] = (),
) -> Reproduction:
    """Rows of a table of the paper, measured on a project."""
    from fewcap.evaluation.tables import reproduce

    Project.open(folder, overrides)  # a wrong key is an error before any work
    return reproduce(
        table, folder, out, seeds=seeds, budget=budget, settings=settings, overrides=parse_overrides(overrides)
    )


def report(project: Path, baseline: Path | None = None) -> Path:
    """Writes ``report.html`` anew from what the stages left, beside another run if one is named."""
    from fewcap.evaluation.report import write_report

    out = Project.open(project).report
    with readable_os_errors(out):
        return write_report(project, out, baseline=baseline)


STAGES: dict[str, Callable[[Project], Manifest]] = {
    "data": prepare,
    "extract": extract,
    "label": label,
    "train": train,
    "caption": caption,
    "score": score,
}


def run(project: Project, until: str = "score") -> Manifest:
    """All stages, left to right, up to and with ``until``."""
    if until not in STAGES:
        raise UsageError(f"there is no stage '{until}'.{nearest(until, STAGES)} Stages: {', '.join(STAGES)}.")
    return STAGES[until](project)
