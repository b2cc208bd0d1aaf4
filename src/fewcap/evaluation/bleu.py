"""BLEU@1-4 as coco-caption computes it: closest reference length, no smoothing but a tiny constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewcap.evaluation.ngrams import MAX_N, ReferenceSet, matching, sum_by

Floats = NDArray[np.float64]

_SMALL, _TINY = 1e-9, 1e-15


@dataclass(frozen=True)
class BleuCounts:
    """What BLEU adds up over items; any subset of rows gives the BLEU of that subset."""

    length: Floats  # [items] words of the caption
    closest: Floats  # [items] words of the reference closest in length
    guesses: Floats  # [items, 4] n-grams of the caption
    correct: Floats  # [items, 4] of which in a reference

    def corpus(self) -> Floats:
        """BLEU@1-4 of all items together."""
        parts = (self.length, self.closest, self.guesses, self.correct)
        return BleuCounts(*(part.sum(axis=0, keepdims=True) for part in parts)).sentences()[0]

    def sentences(self) -> Floats:
        """BLEU@1-4 of every row by itself: [rows, 4]."""
        precision = np.cumprod((self.correct + _TINY) / (self.guesses + _SMALL), axis=1)
        score = precision ** (1.0 / np.arange(1, MAX_N + 1))
        ratio = (self.length + _TINY) / (self.closest + _SMALL)
        with np.errstate(over="ignore", under="ignore"):
            brevity = np.where(ratio < 1, np.exp(1 - 1 / ratio), 1.0)
        return score * brevity[:, None]


def bleu_counts(hypotheses: Sequence[str], references: ReferenceSet) -> BleuCounts:
    """Counts for tokenised captions in the order of the references."""
    grams, lengths = references.counts_of(hypotheses)
    correct = np.zeros((len(hypotheses), MAX_N))
    for n in range(MAX_N):
        best = matching(grams[n].keys, references.largest[n].keys, references.largest[n].count)
        clipped = np.minimum(best, grams[n].count)
        correct[:, n] = sum_by(grams[n].owner, clipped, len(hypotheses))
    guesses = np.maximum(0, lengths[:, None] - np.arange(MAX_N))
    # Of references equally close the shorter one counts: compare (distance, length) as one number.
    longest = int(references.lengths.max(initial=0)) + 1
    distance = np.abs(references.lengths - lengths[references.item_of])
    closest = np.minimum.reduceat(distance * longest + references.lengths, references.first) % longest
    return BleuCounts(lengths.astype(np.float64), closest.astype(np.float64), guesses.astype(np.float64), correct)
