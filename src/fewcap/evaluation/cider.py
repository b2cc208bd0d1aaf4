"""CIDEr-D as coco-caption computes it (its ``Cider`` class is CIDEr-D: clipped counts and a length penalty)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fewcap.evaluation.ngrams import MAX_N, GramCounts, ReferenceSet, matching, pair, spans, sum_by
from fewcap.evaluation.ptb import tokenise

Floats = NDArray[np.float64]

SIGMA = 6.0


class CiderD:
    """CIDEr-D against fixed references: build once, score many runs of captions."""

    def __init__(self, references: ReferenceSet) -> None:
        self.references = references
        self._log_items = np.log(float(max(1, len(references))))
        counts = len(references.lengths)
        self._weights = [self._log_items - np.log(np.maximum(1.0, df)) for df in references.document_frequency]
        self._norms = [self._norm(grams, n, counts) for n, grams in enumerate(references.grams)]

    @classmethod
    def of(cls, references: Mapping[str, Sequence[str]]) -> CiderD:
        """From captions as people write them."""
        return cls(ReferenceSet({key: [tokenise(caption) for caption in group] for key, group in references.items()}))

    def _weight(self, n: int, gram: NDArray[np.int64]) -> Floats:
        """Inverse document frequency; n-grams that no reference has count as if one item had them."""
        known = self._weights[n]
        if not len(known):
            return np.full(len(gram), self._log_items)
        return np.where(gram < len(known), known[np.minimum(gram, len(known) - 1)], self._log_items)

    def _norm(self, grams: GramCounts, n: int, sentences: int) -> Floats:
        squares = (grams.count * self._weight(n, grams.gram)) ** 2
        return np.sqrt(sum_by(grams.owner, squares, sentences))

    def tokenised_scores(self, hypotheses: Sequence[str]) -> Floats:
        """A score of 0 to 10 an item, as coco-caption gives it, for tokenised captions in the references' order."""
        return self.scores_of(np.arange(len(hypotheses), dtype=np.int64), hypotheses)

    def scores_of(self, items: NDArray[np.int64], hypotheses: Sequence[str]) -> Floats:
        """The same for any number of captions: caption i is one of item ``items[i]``."""
        references = self.references
        if not hypotheses:
            return np.zeros(0)
        grams, lengths = references.counts_of(hypotheses)
        sizes = references.sizes[items]
        caption = np.repeat(np.arange(len(items), dtype=np.int64), sizes)  # of each pair of caption and reference
        reference = spans(references.first[items], sizes)
        # coco-caption takes the number of bigrams for the length.
        delta = np.maximum(0, lengths - 1)[caption] - np.maximum(0, references.lengths[reference] - 1)
        penalty = np.exp(-(delta.astype(np.float64) ** 2) / (2 * SIGMA**2))
        similarity = np.zeros(len(reference))
        for n in range(MAX_N):
            of_reference = references.grams[n]
            begin = np.searchsorted(of_reference.owner, reference)
            count_each = np.searchsorted(of_reference.owner, reference, side="right") - begin
            rows = spans(begin, count_each)
            pair_of = np.repeat(np.arange(len(reference), dtype=np.int64), count_each)
            own = matching(pair(caption[pair_of], of_reference.gram[rows]), grams[n].keys, grams[n].count)
            shared = np.flatnonzero(own)
            weight = self._weight(n, of_reference.gram[rows[shared]])
            count = of_reference.count[rows[shared]]
            product = np.minimum(own[shared], count) * weight * (count * weight)
            dot = sum_by(pair_of[shared], product, len(reference))
            norm = self._norm(grams[n], n, len(hypotheses))[caption] * self._norms[n][reference]
            similarity += np.divide(dot, norm, out=dot.copy(), where=norm != 0) * penalty
        return 10.0 * sum_by(caption, similarity, len(items)) / MAX_N / sizes

    def scores(self, hypotheses: Mapping[str, str]) -> dict[str, float]:
        """CIDEr-D × 100 of every item."""
        tokenised = [tokenise(caption) for caption in self.references.align(hypotheses)]
        return dict(zip(self.references.ids, (100.0 * self.tokenised_scores(tokenised)).tolist(), strict=True))

    def __call__(self, hypotheses: Mapping[str, str]) -> float:
        """CIDEr-D × 100 of the whole set."""
        values = self.scores(hypotheses)
        return sum(values.values()) / len(values) if values else 0.0


class CiderReward:
    """CIDEr-D of sampled captions, as coco-caption gives it. The end of a sentence counts as a word: a caption that
    breaks off behind "with a" must not be paid like a whole one."""

    END = " <end>"

    def __init__(self, references: Mapping[str, Sequence[str]]) -> None:
        ended = {video: [tokenise(text) + self.END for text in group] for video, group in references.items()}
        self._cider = CiderD(ReferenceSet(ended))
        self._place = {video: place for place, video in enumerate(ended)}

    def __call__(self, videos: Sequence[str], captions: Sequence[str]) -> Floats:
        items = np.array([self._place[video] for video in videos], dtype=np.int64)
        return self._cider.scores_of(items, [tokenise(caption) + self.END for caption in captions])


def cider_d(hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> float:
    """CIDEr-D × 100 of captions against references."""
    return CiderD.of(references)(hypotheses)
