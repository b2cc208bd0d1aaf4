"""Weights in a byte each: rows of integers with a scale, for models that ship inside the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SCALE = "/scale"


def eight_bit(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices become int8 rows, each with its scale under ``<name>/scale``, as do larger tensors; vectors become half
    precision."""
    import torch

    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() < 2:
            packed[name] = tensor.half()
            continue
        largest = tensor.abs().flatten(1).amax(1).view(-1, *[1] * (tensor.dim() - 1))
        scale = largest.clamp(min=1e-12) / 127
        packed[name] = (tensor / scale).round().to(torch.int8)
        packed[name + SCALE] = scale
    return packed


def restored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undoes ``eight_bit``; tensors that were stored whole are only brought to float32."""
    return {
        name: tensor.float() * tensors[name + SCALE] if name + SCALE in tensors else tensor.float()
        for name, tensor in tensors.items()
        if not name.endswith(SCALE)
    }
