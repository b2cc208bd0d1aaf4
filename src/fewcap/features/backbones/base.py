"""What every backbone says of itself, and what each kind of backbone does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fewcap.core.store import fingerprint
from fewcap.core.types import Kind
from fewcap.features.picture import View

if TYPE_CHECKING:
    import numpy as np
    import torch

    from fewcap.features.video import Sample


@dataclass(frozen=True)
class Card:
    """Name, size and origin of a backbone; ``hash`` changes when its vectors would."""

    name: str
    kind: Kind
    dim: int
    view: View | None  # the pictures it wants; None: it works on the appearance network's maps
    licence: str
    source: str
    weights: str  # sha256 of the weights, or how they are known
    channels: int | None = None  # of an appearance network's maps, where they are not ``dim``
    revision: int = 1  # of the code: raised when the same weights would give other vectors

    @property
    def map_channels(self) -> int:
        return self.dim if self.channels is None else self.channels

    @property
    def hash(self) -> str:
        return fingerprint(
            {
                "name": self.name,
                "dim": self.dim,
                "view": None if self.view is None else [self.view.width, self.view.height, self.view.keep_shape],
                "weights": self.weights,
                "revision": self.revision,
            }
        )


class Appearance(Protocol):
    """Sees frames: uint8 [B, H, W, 3] → vectors [B, d], maps [B, c, h, w], both float32 on the CPU.

    It is always called with ``batch`` frames, so that the arithmetic of a frame never depends on its neighbours.
    """

    card: Card
    batch: int

    def __call__(self, frames: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]: ...


class Motion(Protocol):
    """Sees the clips of a video, with the appearance maps [n, c, h, w] of its frames → [N_clip, d]."""

    card: Card

    def __call__(self, sample: Sample, maps: torch.Tensor) -> torch.Tensor: ...


class Objects(Protocol):
    """Sees parts of the frames of a video → [N', d]."""

    card: Card

    def __call__(self, sample: Sample, maps: torch.Tensor) -> torch.Tensor: ...
