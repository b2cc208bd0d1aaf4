"""What a captioner must beat to have learned anything: captions that need no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fewcap.core.types import KINDS, VideoFeatures, VideoItem
from fewcap.evaluation.ptb import tokenise, tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray


def most_frequent_caption(training: Sequence[VideoItem]) -> str | None:
    """The sentence that most training videos have; of equally frequent ones that of the most usual words."""
    different = [{tokenise(caption) for caption in item.captions} for item in training]
    sentences = Counter(sentence for group in different for sentence in group if sentence)
    if not sentences:
        return None
    largest = max(sentences.values())
    usual: Counter[str] = Counter()
    for sentence, times in sentences.items():
        usual.update(dict.fromkeys(tokens(sentence), times))

    def usualness(sentence: str) -> tuple[float, str]:
        words = tokens(sentence)
        return sum(usual[word] for word in words) / len(words), sentence

    return max((sentence for sentence, times in sentences.items() if times == largest), key=usualness)


def nearest_neighbours(
    training: Sequence[VideoItem], videos: Sequence[VideoItem], features: Path
) -> dict[str, tuple[str, str]]:
    """For each video the training video that looks most like it: its id and its first caption.

    Looks are mean-pooled features of each kind, centred, scaled to equal length and put side by side.
    """
    from fewcap.features.store import FeatureStore

    store = FeatureStore(features)
    known = set(store.ids)
    bank = [item for item in training if item.id in known and item.captions]
    asked = [item for item in videos if item.id in known]
    if not bank or not asked:
        return {}
    kinds = [kind for kind in KINDS if kind in store.kinds]
    pooled = [_pooled(store[item.id], kinds) for item in (*bank, *asked)]
    parts = []
    for index in range(len(kinds)):
        rows = np.stack([vectors[index] for vectors in pooled])
        rows = rows - rows[: len(bank)].mean(axis=0)
        parts.append(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-8))
    looks = np.concatenate(parts, axis=1)  # [bank + asked, sum of dimensions]
    similarity = looks[len(bank) :] @ looks[: len(bank)].T
    best = similarity.argmax(axis=1)
    return {item.id: (bank[place].id, bank[place].captions[0]) for item, place in zip(asked, best, strict=True)}


def _pooled(features: VideoFeatures, kinds: Sequence[str]) -> list[NDArray[np.float32]]:
    vectors = []
    for kind in kinds:
        tensor = getattr(features, kind)  # [n, d]
        vectors.append(tensor.float().mean(dim=0).numpy())
    return vectors
