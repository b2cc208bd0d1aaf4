"""Keywords of a video that has no sentence: those of the training sentences nearest to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fewcap.core.config.train import KeywordConfig
from fewcap.text.keywords import keywords


@dataclass(frozen=True)
class Keyword:
    """A noun or verb, and the share of the retrieved sentences, weighted by similarity, that hold it."""

    word: str
    weight: float


@dataclass(frozen=True)
class SentenceBank:
    """Sentences to retrieve from, with their embeddings by the video-text model's text side."""

    texts: tuple[str, ...]
    owners: tuple[str, ...]  # video id
    keywords: tuple[tuple[str, ...], ...]
    embeddings: np.ndarray  # [n, d_s], rows of length one

    @classmethod
    def build(cls, texts: Sequence[str], owners: Sequence[str], embeddings: np.ndarray) -> SentenceBank:
        return cls(tuple(texts), tuple(owners), tuple(tuple(keywords(text)) for text in texts), embeddings)

    def similarities(self, videos: np.ndarray, exclude: Sequence[str] | None = None) -> np.ndarray:
        """Videos [n, d_s] against the bank [n, sentences]; ``exclude`` names a video for each row whose sentences
        are left out: a training video must not find its own."""
        scores = videos @ self.embeddings.T
        if exclude is not None:
            owners = np.asarray(self.owners)
            scores[np.asarray(exclude)[:, None] == owners[None, :]] = -np.inf
        return scores


def retrieve(bank: SentenceBank, scores: np.ndarray, config: KeywordConfig) -> list[Keyword]:
    """The best ``config.count`` keywords of the sentences nearest to a video; scores [sentences]."""
    nearest = np.argsort(-scores, kind="stable")[: config.neighbours]
    nearest = nearest[np.isfinite(scores[nearest])]
    if not len(nearest):
        return []
    shares = np.exp((scores[nearest] - scores[nearest[0]]) / config.temperature)
    shares /= shares.sum()
    weights: dict[str, float] = {}
    for share, sentence in zip(shares.tolist(), nearest.tolist(), strict=True):
        for word in bank.keywords[sentence]:
            weights[word] = weights.get(word, 0.0) + share
    ranked = sorted(weights.items(), key=lambda item: -item[1])[: config.count]  # stable: nearer sentences first
    return [Keyword(word, round(min(weight, 1.0), 6)) for word, weight in ranked]
