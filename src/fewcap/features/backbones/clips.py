"""The frame of every network that sees a clip of frames and gives one vector."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import nn

from fewcap.features.backbones.base import Card
from fewcap.features.video import Sample


class ClipBackbone(ABC):
    """One vector a clip, clip by clip."""

    def __init__(self, network: nn.Module, card: Card, dtype: torch.dtype, device: torch.device) -> None:
        self.card = card
        self.dtype, self.device = dtype, device
        network.to(device, dtype)
        self._network = network.to(memory_format=torch.channels_last_3d)  # type: ignore[call-overload]

    @torch.inference_mode()
    def __call__(self, sample: Sample, maps: torch.Tensor) -> torch.Tensor:
        if sample.clip_frames is None:
            return torch.zeros(0, self.card.dim)
        clips = [sample.clip_frames[self.frames_of(clip)] for clip in sample.clips]
        return torch.stack([self._network(self._input(clip))[0].float().cpu() for clip in clips])

    def frames_of(self, clip: list[int]) -> list[int]:
        """Which frames the network is shown of a clip."""
        return clip

    @abstractmethod
    def scaled(self, frames: torch.Tensor) -> torch.Tensor:
        """Pixels 0 … 255 [T, H, W, 3] → the numbers that the network was trained on."""

    def _input(self, frames: np.ndarray) -> torch.Tensor:
        """uint8 [T, H, W, 3] → [1, 3, T, H, W]."""
        x = self.scaled(torch.from_numpy(frames).to(self.device).float())
        return x.permute(3, 0, 1, 2)[None].to(self.dtype).contiguous(memory_format=torch.channels_last_3d)
