"""What a caption is worth to the scores of the whole set that it is one of, without Java.

CIDEr-D is a mean over captions, so a caption adds its own. METEOR and BLEU are not: their counts are added up first, so
that a long caption weighs more than a short one, and what a caption adds is the slope of the set's score along its
counts. METEOR here knows neither stems nor synonyms and all words weigh alike; the best reference counts, as there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fewcap.evaluation.bleu import Floats, bleu_counts
from fewcap.evaluation.cider import CiderReward
from fewcap.evaluation.ngrams import MAX_N, ReferenceSet
from fewcap.evaluation.ptb import tokenise

_ALPHA, _BETA, _GAMMA = 0.85, 0.2, 0.6  # METEOR's: weight of recall, and its penalty for fragments


class Weights(NamedTuple):
    """Of the scores, each as a share of itself (docs/LOG.md)."""

    meteor: float
    bleu: float
    cider: float


CHOICE = Weights(1.0, 0.4, 0.25)  # to choose among captions
REWARD = Weights(1.0, 1.0, 1.0)  # to train by


@dataclass(frozen=True)
class _Sentence:
    words: tuple[str, ...]

    @classmethod
    def of(cls, tokenised: str) -> _Sentence:
        return cls(tuple(tokenised.split()))

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(self.words)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(pairwise(self.words))


class Worth:
    """The ``CaptionReward`` by all scores; any number of captions a video."""

    def __init__(self, references: Mapping[str, Sequence[str]], weights: Weights = CHOICE) -> None:
        self._weights = weights
        self._cider = CiderReward(references)
        tokenised = {video: [tokenise(text) for text in group] for video, group in references.items()}
        self._reference_set = ReferenceSet(tokenised)
        self._references = {video: [_Sentence.of(text) for text in group] for video, group in tokenised.items()}

    def __call__(self, videos: Sequence[str], captions: Sequence[str]) -> Floats:
        """By how large a share of them the set's scores rise; slopes are taken at the mean of all captions."""
        tokenised = [tokenise(caption) for caption in captions]
        cider = self._cider(videos, captions)
        weights = self._weights
        return np.asarray(
            weights.meteor * _along(self._meteor_counts(videos, tokenised), _meteor_slope)
            + weights.bleu * _along(self._bleu_counts(videos, tokenised), _bleu_slope)
            + weights.cider * cider / max(float(cider.mean()), 1e-9)
        )

    def _meteor_counts(self, videos: Sequence[str], captions: Sequence[str]) -> Floats:
        """[captions, 4], against the reference that scores best."""
        pairs = zip(videos, map(_Sentence.of, captions), strict=True)
        return np.array([_best_match(caption, self._references[video]) for video, caption in pairs])

    def _bleu_counts(self, videos: Sequence[str], captions: Sequence[str]) -> Floats:
        """[captions, 10], in rounds of one caption a video."""
        rounds: list[dict[str, int]] = []
        seen: Counter[str] = Counter()
        for place, video in enumerate(videos):
            if seen[video] == len(rounds):
                rounds.append({})
            rounds[seen[video]][video] = place
            seen[video] += 1
        found = np.zeros((len(captions), 2 * MAX_N + 2))
        for places in rounds:
            said = [captions[places[video]] if video in places else "" for video in self._reference_set.ids]
            counts = bleu_counts(said, self._reference_set)
            rows = np.column_stack([counts.correct, counts.guesses, counts.length, counts.closest])
            for row, video in zip(rows, self._reference_set.ids, strict=True):
                if video in places:
                    found[places[video]] = row
        return found


def _along(counts: Floats, slope: Callable[[Floats], Floats]) -> Floats:
    """Counts of all captions [n, k] → how each moves the logarithm of a score of their sum [n]."""
    mean = counts.mean(0)
    return np.asarray((counts - mean) @ slope(mean))


def _best_match(caption: _Sentence, references: Sequence[_Sentence]) -> tuple[float, float, float, float]:
    """Words of the caption, of the reference that scores best, matches and runs of them."""
    return max((_matched(caption, reference) for reference in references), key=lambda counts: _meteor(*counts))


def _matched(caption: _Sentence, reference: _Sentence) -> tuple[float, float, float, float]:
    length, reference_length = float(len(caption.words)), float(len(reference.words))
    matches = sum(min(count, reference.counts[word]) for word, count in caption.counts.items())
    if caption.words == reference.words:
        return length, reference_length, float(matches), 0.0  # METEOR: not fragmented at all
    kept = sum(pair in reference.pairs for pair in pairwise(caption.words))
    return length, reference_length, float(matches), float(max(matches - kept, min(matches, 1)))


def _meteor(length: float, reference_length: float, matches: float, runs: float) -> float:
    if not matches:
        return 0.0
    mean = matches / ((1 - _ALPHA) * length + _ALPHA * reference_length)
    return mean * (1 - _GAMMA * (runs / matches) ** _BETA)


def _meteor_slope(counts: Floats) -> Floats:
    """Of the logarithm of METEOR, along each of its counts [4]."""
    length, reference_length, matches, runs = counts.tolist()
    if not matches:
        return np.zeros(4)
    whole = (1 - _ALPHA) * length + _ALPHA * reference_length
    penalty = _GAMMA * (runs / matches) ** _BETA
    steep = _BETA * penalty / (1 - penalty)  # along the logarithm of fragments
    along_runs = -steep / runs if runs else 0.0
    return np.array([-(1 - _ALPHA) / whole, -_ALPHA / whole, (1 + steep) / matches, along_runs])


def _bleu_slope(counts: Floats) -> Floats:
    """Of the logarithm of BLEU-4, along correct n-grams, guessed ones, the caption's words and the reference's [10]."""
    correct, guesses, (length, closest) = counts[:MAX_N], counts[MAX_N:-2], counts[-2:].tolist()
    slope = np.zeros(len(counts))
    found = correct > 0  # an order that nothing matches is left out
    slope[:MAX_N][found] = 1 / correct[found] / MAX_N
    slope[MAX_N:-2][found] = -1 / guesses[found] / MAX_N
    if 0 < length < closest:  # the set is too brief: log BP = 1 - closest / length
        slope[-2:] = closest / length**2, -1 / length
    return slope
