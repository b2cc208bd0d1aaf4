"""When a caption deserves little confidence: its score is one of the lowest that the model gives to ordinary videos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fewcap.captioning.captioner import Captioner
from fewcap.core.types import VideoFeatures
from fewcap.data.prepare import read_dataset
from fewcap.features.store import FeatureStore

SHARE = 0.1  # of the validation videos whose captions would be marked
FEWEST = 20  # videos that say something about a tenth


def doubtful_below(captioner: Captioner, videos: Sequence[VideoFeatures]) -> float | None:
    """The score that a tenth of the captions of validation videos stay below; None for too few of them."""
    if len(videos) < FEWEST:
        return None
    scores = [caption.score for caption in captioner.caption(videos) if caption.score is not None]
    return round(float(np.quantile(scores, SHARE)), 4)


def of_project(captioner: Captioner, data: Path, features: Path) -> float | None:
    """The same by the validation videos of a project's folders."""
    store = FeatureStore(features)
    return doubtful_below(captioner, [store[item.id] for item in read_dataset(data).split("val") if item.id in store])
