"""All metrics of a run as sums over its items, so that any resampling of items is one matrix product.

Every metric here is a function of sums: BLEU of n-gram counts, METEOR of match counts, ROUGE-L and CIDEr-D of scores
(CIDEr-D with the document frequencies of the whole set). A row of ``columns`` is what one item adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewcap.evaluation.bleu import BleuCounts, bleu_counts
from fewcap.evaluation.cider import CiderD
from fewcap.evaluation.meteor import Meteor, MeteorCounts
from fewcap.evaluation.ngrams import MAX_N, ReferenceSet
from fewcap.evaluation.ptb import tokenise
from fewcap.evaluation.rouge import rouge_l

Floats = NDArray[np.float64]

NAMES = {
    "bleu1": "BLEU@1",
    "bleu2": "BLEU@2",
    "bleu3": "BLEU@3",
    "bleu4": "BLEU@4",
    "meteor": "METEOR",
    "rouge_l": "ROUGE-L",
    "cider_d": "CIDEr-D",
}
HEADLINE = ("bleu4", "meteor", "rouge_l", "cider_d")  # the four of the paper

_BLEU = slice(3, 5 + 2 * MAX_N)
_METEOR = slice(5 + 2 * MAX_N, None)


class PreparedReferences:
    """Tokenised references with everything that does not depend on the captions."""

    def __init__(self, references: Mapping[str, Sequence[str]]) -> None:
        self.tokenised = {key: [tokenise(caption) for caption in group] for key, group in references.items()}
        self.ngrams = ReferenceSet(self.tokenised)
        self.cider = CiderD(self.ngrams)

    @property
    def ids(self) -> tuple[str, ...]:
        return self.ngrams.ids


@dataclass(frozen=True)
class Measurement:
    """What each item of a run adds to the metrics."""

    ids: tuple[str, ...]
    columns: Floats  # [items, 1 + rouge + cider + 10 of BLEU (+ 23 of METEOR)]

    @property
    def has_meteor(self) -> bool:
        return self.columns.shape[1] > _METEOR.start

    def corpus(self) -> dict[str, float]:
        """Every metric of the whole run, × 100."""
        return {name: float(values[0]) for name, values in metrics_of(self.columns.sum(axis=0, keepdims=True)).items()}

    def items(self) -> dict[str, Floats]:
        """Every metric of every item, × 100."""
        return metrics_of(self.columns)

    def rows(self) -> list[dict[str, Any]]:
        """As JSON, one object an item: its scores, and the counts from which the run's scores follow."""
        scores = self.items()
        return [
            {
                "id": identifier,
                **{name: round(float(values[index]), 4) for name, values in scores.items()},
                "counts": self.columns[index].tolist(),
            }
            for index, identifier in enumerate(self.ids)
        ]

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> Measurement:
        return cls(tuple(row["id"] for row in rows), np.array([row["counts"] for row in rows], dtype=np.float64))

    def only(self, ids: Sequence[str]) -> Measurement:
        place = {identifier: index for index, identifier in enumerate(self.ids)}
        return Measurement(tuple(ids), self.columns[[place[identifier] for identifier in ids]])


def metrics_of(sums: Floats) -> dict[str, Floats]:
    """Metrics × 100 of rows of summed columns."""
    count = np.maximum(sums[:, 0], 1e-12)
    length, closest, *grams = sums[:, _BLEU].T
    guesses, correct = np.stack(grams[:MAX_N], axis=1), np.stack(grams[MAX_N:], axis=1)
    bleu = BleuCounts(length, closest, guesses, correct).sentences()
    found = {f"bleu{n + 1}": bleu[:, n] for n in range(MAX_N)}
    if sums.shape[1] > _METEOR.start:
        found["meteor"] = MeteorCounts(sums[:, _METEOR]).sentences()
    found["rouge_l"], found["cider_d"] = sums[:, 1] / count, sums[:, 2] / count
    return {name: 100.0 * values for name, values in found.items()}


def measure(captions: Mapping[str, str], references: PreparedReferences, meteor: Meteor | None) -> Measurement:
    """Compares captions with references; both must have the same ids."""
    hypotheses = [tokenise(caption) for caption in references.ngrams.align(captions)]
    groups = list(references.tokenised.values())
    bleu = bleu_counts(hypotheses, references.ngrams)
    columns = [
        np.ones((len(hypotheses), 1)),
        rouge_l(hypotheses, groups)[:, None],
        references.cider.tokenised_scores(hypotheses)[:, None],
        bleu.length[:, None],
        bleu.closest[:, None],
        bleu.guesses,
        bleu.correct,
    ]
    if meteor is not None:
        columns.append(meteor.counts(hypotheses, groups).rows)
    return Measurement(references.ids, np.concatenate(columns, axis=1))
