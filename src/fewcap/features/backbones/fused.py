"""Convolutions as a processor runs them fastest: one kernel with bias and activation, or residual, inside."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

Activation = Literal["none", "relu", "relu6"]
_KERNELS: dict[Activation, tuple[str, list[float]]] = {
    "none": ("none", []),
    "relu": ("relu", []),
    "relu6": ("hardtanh", [0.0, 6.0]),
}


def has_fused_kernels() -> bool:
    """Whether this build of torch has oneDNN's convolutions with an activation inside."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_convolution_pointwise")


class FusedConv(nn.Module):
    """A convolution, padded by half of its kernel; ``fused`` says whether to use the processor's kernels."""

    def __init__(
        self,
        weight: torch.Tensor,  # [C_out, C_in / groups, k, k]
        bias: torch.Tensor,  # [C_out]
        *,
        stride: int = 1,
        groups: int = 1,
        active: Activation = "none",
        fused: bool = False,
    ) -> None:
        super().__init__()
        weight = weight.detach().contiguous(memory_format=torch.channels_last)
        self.weight, self.bias = (nn.Parameter(x.detach(), requires_grad=False) for x in (weight, bias))
        self.padding, self.stride, self.groups = [(weight.shape[-1] - 1) // 2] * 2, [stride] * 2, groups
        self.active, self.fused = active, fused

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        """x [B, C, H, W]; a residual is added where there is no activation."""
        weight, bias = self.weight, self.bias
        if self.fused:
            kernel = torch.ops.mkldnn._convolution_pointwise
            shape = (self.padding, self.stride, [1, 1], self.groups)
            if residual is not None:
                return kernel.binary(x, residual, weight, bias, *shape, "add", 1.0, None, [], None)
            name, limits = _KERNELS[self.active]
            return kernel(x, weight, bias, *shape, name, limits, "")
        y = F.conv2d(x, weight, bias, self.stride, self.padding, 1, self.groups)
        if residual is not None:
            y = y + residual
        return y if self.active == "none" else F.relu6(y) if self.active == "relu6" else F.relu(y)
