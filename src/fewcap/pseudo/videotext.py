"""The two-tower video-text model: pooled features on one side, a frozen sentence encoder on the other.

It ranks pseudo sentences and retrieves keywords (the paper uses X-CLIP for the first). A few hundred pairs can not
train much, so the video tower is one linear map into the sentence encoder's space: a ridge regression in closed form,
refined by InfoNCE when the configuration asks for steps of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F

from fewcap.core.config.train import VideoTextConfig
from fewcap.core.errors import FewcapError
from fewcap.core.types import KINDS, VideoFeatures
from fewcap.text.embed import SentenceEncoder


class VideoTextModel(Protocol):
    """Anything that puts videos and sentences into one space; the dot product of two rows is their similarity."""

    def embed_videos(self, videos: Sequence[VideoFeatures]) -> np.ndarray:
        """[n, d_s], rows of length one."""
        ...

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """[m, d_s], rows of length one."""
        ...


def pooled(videos: Sequence[VideoFeatures], dims: Mapping[str, int]) -> np.ndarray:
    """[n, sum of dims]: the mean vector of each kind, of length one; zeros where a video lacks a kind."""
    rows = np.zeros((len(videos), sum(dims.values())), dtype=np.float32)
    for row, video in zip(rows, videos, strict=True):
        start = 0
        for kind, dim in dims.items():
            vectors = getattr(video, kind)
            if vectors is not None and len(vectors):
                mean = np.asarray(vectors.float().mean(0))
                row[start : start + dim] = mean / max(float(np.linalg.norm(mean)), 1e-12)
            start += dim
    return rows


@dataclass(frozen=True)
class Tower:
    """The video side as numbers: x → (x - centre) · map; sentences are centred too, for all captions look alike."""

    centre: np.ndarray  # [D]
    map: np.ndarray  # [D, d_s]
    text_centre: np.ndarray  # [d_s]

    def videos(self, x: np.ndarray) -> np.ndarray:
        """Pooled features [n, D] → unit vectors [n, d_s]."""
        return _unit((x - self.centre) @ self.map)

    def texts(self, embeddings: np.ndarray) -> np.ndarray:
        """Sentence embeddings [m, d_s] → unit vectors [m, d_s]."""
        return _unit(embeddings - self.text_centre)


def fit_tower(
    x: np.ndarray, embeddings: np.ndarray, video_of: np.ndarray, config: VideoTextConfig, *, seed: int
) -> Tower:
    """From pooled features [n, D], sentence embeddings [p, d_s] and the video of each sentence [p]."""
    text_centre = embeddings.mean(0)
    texts = _unit(embeddings - text_centre)
    targets = np.zeros((len(x), texts.shape[1]), dtype=np.float32)
    np.add.at(targets, video_of, texts)
    targets /= np.maximum(np.bincount(video_of, minlength=len(x)), 1)[:, None]
    centre = x.mean(0)
    weights = ridge((x - centre).astype(np.float64), targets.astype(np.float64), config.ridge)
    if config.steps:
        weights = _contrast(x - centre, texts, video_of, weights, config, seed)
    return Tower(centre, weights.astype(np.float32), text_centre)


def ridge(x: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """argmin |xW - y|² + λ|W|², λ relative to the mean squared length of x; solved in the smaller of its two forms."""
    rows, columns = x.shape
    strength = penalty * max(float((x**2).sum()) / rows, 1e-12)
    if rows <= columns:
        return x.T @ np.linalg.solve(x @ x.T + strength * np.eye(rows), y)
    return np.linalg.solve(x.T @ x + strength * np.eye(columns), x.T @ y)


def _contrast(
    x: np.ndarray,
    texts: np.ndarray,
    video_of: np.ndarray,
    start: np.ndarray,
    config: VideoTextConfig,
    seed: int,
) -> np.ndarray:
    """Refines the map by InfoNCE in both directions; sentences of the same video are no negatives of one another."""
    generator = torch.Generator().manual_seed(seed)
    scale = float(np.sqrt((x**2).mean())) or 1.0
    inputs = torch.from_numpy((x / scale).astype(np.float32))
    sentences, owner = torch.from_numpy(texts), torch.from_numpy(video_of)
    weight = torch.from_numpy((start * scale).astype(np.float32)).requires_grad_()
    optimizer = torch.optim.AdamW([weight], lr=config.learning_rate, weight_decay=0.01)
    for _ in range(config.steps):
        pairs = torch.randperm(len(owner), generator=generator)[: config.batch]
        videos = owner[pairs]
        kept = (torch.rand(len(pairs), inputs.shape[1], generator=generator) >= config.dropout) / (1 - config.dropout)
        similarity = F.normalize((inputs[videos] * kept) @ weight, dim=-1) @ sentences[pairs].T / config.temperature
        same = (videos[:, None] == videos[None, :]) & ~torch.eye(len(pairs), dtype=torch.bool)
        similarity = similarity.masked_fill(same, float("-inf"))
        places = torch.arange(len(pairs))
        loss = F.cross_entropy(similarity, places) + F.cross_entropy(similarity.T, places)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weight.detach().numpy() / scale


class TwoTower:
    """The default video-text model: one tower for videos, the sentence encoder for texts."""

    def __init__(self, tower: Tower, dims: Mapping[str, int], encoder: SentenceEncoder) -> None:
        self.tower, self.dims, self.encoder = tower, dict(dims), encoder

    @classmethod
    def fit(
        cls,
        videos: Sequence[VideoFeatures],
        sentences: Sequence[Sequence[str]],
        config: VideoTextConfig,
        *,
        seed: int,
        encoder: SentenceEncoder | None = None,
    ) -> TwoTower:
        """Learns from videos and the sentences that exist for each of them."""
        encoder = encoder or SentenceEncoder.load(config.encoder)
        dims = feature_dims(videos)
        owner = np.array([i for i, own in enumerate(sentences) for _ in own], dtype=np.int64)
        if not len(owner):
            raise FewcapError("the video-text model needs sentences: none of the training videos has a caption.")
        embeddings = encoder.encode([sentence for own in sentences for sentence in own])
        return cls(fit_tower(pooled(videos, dims), embeddings, owner, config, seed=seed), dims, encoder)

    def embed_videos(self, videos: Sequence[VideoFeatures]) -> np.ndarray:
        return self.tower.videos(pooled(videos, self.dims))

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self.tower.texts(self.encoder.encode(texts))

    def score(self, video: VideoFeatures, texts: Sequence[str]) -> np.ndarray:
        """Cosine similarity of the video and each text [m]."""
        return self.embed_texts(texts) @ self.embed_videos([video])[0]


def feature_dims(videos: Sequence[VideoFeatures]) -> dict[str, int]:
    """Sizes of the kinds that occur."""
    dims: dict[str, int] = {}
    for kind in KINDS:
        found = (getattr(video, kind) for video in videos)
        size = next((int(x.shape[1]) for x in found if x is not None), None)
        if size is not None:
            dims[kind] = size
    return dims


def _unit(x: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.asarray(x / np.maximum(lengths, 1e-12), dtype=np.float32)
