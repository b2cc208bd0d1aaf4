"""Tensors from videos, keywords and sentences: the one example-maker of training and of captioning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fewcap.captioning.model import KeywordBatch, VideoBatch
from fewcap.captioning.retrieval import Keyword
from fewcap.core.config.train import ModelConfig
from fewcap.core.types import VideoFeatures
from fewcap.features.select import pad_batch, select_evenly
from fewcap.text.vocabulary import BOS, EOS, PAD, Vocabulary


def video_batch(
    videos: Sequence[VideoFeatures],
    dims: Mapping[str, int],
    config: ModelConfig,
    *,
    anchors: np.ndarray | None = None,
    hidden: np.ndarray | None = None,
    moments: np.ndarray | None = None,
) -> VideoBatch:
    """Evenly chosen vectors of each kind, padded.

    ``moments`` [B, frames], 0 to 1, says where in its part of the video each frame is taken (the middle if None);
    ``hidden`` [B, frames] hides frames, but never all of a video.
    """
    kinds = [kind for kind in ("appearance", "motion") if kind in dims]
    rows = [_frame_rows(video, kinds, config.frames) for video in videos]
    if moments is None:
        moments = np.full((len(videos), config.frames), 0.5)
    aligned: dict[str, Tensor] = {}
    mask = None
    for kind in kinds:
        chosen = [
            _aligned(getattr(video, kind), own[:n], dims[kind])
            for video, n, own in zip(videos, rows, moments, strict=True)
        ]
        aligned[kind], mask = pad_batch(chosen)
    if mask is not None and hidden is not None:
        shown = mask & ~torch.from_numpy(hidden[:, : mask.shape[1]])
        mask = torch.where(shown.any(1, keepdim=True), shown, mask)
    objects = object_mask = None
    if "objects" in dims:
        objects, object_mask = pad_batch([_rows(video.objects, config.objects, dims["objects"]) for video in videos])
        if not object_mask.any():
            objects = object_mask = None
    return VideoBatch(
        aligned.get("appearance"),
        aligned.get("motion"),
        mask,
        objects,
        object_mask,
        torch.from_numpy(anchors) if anchors is not None and config.anchor else None,
    )


def keyword_batch(rows: Sequence[Sequence[Keyword]], vocabulary: Vocabulary, count: int) -> KeywordBatch:
    """Keywords of each row, at most ``count``; words that the captioner does not know are left out."""
    words = torch.full((len(rows), count), PAD, dtype=torch.long)
    weights = torch.zeros(len(rows), count)
    for row, keywords in enumerate(rows):
        known = [(vocabulary[k.word], k.weight) for k in keywords if k.word in vocabulary][:count]
        for place, (number, weight) in enumerate(known):
            words[row, place], weights[row, place] = number, weight
    return KeywordBatch(words, weights)


def sentence_batch(sentences: Sequence[Sequence[int]], max_words: int) -> tuple[Tensor, Tensor]:
    """Numbers of words → inputs [M, T] from BOS on and targets [M, T] up to EOS, cut at ``max_words``.

    An unknown word is a target too, though decoding never says it: where people say something that is not known,
    every known word becomes unlikely, and beam search prefers a caption without such a place to a wrong word in it.
    """
    cut = [list(numbers[:max_words]) for numbers in sentences]
    length = max(len(numbers) for numbers in cut) + 1
    inputs = torch.full((len(cut), length), PAD, dtype=torch.long)
    targets = torch.full((len(cut), length), PAD, dtype=torch.long)
    for row, numbers in enumerate(cut):
        inputs[row, : len(numbers) + 1] = torch.tensor([BOS, *numbers])
        targets[row, : len(numbers) + 1] = torch.tensor([*numbers, EOS])
    return inputs, targets


def _frame_rows(video: VideoFeatures, kinds: Sequence[str], limit: int) -> int:
    counts = [len(x) for kind in kinds if (x := getattr(video, kind)) is not None]
    return min(limit, max(counts, default=0))


def _aligned(x: Tensor | None, moments: np.ndarray, dim: int) -> Tensor:
    """[M, d] → [n, d]: a row of each of n even parts, so that appearance and motion stand side by side."""
    n = len(moments)
    if x is None or not len(x):
        return torch.zeros(n, dim)
    places = ((np.arange(n) + moments) * len(x) / n + 1e-9).astype(int)
    return x.float()[places.clip(max=len(x) - 1)]


def _rows(x: Tensor | None, n: int, dim: int) -> Tensor:
    return torch.zeros(0, dim) if x is None else select_evenly(x, n).float()
