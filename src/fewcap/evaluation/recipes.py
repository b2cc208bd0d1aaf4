"""Recipes: the paper's tables with their published numbers, and its settings for each data set."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

import fewcap
from fewcap.core.config.base import Section
from fewcap.core.errors import FewcapError, UsageError

METRICS = ("bleu4", "meteor", "rouge_l", "cider_d")  # the order of published numbers
DATA_SETS = {"msvd": "MSVD", "msrvtt": "MSR-VTT", "vatex": "VATEX"}
TABLES = range(2, 13)

Settings = Literal["paper", "release", "own"]


class Row(Section):
    """A row of a published table. With ``settings`` it can be measured, without it only the publication knows it."""

    name: str = Field(description="The method or the variant.")
    venue: str = Field("", description="Where it was published.")
    features: str = Field(description="Features of the published numbers.")
    sentences: int | Literal["all"] | dict[str, int] = Field(description="Ground-truth sentences a video.")
    pseudo: int = Field(description="Pseudo-labels a video.")
    series: str = Field("", description="The line of the plot it belongs to.")
    x: float | None = Field(None, description="Its place on the axis of the plot.")
    settings: dict[str, Any] | None = Field(None, description="What it changes, as section.key: value.")
    published: dict[str, list[float | None]] = Field(description="BLEU@4, METEOR, ROUGE-L, CIDEr-D by data set.")

    @model_validator(mode="after")
    def _four_numbers(self) -> Self:
        for data_set, numbers in self.published.items():
            if data_set not in DATA_SETS or len(numbers) != len(METRICS):
                raise ValueError(f"row '{self.name}': published needs four numbers for each of {', '.join(DATA_SETS)}")
        return self

    def sentences_for(self, data_set: str | None) -> int | Literal["all"] | None:
        """How many sentences this row means on a data set; None when it has no such row."""
        if not isinstance(self.sentences, dict):
            return self.sentences
        if data_set in DATA_SETS:
            return self.sentences.get(data_set)
        return next(iter(self.sentences.values()))

    def place(self, data_set: str | None) -> float | None:
        """Where the row stands on the plot's axis."""
        sentences = self.sentences_for(data_set)
        return self.x if self.x is not None else float(sentences) if isinstance(sentences, int) else None


class TableRecipe(Section):
    """One table of the paper."""

    table: int = Field(description="Its number in the paper.")
    title: str = Field(description="What it shows.")
    supervision: Literal["few", "full"] = Field(description="Which of the paper's settings apply.")
    axis: str = Field("", description="The axis of its plot; empty for tables without one.")
    rows: tuple[Row, ...] = Field(description="Its rows, in order.")

    @cached_property
    def measurable(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.settings is not None)


def recipes_folder() -> Path:
    """Beside the package's modules in an installation, at the root of a checkout."""
    package = Path(fewcap.__file__).resolve().parent
    for place in (package / "recipes", package.parent.parent / "recipes"):
        if (place / "tables").is_dir():
            return place
    raise FewcapError(f"{package}: the recipes of fewcap are missing; reinstall it.")


def read_table(number: int | str) -> TableRecipe:
    """The recipe of a table: 2 to 12."""
    try:
        wanted = int(str(number).lower().removeprefix("table"))
    except ValueError:
        wanted = 0
    if wanted not in TABLES:
        raise UsageError(
            f"there is no recipe for table '{number}'; the paper's tables are {TABLES[0]} to {TABLES[-1]}."
        )
    path = recipes_folder() / "tables" / f"table{wanted:02d}.yaml"
    try:
        return TableRecipe.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise FewcapError(f"{path}: not a table recipe: {error}") from None


def paper_settings(data_set: str | None, supervision: str, settings: Settings) -> dict[str, Any]:
    """Sections ``label``, ``train`` and ``caption`` as the paper (or its release) sets them for a data set.

    Data and features are the project's own: where the files are, and what they were made with, no recipe can know.
    """
    if settings == "own" or data_set not in DATA_SETS:
        return {}
    tree = _sections(recipes_folder() / f"{data_set}-{supervision}.yaml")
    return merge(tree, _sections(recipes_folder() / "release.yaml")) if settings == "release" else tree


def _sections(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: content[name] for name in ("label", "train", "caption") if name in content}


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees in one; where both have a value, the one above wins."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def nested(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """``{"train.model.width": 8}`` as a tree."""
    tree: dict[str, Any] = {}
    for key, value in dotted.items():
        *sections, name = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[name] = value
    return tree
