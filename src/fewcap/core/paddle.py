"""Reading the parameter files of PaddlePaddle: tensors one after another, each with a few numbers before it."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from fewcap.core.errors import FewcapError

if TYPE_CHECKING:
    import torch

_FLOAT32 = 5  # of framework.proto's VarType


def convert_paddle_parameters(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of an inference model's combined file by their place, ``000`` and on: it holds no names.

    Each one is: version (uint32), levels of detail (uint64, none), version (uint32), the length of a description
    (int32), the description (a protocol buffer: type and sizes), then the numbers.
    """
    import torch

    content = path.read_bytes()
    tensors: dict[str, torch.Tensor] = {}
    at = 0
    try:
        while at < len(content):
            version, levels, again, length = struct.unpack_from("<IQIi", content, at)
            at += struct.calcsize("<IQIi")
            if version or levels or again or not 0 < length <= 1024:
                raise ValueError("an unknown form")
            sizes = _sizes(content[at : at + length])
            at += length
            count = math.prod(sizes)
            numbers = content[at : at + 4 * count]
            if len(numbers) < 4 * count:
                raise ValueError("it ends inside a tensor")
            tensors[f"{len(tensors):03}"] = torch.frombuffer(bytearray(numbers), dtype=torch.float32).view(sizes)
            at += 4 * count
    except (struct.error, ValueError, IndexError) as error:
        raise FewcapError(f"{path}: not a file of PaddlePaddle's parameters ({error}); it is not opened.") from None
    if not tensors:
        raise FewcapError(f"{path}: holds no tensors.")
    return tensors


def _sizes(description: bytes) -> list[int]:
    """Field 1 is the type of the numbers, field 2, repeated, a size."""
    sizes, kind, at = [], None, 0
    while at < len(description):
        tag, at = _varint(description, at)
        value, at = _varint(description, at)
        if tag == 1 << 3:
            kind = value
        elif tag == 2 << 3:
            sizes.append(value)
        else:
            raise ValueError("an unknown description")
    if kind != _FLOAT32 or not sizes or any(not 0 < size < 2**31 for size in sizes):
        raise ValueError("a tensor of another type than float32, or without sizes")
    return sizes


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number without end")
