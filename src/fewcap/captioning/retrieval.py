"""Keywords of a video that has no sentence: those of the training sentences nearest to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fewcap.core.config.train import KeywordConfig
from fewcap.pseudo.videotext import Tower
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

    def seen_by(self, tower: Tower) -> SentenceBank:
        """A bank of the sentence encoder's own embeddings as a video-text model sees it."""
        return replace(self, embeddings=tower.texts(self.embeddings))

    def joined(self, other: SentenceBank) -> SentenceBank:
        """Both banks' sentences."""
        return SentenceBank(
            self.texts + other.texts,
            self.owners + other.owners,
            self.keywords + other.keywords,
            np.concatenate([self.embeddings, other.embeddings]),
        )

    def similarities(self, videos: np.ndarray, exclude: Sequence[str] | None = None) -> np.ndarray:
        """Videos [n, d_s] against the bank [n, sentences]; ``exclude`` names a video for each row whose sentences
        are left out: a training video must not find its own."""
        scores: np.ndarray = videos @ self.embeddings.T
        if exclude is not None:
            own: dict[str, list[int]] = {}
            for sentence, owner in enumerate(self.owners):
                own.setdefault(owner, []).append(sentence)
            for row, video in zip(scores, exclude, strict=True):
                row[own.get(video, [])] = -np.inf
        return scores

    def compact(self, limit: int) -> SentenceBank:
        """At most ``limit`` sentences: of each video the one nearest to the mean of its own, then the next ones."""
        if not limit or limit >= len(self.texts):
            return self
        codes = np.unique(np.asarray(self.owners), return_inverse=True)[1]
        means = np.zeros((codes.max() + 1, self.embeddings.shape[1]), dtype=np.float32)
        np.add.at(means, codes, self.embeddings)
        typical = (means[codes] * self.embeddings).sum(1) / np.linalg.norm(means, axis=1)[codes].clip(1e-9)
        order = np.lexsort((-typical, codes))  # by video, the most typical sentence first
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order)) - np.searchsorted(codes[order], codes[order])
        kept = np.sort(np.lexsort((-typical, rank))[:limit]).tolist()
        return SentenceBank(
            tuple(self.texts[i] for i in kept),
            tuple(self.owners[i] for i in kept),
            tuple(self.keywords[i] for i in kept),
            self.embeddings[kept],
        )


def nearest_sentences(scores: np.ndarray, count: int, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the ``count`` sentences nearest to a video, nearest first, and their shares; scores [sentences]."""
    count = min(count, len(scores))
    nearest = np.sort(np.argpartition(-scores, count - 1)[:count]) if count else np.zeros(0, dtype=np.int64)
    nearest = nearest[np.argsort(-scores[nearest], kind="stable")]
    nearest = nearest[np.isfinite(scores[nearest])]
    if not len(nearest):
        return nearest, np.zeros(0, dtype=scores.dtype)
    shares = np.exp((scores[nearest] - scores[nearest[0]]) / temperature)
    return nearest, shares / shares.sum()


def retrieve(bank: SentenceBank, scores: np.ndarray, config: KeywordConfig) -> list[Keyword]:
    """The best ``config.count`` keywords of the sentences nearest to a video; scores [sentences]."""
    nearest, shares = nearest_sentences(scores, config.neighbours, config.temperature)
    weights: dict[str, float] = {}
    for share, sentence in zip(shares.tolist(), nearest.tolist(), strict=True):
        for word in bank.keywords[sentence]:
            weights[word] = weights.get(word, 0.0) + share
    ranked = sorted(weights.items(), key=lambda item: -item[1])[: config.count]  # stable: nearer sentences first
    return [Keyword(word, round(min(weight, 1.0), 6)) for word, weight in ranked]
