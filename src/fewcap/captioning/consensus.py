"""Choosing among the best captions the one that the others agree with most (minimum Bayes risk).

The likeliest caption is often an outlier; the one closest to all likely captions loses least whatever is true.
Closeness is that of CIDEr-D: n-grams up to four words, weighted by how rare they are among the training sentences.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from fewcap.captioning.decode import Hypothesis

Words = tuple[int, ...]
_LENGTHS = (1, 2, 3, 4)
_LENGTH_SPREAD = 6.0  # the sigma of CIDEr-D's penalty for different lengths


class Consensus:
    """Knows the rarity of n-grams; orders hypotheses by their expected closeness to one another."""

    def __init__(self, sentences: Iterable[Sequence[int]]) -> None:
        self._sentences = 0
        self._holding: Counter[Words] = Counter()  # sentences that hold an n-gram
        for sentence in sentences:
            self._sentences += 1
            self._holding.update({gram for n in _LENGTHS for gram in _grams(tuple(sentence), n)})

    def order(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """The hypotheses, best first."""
        if len(hypotheses) < 2:
            return list(hypotheses)
        top = max(h.log_probability for h in hypotheses)
        weights = [math.exp(h.log_probability - top) for h in hypotheses]
        vectors = [self._vectors(h.words) for h in hypotheses]
        agreed = [
            sum(weight * _closeness(mine, other) for weight, other in zip(weights, vectors, strict=True))
            for mine in vectors
        ]
        places = sorted(range(len(hypotheses)), key=lambda i: (-agreed[i], -hypotheses[i].score))
        return [hypotheses[i] for i in places]

    def _vectors(self, words: Words) -> tuple[int, list[dict[Words, float]]]:
        total = math.log(max(self._sentences, 2))
        return len(words), [
            {
                gram: count * (total - math.log(max(self._holding[gram], 1)))
                for gram, count in Counter(_grams(words, n)).items()
            }
            for n in _LENGTHS
        ]


def _grams(words: Words, n: int) -> list[Words]:
    return [words[i : i + n] for i in range(len(words) - n + 1)]


def _closeness(a: tuple[int, list[dict[Words, float]]], b: tuple[int, list[dict[Words, float]]]) -> float:
    """CIDEr-D of one sentence against another, without its factor of ten."""
    total = 0.0
    for mine, other in zip(a[1], b[1], strict=True):
        lengths = math.sqrt(sum(x * x for x in mine.values()) * sum(x * x for x in other.values()))
        if lengths:
            total += sum(min(x, other[gram]) * other[gram] for gram, x in mine.items() if gram in other) / lengths
    return total / len(_LENGTHS) * math.exp(-((a[0] - b[0]) ** 2) / (2 * _LENGTH_SPREAD**2))
