"""C3D (Tran et al., Sports-1M): eight 3 × 3 × 3 convolutions over clips of 16 frames; fc6, 4096 numbers a clip.

Loads the state dicts that people pass around, by path: names ``conv1 … conv5b, fc6`` (c3d.pickle) or
``features.0 …, classifier.0`` (c3d-pretrained.pth). Shapes: a clip is [1, 3, 16, 112, 112].
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from fewcap.core import weights
from fewcap.core.errors import FewcapError
from fewcap.features.backbones.base import Card
from fewcap.features.backbones.clips import ClipBackbone
from fewcap.features.picture import View

SIZE, LENGTH, DIM = 112, 16, 4096
MEAN = (102.0, 98.0, 90.0)  # red, green, blue of Sports-1M
# name, channels in and out, and the pool that follows
CONVOLUTIONS = (
    ("conv1", 3, 64, (1, 2, 2)),
    ("conv2", 64, 128, (2, 2, 2)),
    ("conv3a", 128, 256, None),
    ("conv3b", 256, 256, (2, 2, 2)),
    ("conv4a", 256, 512, None),
    ("conv4b", 512, 512, (2, 2, 2)),
    ("conv5a", 512, 512, None),
    ("conv5b", 512, 512, (2, 2, 2)),
)
# Position of each layer in the other usual layout.
_NUMBERED = dict(zip([name for name, *_ in CONVOLUTIONS], (0, 3, 6, 8, 11, 13, 16, 18), strict=True))


class C3D(nn.Module):
    """Clips minus the mean colour, [1, 3, 16, 112, 112] → fc6 [1, 4096]."""

    def __init__(self) -> None:
        super().__init__()
        for name, c_in, c_out, _ in CONVOLUTIONS:
            self.add_module(name, nn.Conv3d(c_in, c_out, 3, padding=1))
        self.fc6 = nn.Linear(512 * 4 * 4, DIM)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name, _, _, pool in CONVOLUTIONS:
            x = F.relu_(self.get_submodule(name)(x))
            if pool is not None:
                # The last map is 7 pixels wide; one of padding makes it 4 after pooling, as in the original.
                x = F.max_pool3d(x, pool, pool, padding=(0, 1, 1) if name == "conv5b" else 0)
        return F.relu(self.fc6(x.flatten(1)))  # [1, 512, 1, 4, 4] → [1, 4096]

    @classmethod
    def load(cls, path: Path) -> C3D:
        """Weights in either layout; names and shapes are checked."""
        found = load_file(path)
        network = cls().eval()
        state = {}
        for name, parameter in network.state_dict().items():
            layer, tensor = name.split(".")
            other = "classifier.0" if layer == "fc6" else f"features.{_NUMBERED[layer]}"
            value = found.get(name, found.get(f"{other}.{tensor}"))
            if value is None:
                raise FewcapError(
                    f"{path}: not weights of C3D, '{name}' is missing; give a Sports-1M state dict of C3D."
                )
            if value.shape != parameter.shape:
                raise FewcapError(
                    f"{path}: not weights of C3D, '{name}' has shape {list(value.shape)}, not {list(parameter.shape)}."
                )
            state[name] = value.float()
        network.load_state_dict(state)
        return network.requires_grad_(False)


class Backbone(ClipBackbone):
    """The network knows 16 frames only: the last frame of a shorter clip is held."""

    def __init__(self, network: C3D, weights_hash: str, dtype: torch.dtype, device: torch.device) -> None:
        card = Card(
            name="c3d",
            kind="motion",
            dim=DIM,
            view=View(SIZE, SIZE),
            licence="of the weight file",
            source="local file",
            weights=weights_hash,
        )
        super().__init__(network, card, dtype, device)

    def frames_of(self, clip: list[int]) -> list[int]:
        return (clip + [clip[-1]] * LENGTH)[:LENGTH]

    def scaled(self, frames: torch.Tensor) -> torch.Tensor:
        return frames - torch.tensor(MEAN, device=self.device)


def load(path: str | None, dtype: torch.dtype, device: torch.device) -> Backbone:
    """From a local file: there is no copy with a licence that allows to fetch it."""
    network = C3D.load(weights.resolve("c3d", path))
    return Backbone(network, weights.source_hash("c3d", path), dtype, device)
