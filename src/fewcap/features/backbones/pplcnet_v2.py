"""PP-LCNetV2 (PaddlePaddle, ImageNet): 224 px, 1024 numbers a frame, 0.6 billion multiplications.

Another family than EfficientNet: no bottlenecks, channels filtered by 5 × 5 kernels late in the network, some of them
weighed by what the whole picture shows. Beside EfficientNet-Lite0 it sees what that one misses. The published file is
the inference form: side branches are already added up, norms are folded into the weights here. Shapes: B frames,
C channels, H × W.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from fewcap.core import weights
from fewcap.core.errors import FewcapError
from fewcap.features.backbones.base import Card
from fewcap.features.backbones.fused import Activation, FusedConv, has_fused_kernels
from fewcap.features.picture import View

NAME = "pplcnet_v2"
SIZE = 224
DIM = 1024
MEAN, SPREAD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
EPSILON = 1e-5  # of the published norms
KEPT = 0.8  # the published dropout scales down when it does not drop


class Shape(NamedTuple):
    """Of a block: channels, kernel, stride; narrowed half-way and weighed; added to its input."""

    c_in: int
    c_out: int
    kernel: int
    stride: int = 1
    split: bool = False
    shortcut: bool = False


BLOCKS = (
    Shape(64, 128, 3, 2),
    Shape(128, 128, 3),
    Shape(128, 256, 3, 2),
    Shape(256, 256, 3),
    Shape(256, 512, 5, 2, split=True),
    *(Shape(512, 512, 5, split=True),) * 5,
    Shape(512, 1024, 5, 2),
    Shape(1024, 1024, 5, shortcut=True),
)


def conv(
    c_in: int, c_out: int, kernel: int = 1, stride: int = 1, groups: int = 1, active: Activation = "relu"
) -> FusedConv:
    """An untrained convolution."""
    weight = torch.zeros(c_out, c_in // groups, kernel, kernel)
    return FusedConv(weight, torch.zeros(c_out), stride=stride, groups=groups, active=active)


class Block(nn.Module):
    """Filter each channel, weigh the channels by the whole picture if ``split``, and mix them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        c_in, c_out = shape.c_in, shape.c_out
        self.depthwise = conv(c_in, c_in, shape.kernel, shape.stride, groups=c_in)
        self.squeeze = conv(c_in, c_in // 4) if shape.split else None
        self.excite = conv(c_in // 4, c_in, active="none") if shape.split else None
        self.narrow = conv(c_in, c_out // 2) if shape.split else None
        self.mix = conv(c_out // 2 if shape.split else c_in, c_out)
        self.shortcut = shape.shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [B, C, H, W]
        y = self.mix(self.before_mixing(x))
        return x + y if self.shortcut else y

    def before_mixing(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(x)
        if self.squeeze is not None and self.excite is not None and self.narrow is not None:
            weight = torch.sigmoid(self.excite(self.squeeze(y.mean((2, 3), keepdim=True))))  # [B, C, 1, 1]
            y = self.narrow(y * weight)
        return y


class PPLCNetV2(nn.Module):
    """Frames scaled by ImageNet's mean and spread, [B, 3, 224, 224] → maps [B, 1024, 7, 7]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 32, 3, 2), conv(32, 32, 3, groups=32), conv(32, 64))
        self.blocks = nn.Sequential(*(Block(shape) for shape in BLOCKS))
        self.head = conv(1024, 1280)
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.stem(x))

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """The 1000 classes of ImageNet: [B, 3, 224, 224] → [B, 1000]."""
        hidden = self.head(self(x).mean((2, 3), keepdim=True)).flatten(1)  # [B, 1280]
        return self.classifier(KEPT * hidden)

    @classmethod
    def load(cls, path: Path) -> PPLCNetV2:
        """The published weights: tensors in the order of their names, which the file does not hold."""
        published = load_file(path)
        network = cls().eval()
        names = sorted([name for layer in layers(network) for name in layer.published] + LINEAR)
        try:
            found = dict(zip(names, (published[key] for key in sorted(published)), strict=True))
            for layer in layers(network):
                layer.fill(found)
            weight, bias = (found[name] for name in reversed(LINEAR))
            network.classifier.load_state_dict({"weight": weight.T.contiguous(), "bias": bias})
        except (ValueError, RuntimeError) as error:
            raise FewcapError(f"{path}: not weights of PP-LCNetV2 ({str(error).splitlines()[0]}).") from None
        return network


LINEAR = ["linear_0.b_0", "linear_0.w_0"]


class Layer(NamedTuple):
    """A convolution and its numbers in the published file; ``norm`` is None where it has a bias, or neither."""

    conv: FusedConv
    number: int
    norm: int | None
    bias: bool

    @property
    def published(self) -> list[str]:
        names = [f"conv2d_{self.number}.w_0"]
        if self.bias:
            names.append(f"conv2d_{self.number}.b_0")
        if self.norm is not None:
            names += [f"batch_norm2d_{self.norm}.{part}" for part in ("b_0", "w_0", "w_1", "w_2")]
        return names

    def fill(self, found: dict[str, torch.Tensor]) -> None:
        weight, bias = found[self.published[0]], self.conv.bias.detach()
        if self.bias:
            bias = found[self.published[1]]
        if self.norm is not None:
            shift, scale, mean, variance = (found[name] for name in self.published[-4:])
            scale = scale / torch.sqrt(variance + EPSILON)
            weight, bias = weight * scale[:, None, None, None], shift - mean * scale
        self.conv.load_state_dict({"weight": weight, "bias": bias})


def layers(network: PPLCNetV2) -> Iterator[Layer]:
    """All convolutions as Paddle has counted them, the branches included that the inference form no longer has."""
    number = norm = 0
    for first in network.stem:
        assert isinstance(first, FusedConv)
        yield Layer(first, number, norm, bias=False)
        number, norm = number + 1, norm + 1
    for block, shape in zip(network.blocks, BLOCKS, strict=True):
        assert isinstance(block, Block)
        if shape.kernel == 5:
            branches = 2 if shape.stride == 2 else 3
            number, norm = number + branches, norm + branches
            yield Layer(block.depthwise, number, None, bias=True)
        else:
            yield Layer(block.depthwise, number, norm, bias=False)
            norm += 1
        number += 1
        for own in (block.squeeze, block.excite):
            if own is not None:
                yield Layer(own, number, None, bias=True)
                number += 1
        for own in (block.narrow, block.mix):
            if own is not None:
                yield Layer(own, number, norm, bias=False)
                number, norm = number + 1, norm + 1
    yield Layer(network.head, number, None, bias=False)


def published(network: PPLCNetV2) -> dict[str, torch.Tensor]:
    """The weights as ``PPLCNetV2.load`` reads them; norms that are folded into the weights change nothing more."""
    found = {"linear_0.b_0": network.classifier.bias, "linear_0.w_0": network.classifier.weight.T}
    for layer in layers(network):
        weight, bias = layer.conv.weight, layer.conv.bias
        found[layer.published[0]] = weight
        if layer.bias:
            found[layer.published[1]] = bias
        if layer.norm is not None:
            one, none = torch.ones_like(bias), torch.zeros_like(bias)
            found |= zip(layer.published[-4:], (bias, one * (1 + EPSILON) ** 0.5, none, one), strict=True)
    return {f"{i:03}": found[name].detach().contiguous() for i, name in enumerate(sorted(found))}


class Backbone:
    """PP-LCNetV2 as an appearance backbone."""

    batch = 4

    def __init__(self, network: PPLCNetV2, weights_hash: str, dtype: torch.dtype, device: torch.device) -> None:
        self.card = Card(
            name=NAME,
            kind="appearance",
            dim=DIM,
            view=View(SIZE, SIZE),
            licence="Apache-2.0",
            source="paddlelabel-ml 1.0.0",
            weights=weights_hash,
        )
        self._dtype, self._device = dtype, device
        self._network = network.to(device, dtype)
        for layer in layers(network):
            layer.conv.fused = device.type == "cpu" and has_fused_kernels()

    @torch.inference_mode()
    def __call__(self, frames: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        maps = self._network(scaled(frames, self._dtype, self._device)).float().cpu()  # [B, 1024, 7, 7]
        return maps.mean((2, 3)), maps.contiguous()


def scaled(frames: np.ndarray, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """uint8 [B, H, W, 3] → mean 0, spread 1 over ImageNet, [B, 3, H, W] in channels-last layout."""
    x = torch.from_numpy(frames).to(device, torch.float32)
    x = (x - x.new_tensor(MEAN)) / x.new_tensor(SPREAD)
    return x.permute(0, 3, 1, 2).to(dtype).contiguous(memory_format=torch.channels_last)


def load(path: str | None, dtype: torch.dtype, device: torch.device) -> Backbone:
    """From the registry package, or a local file."""
    network = PPLCNetV2.load(weights.resolve(NAME, path))
    return Backbone(network, weights.source_hash(NAME, path), dtype, device)
