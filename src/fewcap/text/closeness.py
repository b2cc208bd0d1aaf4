"""How close sentences are to one another, as CIDEr-D has it: n-grams up to four words, rare ones count more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

Gram = tuple[Hashable, ...]
LENGTHS = (1, 2, 3, 4)
_LENGTH_SPREAD = 6.0  # the sigma of CIDEr-D's penalty for different lengths


@dataclass(frozen=True)
class Grams:
    """The n-grams of a sentence."""

    words: int
    weights: tuple[dict[Gram, float], ...]  # for each length of n-grams, their counts times their rarity
    norms: tuple[float, ...]

    @classmethod
    def of(cls, words: Sequence[Hashable], rarity: Callable[[Gram], float]) -> Grams:
        counts = [Counter(grams(words, n)) for n in LENGTHS]
        weights = tuple({gram: count * rarity(gram) for gram, count in own.items()} for own in counts)
        return cls(len(words), weights, tuple(math.sqrt(sum(x * x for x in own.values())) for own in weights))


def grams(words: Sequence[Hashable], n: int) -> list[Gram]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def closeness(sentences: Sequence[Grams], others: Sequence[Grams]) -> np.ndarray:
    """CIDEr-D of each sentence against each other one, without its factor of ten: [sentences, others]."""
    total = np.zeros((len(sentences), len(others)))
    for n in range(len(LENGTHS)):
        # n-grams of the sentences only: no other one can be shared
        place = {gram: i for i, gram in enumerate(dict.fromkeys(g for s in sentences for g in s.weights[n]))}
        mine, theirs = (_dense([s.weights[n] for s in side], place) for side in (sentences, others))
        shared = np.stack([(np.minimum(row, theirs) * theirs).sum(1) for row in mine])
        norms = np.outer([s.norms[n] for s in sentences], [o.norms[n] for o in others])
        total += np.divide(shared, norms, out=np.zeros_like(shared), where=norms > 0)
    apart = np.subtract.outer([s.words for s in sentences], [o.words for o in others])
    return total / len(LENGTHS) * np.exp(-(apart**2) / (2 * _LENGTH_SPREAD**2))


def standardised(x: np.ndarray) -> np.ndarray:
    """With mean 0 and deviation 1; all alike: zeros."""
    spread = float(x.std()) if len(x) else 0.0
    return (x - x.mean()) / spread if spread > 1e-9 else np.zeros_like(x)


def _dense(sentences: Sequence[dict[Gram, float]], place: dict[Gram, int]) -> np.ndarray:
    """[sentences, n-grams of ``place``]"""
    found = np.zeros((len(sentences), len(place)))
    for row, own in zip(found, sentences, strict=True):
        for gram, weight in own.items():
            if gram in place:
                row[place[gram]] = weight
    return found
