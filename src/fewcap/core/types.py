"""The nouns that stages hand to one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import torch

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")

Kind = Literal["appearance", "motion", "objects"]
KINDS: tuple[Kind, ...] = ("appearance", "motion", "objects")


@dataclass(frozen=True)
class VideoItem:
    """A video with the captions that exist for it: k sentences in training, all references otherwise."""

    id: str
    split: Split
    path: Path | None  # None: only features exist
    captions: tuple[str, ...]
    further: bool = False  # of a corpus that trains beside the first one


@dataclass(frozen=True)
class VideoFeatures:
    """What the captioner sees of a video. A kind that was not extracted is None."""

    appearance: torch.Tensor | None = None  # [N_f, d_a]
    motion: torch.Tensor | None = None  # [N_clip, d_m]
    objects: torch.Tensor | None = None  # [N', d_o]


RewardName = Literal["cider", "scores"]


class CaptionReward(Protocol):
    """Scores single captions: caption i is one of video ``videos[i]``; larger is better."""

    def __call__(self, videos: Sequence[str], captions: Sequence[str]) -> np.ndarray: ...


class CaptionMetric(Protocol):
    """Scores a set of captions, one a video, against references; larger is better."""

    def __call__(self, hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> float: ...

    def reward(self, references: Mapping[str, Sequence[str]], name: RewardName = "cider") -> CaptionReward:
        """For many captions of a video, to train by: the same measure, or all scores of the set."""
        ...

    def worth(self, references: Mapping[str, Sequence[str]]) -> CaptionReward:
        """What captions are worth to the scores of the set, to choose among many of a video."""
        ...

    def agreement(self, references: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        """How well each reference would do against the others of its video, by this measure."""
        ...
