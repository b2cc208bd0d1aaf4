"""When a caption deserves little confidence, by what a model does with ordinary videos."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fewcap.captioning.captioner import Captioner
from fewcap.captioning.folder import Limits
from fewcap.core.types import VideoFeatures

SHARE = 0.1  # of the validation videos have a score below the limit
FEWEST = 20  # videos that say something about a tenth


def find_limits(captioner: Captioner, videos: Sequence[VideoFeatures]) -> Limits:
    """The score that a tenth of the captions of validation videos stay below, and the largest distance of a video."""
    if len(videos) < FEWEST:
        return Limits()
    scores = [caption.score for caption in captioner.caption(videos) if caption.score is not None]
    return Limits(round(float(np.quantile(scores, SHARE)), 4), round(float(captioner.distances(videos).max()), 4))
