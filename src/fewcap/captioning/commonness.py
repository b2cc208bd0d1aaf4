"""Captions that a captioner has ready for any video (beyond the paper).

"a man is talking" is likely for a great many videos, so it tells little of one; where the captioner sees little it says
just that. A caption therefore loses by the logarithm of the share of training videos that it is likely for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from fewcap.captioning.choice import ARGUMENTS, Ballot

SAMPLE = 1000  # training videos that tell what is common
RARE = 1e-3  # a caption likely for a smaller share of them loses nothing
_TRUST = 0.5  # the power of its probability that makes a caption likely
_PROBABILITY = ARGUMENTS.index("probability")


def common_captions(ballots: Sequence[Ballot]) -> dict[str, float]:
    """The share of videos that each caption is likely for, the video for which it is likeliest left out."""
    total: Counter[str] = Counter()
    largest: dict[str, float] = {}
    for ballot in ballots:
        log_probability = ballot.arguments[:, _PROBABILITY]
        shares = np.exp((log_probability - log_probability.max()) * _TRUST)
        for words, share in zip(ballot.captions, (shares / shares.sum()).tolist(), strict=True):
            caption = " ".join(words)
            total[caption] += share
            largest[caption] = max(largest.get(caption, 0.0), share)
    found = {caption: (value - largest[caption]) / len(ballots) for caption, value in total.most_common()}
    return {caption: round(share, 6) for caption, share in found.items() if share >= RARE}


def readiness(captions: Sequence[Sequence[str]], common: Mapping[str, float]) -> np.ndarray:
    """How readily each of the captions (their words) is said of any video: [captions], 0 for what is not common."""
    return np.log1p([common.get(" ".join(words), 0.0) / RARE for words in captions])


def less_common(merits: np.ndarray, ready: np.ndarray, rarity: float) -> np.ndarray:
    """Merits of a video's captions [n], in standard deviations, less ``rarity`` times their readiness [n]."""
    spread = float(merits.std())
    return np.asarray((merits - merits.mean()) / (spread if spread > 1e-9 else 1.0) - rarity * ready)
