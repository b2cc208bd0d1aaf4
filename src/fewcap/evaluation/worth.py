"""What a caption is worth to the scores of the whole set that it is one of, without Java.

CIDEr-D is a mean over captions, so a caption adds its own. METEOR is not: counts are added up first, so that a long
caption weighs more than a short one, and what a caption adds is the slope of the sum's score along its counts.
Here METEOR knows neither stems nor synonyms and all words weigh alike; the nearest reference counts, as in METEOR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fewcap.evaluation.cider import CiderReward, Floats
from fewcap.evaluation.ptb import tokenise

_ALPHA, _BETA, _GAMMA = 0.85, 0.2, 0.6  # METEOR's: weight of recall, and its penalty for fragments
_CIDER = 0.5  # of CIDEr-D beside METEOR, both as parts of their means (docs/LOG.md)


@dataclass(frozen=True)
class _Sentence:
    words: tuple[str, ...]
    counts: Counter[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, text: str) -> _Sentence:
        words = tuple(tokenise(text).split())
        return cls(words, Counter(words), frozenset(pairwise(words)))


class Worth:
    """The ``CaptionReward`` of captions that are chosen among: CIDEr-D and METEOR's share, for any number a video."""

    def __init__(self, references: Mapping[str, Sequence[str]]) -> None:
        self._cider = CiderReward(references)
        self._references = {video: [_Sentence.of(text) for text in group] for video, group in references.items()}

    def __call__(self, videos: Sequence[str], captions: Sequence[str]) -> Floats:
        """Larger is better; the mean of all is the point that slopes are taken at."""
        cider = self._cider(videos, captions)
        counts = np.array(
            [_counts(_Sentence.of(text), self._references[video]) for video, text in zip(videos, captions, strict=True)]
        )
        mean = counts.mean(0)
        meteor = (counts - mean) @ _slope(*mean.tolist()) / max(_score(*mean.tolist()), 1e-9)
        return np.asarray(meteor + _CIDER * cider / max(float(cider.mean()), 1e-9))


def _counts(caption: _Sentence, references: Sequence[_Sentence]) -> tuple[float, ...]:
    """Words of the caption, of the reference that scores best, matches and runs of them."""
    return max((_matched(caption, reference) for reference in references), key=lambda counts: _score(*counts))


def _matched(caption: _Sentence, reference: _Sentence) -> tuple[float, float, float, float]:
    length, reference_length = float(len(caption.words)), float(len(reference.words))
    matches = sum(min(count, reference.counts[word]) for word, count in caption.counts.items())
    if caption.words == reference.words:
        return length, reference_length, float(matches), 0.0  # METEOR: not fragmented at all
    kept = sum(pair in reference.pairs for pair in pairwise(caption.words))
    return length, reference_length, float(matches), float(max(matches - kept, min(matches, 1)))


def _score(length: float, reference_length: float, matches: float, runs: float) -> float:
    if not matches:
        return 0.0
    mean = matches / ((1 - _ALPHA) * length + _ALPHA * reference_length)
    return mean * (1 - _GAMMA * (runs / matches) ** _BETA)


def _slope(length: float, reference_length: float, matches: float, runs: float) -> Floats:
    """Of the score, along each of its counts [4]."""
    if not matches:
        return np.zeros(4)
    whole = (1 - _ALPHA) * length + _ALPHA * reference_length
    mean, fragments = matches / whole, runs / matches
    kept = 1 - _GAMMA * fragments**_BETA
    steep = mean * _GAMMA * _BETA * fragments ** (_BETA - 1) if fragments else 0.0  # of the penalty
    return np.array(
        [
            -mean * kept / whole * (1 - _ALPHA),
            -mean * kept / whole * _ALPHA,
            kept / whole + steep * fragments / matches,
            -steep / matches,
        ]
    )
