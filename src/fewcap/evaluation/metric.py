"""What training measures captions by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fewcap.core.types import CaptionReward, RewardName
from fewcap.evaluation.cider import CiderD, CiderReward, Floats
from fewcap.evaluation.worth import REWARD, Worth


class CiderMetric:
    """The ``CaptionMetric`` for training: checks by CIDEr-D, rewards by it or by all scores, which also choose among
    the captions of a video.

    Keeps the last references prepared, so that each validation is fast.
    """

    def __init__(self) -> None:
        self._last: tuple[Mapping[str, Sequence[str]], CiderD] | None = None

    def __call__(self, hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> float:
        if self._last is None or (self._last[0] is not references and self._last[0] != references):
            self._last = references, CiderD.of(references)
        return self._last[1](hypotheses)

    def worth(self, references: Mapping[str, Sequence[str]]) -> Worth:
        return Worth(references)

    def reward(self, references: Mapping[str, Sequence[str]], name: RewardName = "cider") -> CaptionReward:
        return CiderReward(references) if name == "cider" else Worth(references, REWARD)

    def agreement(self, references: Mapping[str, Sequence[str]]) -> dict[str, Floats]:
        """A reference has its highest score, 10, against itself: that part is taken off."""
        videos = [video for video, group in references.items() for _ in group]
        scores = CiderReward(references)(videos, [text for group in references.values() for text in group])
        ends = np.cumsum([len(group) for group in references.values()])
        parts = zip(references, np.split(scores, ends[:-1]), strict=True)
        return {video: np.maximum(len(own) * own - 10, 0) / max(len(own) - 1, 1) for video, own in parts}
