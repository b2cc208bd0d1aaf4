"""ROUGE-L as coco-caption computes it: best precision and best recall over the references, beta 1.2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BETA = 1.2


def _position_masks(words: Sequence[str]) -> dict[str, int]:
    masks: dict[str, int] = {}
    for position, word in enumerate(words):
        masks[word] = masks.get(word, 0) | (1 << position)
    return masks


def longest_common_subsequence(masks: dict[str, int], length: int, words: Sequence[str]) -> int:
    """Length of the longest common subsequence of two sentences, a whole row of the table a step.

    ``masks`` holds for every word of one sentence the bits of its positions, ``length`` is that sentence's length.
    A bit of ``row`` is 0 where the table's row goes up (Hyyrö 2004); Python's integers have as many bits as it takes.
    """
    full = (1 << length) - 1
    row = full
    for word in words:
        mask = masks.get(word)
        if mask:
            common = row & mask
            row = ((row + common) | (row - common)) & full
    return length - row.bit_count()


def rouge_l(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """One score an item (0 to 1) for tokenised captions; the corpus score is their mean."""
    scores = np.zeros(len(hypotheses))
    for index, (hypothesis, group) in enumerate(zip(hypotheses, references, strict=True)):
        # An empty caption is one empty word here, as in coco-caption.
        words = hypothesis.split(" ")
        masks = _position_masks(words)
        precision = recall = 0.0
        for reference in set(group):
            reference_words = reference.split(" ")
            common = longest_common_subsequence(masks, len(words), reference_words)
            precision = max(precision, common / len(words))
            recall = max(recall, common / len(reference_words))
        if precision and recall:
            scores[index] = (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
    return scores
