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
from fewcap.text.closeness import LENGTHS, Gram, Grams, closeness, grams

Words = tuple[int, ...]
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


class Consensus:
    """Knows the rarity of n-grams; judges hypotheses by their expected closeness to what might be said."""

    def __init__(self, sentences: Iterable[Sequence[int]]) -> None:
        self._sentences = [tuple(sentence) for sentence in sentences]
        self._holding: Counter[Gram] = Counter()  # sentences that hold an n-gram
        for sentence in self._sentences:
            self._holding.update({gram for n in LENGTHS for gram in grams(sentence, n)})
        self._of_sentences: dict[int, Grams] = {}

    def merits(self, hypotheses: Sequence[Hypothesis], voters: Voters | None = None) -> np.ndarray:
        """[captions]; ``voters`` have as many votes as the captions together, the best of them half as many."""
        trust, weight = 1.0, 0.0
        if voters is not None:
            trust, weight = (_TRUST_BEST, _WEIGHT_BEST) if voters.best_of else (_TRUST, _WEIGHT)
        agreed = self.among(hypotheses, trust)
        if voters is not None:
            agreed = agreed + weight * voters.agreement(self.to_sentences(hypotheses, voters))
        return agreed

    def among(self, hypotheses: Sequence[Hypothesis], trust: float) -> np.ndarray:
        """How much the captions agree with each, by ``trust``, the power of their probabilities: [captions]."""
        own = [self._grams(h.words) for h in hypotheses]
        log_probability = np.array([h.log_probability for h in hypotheses])
        shares = np.exp((log_probability - log_probability.max()) * trust)
        return np.asarray(closeness(own, own) @ (shares / shares.sum()))

    def to_sentences(self, hypotheses: Sequence[Hypothesis], voters: Voters) -> np.ndarray:
        """Closeness of each caption to each voting sentence: [captions, k]."""
        sentences = [self._of(i) for i in voters.sentences.tolist()]
        return closeness([self._grams(h.words) for h in hypotheses], sentences)

    def _of(self, sentence: int) -> Grams:
        if sentence not in self._of_sentences:
            self._of_sentences[sentence] = self._grams(self._sentences[sentence])
        return self._of_sentences[sentence]

    def _grams(self, words: Words) -> Grams:
        total = math.log(max(len(self._sentences), 2))
        return Grams.of(words, lambda gram: total - math.log(max(self._holding[gram], 1)))


def by_merit(hypotheses: Sequence[Hypothesis], merits: np.ndarray) -> list[Hypothesis]:
    """The best first; of equals the one with the better score."""
    places = sorted(range(len(hypotheses)), key=lambda i: (-merits[i], -hypotheses[i].score))
    return [hypotheses[i] for i in places]
