"""Choosing among the best captions the one that is agreed with most (minimum Bayes risk).

The likeliest caption is often an outlier; the one closest to all likely captions loses least whatever is true. The
captions vote on one another, each by its probability, and so may sentences that people wrote of similar videos: all of
them, or the best of several, since a caption that one person might have written is right even if others would not.
Closeness is that of CIDEr-D: n-grams up to four words, weighted by how rare they are among the training sentences.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fewcap.captioning.decode import Hypothesis

Words = tuple[int, ...]
_LENGTHS = (1, 2, 3, 4)
_LENGTH_SPREAD = 6.0  # the sigma of CIDEr-D's penalty for different lengths
# Beside people's sentences a caption votes with this power of its probability, and they with this weight (docs/LOG.md)
_TRUST, _WEIGHT = 0.3, 1.0
_TRUST_BEST, _WEIGHT_BEST = 0.5, 0.5  # where the best of several of them counts


@dataclass(frozen=True)
class Voters:
    """Training sentences that vote on the captions of a video."""

    sentences: np.ndarray  # [k], their numbers
    shares: np.ndarray  # [k], of the vote; their sum is one
    best_of: int = 0  # the best of so many, drawn by their shares, votes; 0: all do

    def agreement(self, closeness: np.ndarray) -> np.ndarray:
        """Of captions, by their closeness to each sentence: [captions, k] → [captions]."""
        if not self.best_of:
            return closeness @ self.shares
        order = closeness.argsort(1)
        below = self.shares[order].cumsum(1).clip(0, 1) ** self.best_of  # that no drawn sentence is closer
        return (np.take_along_axis(closeness, order, 1) * np.diff(below, axis=1, prepend=0)).sum(1)


@dataclass(frozen=True)
class _Vector:
    """The n-grams of a sentence."""

    words: int
    grams: tuple[dict[Words, float], ...]  # for each length of n-grams, their counts times their rarity
    norms: tuple[float, ...]


class Consensus:
    """Knows the rarity of n-grams; orders hypotheses by their expected closeness to what might be said."""

    def __init__(self, sentences: Iterable[Sequence[int]]) -> None:
        self._sentences = [tuple(sentence) for sentence in sentences]
        self._holding: Counter[Words] = Counter()  # sentences that hold an n-gram
        for sentence in self._sentences:
            self._holding.update({gram for n in _LENGTHS for gram in _grams(sentence, n)})
        self._of_sentences: dict[int, _Vector] = {}

    def order(self, hypotheses: Sequence[Hypothesis], voters: Voters | None = None) -> list[Hypothesis]:
        """The hypotheses, best first; ``voters`` have as many votes as they together, the best of them half as many."""
        if len(hypotheses) < 2:
            return list(hypotheses)
        trust, weight = 1.0, 0.0
        if voters is not None:
            trust, weight = (_TRUST_BEST, _WEIGHT_BEST) if voters.best_of else (_TRUST, _WEIGHT)
        agreed = self.among(hypotheses, trust)
        if voters is not None:
            agreed = agreed + weight * voters.agreement(self.to_sentences(hypotheses, voters))
        return by_merit(hypotheses, agreed)

    def among(self, hypotheses: Sequence[Hypothesis], trust: float) -> np.ndarray:
        """How much the captions agree with each, by ``trust``, the power of their probabilities: [captions]."""
        own = [self._vector(h.words) for h in hypotheses]
        log_probability = np.array([h.log_probability for h in hypotheses])
        shares = np.exp((log_probability - log_probability.max()) * trust)
        return np.asarray(_closeness(own, own) @ (shares / shares.sum()))

    def to_sentences(self, hypotheses: Sequence[Hypothesis], voters: Voters) -> np.ndarray:
        """Closeness of each caption to each voting sentence: [captions, k]."""
        sentences = [self._of(i) for i in voters.sentences.tolist()]
        return _closeness([self._vector(h.words) for h in hypotheses], sentences)

    def _of(self, sentence: int) -> _Vector:
        if sentence not in self._of_sentences:
            self._of_sentences[sentence] = self._vector(self._sentences[sentence])
        return self._of_sentences[sentence]

    def _vector(self, words: Words) -> _Vector:
        total = math.log(max(len(self._sentences), 2))
        grams = tuple(
            {
                gram: count * (total - math.log(max(self._holding[gram], 1)))
                for gram, count in Counter(_grams(words, n)).items()
            }
            for n in _LENGTHS
        )
        return _Vector(len(words), grams, tuple(math.sqrt(sum(x * x for x in own.values())) for own in grams))


def by_merit(hypotheses: Sequence[Hypothesis], merits: np.ndarray) -> list[Hypothesis]:
    """The best first; of equals the one with the better score."""
    places = sorted(range(len(hypotheses)), key=lambda i: (-merits[i], -hypotheses[i].score))
    return [hypotheses[i] for i in places]


def _grams(words: Words, n: int) -> list[Words]:
    return [words[i : i + n] for i in range(len(words) - n + 1)]


def _closeness(captions: Sequence[_Vector], others: Sequence[_Vector]) -> np.ndarray:
    """CIDEr-D of each caption against each other sentence, without its factor of ten: [captions, others]."""
    total = np.zeros((len(captions), len(others)))
    for n in range(len(_LENGTHS)):
        # n-grams of the captions only: no other one can be shared
        place = {gram: i for i, gram in enumerate(dict.fromkeys(g for c in captions for g in c.grams[n]))}
        mine, theirs = (_dense([s.grams[n] for s in side], place) for side in (captions, others))
        shared = np.stack([(np.minimum(row, theirs) * theirs).sum(1) for row in mine])
        norms = np.outer([c.norms[n] for c in captions], [o.norms[n] for o in others])
        total += np.divide(shared, norms, out=np.zeros_like(shared), where=norms > 0)
    apart = np.subtract.outer([c.words for c in captions], [o.words for o in others])
    return total / len(_LENGTHS) * np.exp(-(apart**2) / (2 * _LENGTH_SPREAD**2))


def _dense(sentences: Sequence[dict[Words, float]], place: dict[Words, int]) -> np.ndarray:
    """[sentences, n-grams of ``place``]"""
    found = np.zeros((len(sentences), len(place)))
    for row, grams in zip(found, sentences, strict=True):
        for gram, weight in grams.items():
            if gram in place:
                row[place[gram]] = weight
    return found
