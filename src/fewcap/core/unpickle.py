"""Reading foreign weight files: pickles may name arrays and nothing else."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewcap.core.errors import FewcapError

if TYPE_CHECKING:
    import torch


def convert_torch_file(path: Path) -> dict[str, torch.Tensor]:
    """A PyTorch state dict, bare or inside a checkpoint, as named tensors."""
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0][:160]
        raise FewcapError(f"{path}: not a file of plain PyTorch weights ({reason}); it is not opened.") from None
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    tensors = {
        str(name).removeprefix("module."): value.detach().contiguous().clone()
        for name, value in (content.items() if isinstance(content, Mapping) else ())
        if isinstance(value, torch.Tensor)
    }
    if not tensors:
        raise FewcapError(f"{path}: holds no named tensors; give a PyTorch state dict.")
    return tensors


def convert_flax_pickle(path: Path) -> dict[str, torch.Tensor]:
    """A pickle of nested dictionaries of numpy arrays as tensors, names joined with dots."""
    import numpy as np
    import torch

    try:
        with open(path, "rb") as handle:
            content = _ArrayUnpickler(handle).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise FewcapError(f"{path}: not a pickle of plain arrays ({error}); it is not opened.") from None
    tensors: dict[str, torch.Tensor] = {}

    def walk(node: Any, prefix: str) -> None:
        if isinstance(node, dict):
            for key, child in node.items():
                walk(child, f"{prefix}.{key}" if prefix else str(key))
        elif isinstance(node, np.ndarray) and node.dtype.kind in "fiu":
            tensors[prefix] = torch.from_numpy(np.ascontiguousarray(node))

    walk(content, "")
    return tensors


class _ArrayUnpickler(pickle.Unpickler):
    """Builds numpy arrays and containers; any other name in the file is refused before it is imported."""

    _ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype", "_frombuffer"})
    _MODULES = frozenset(
        {"numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric"}
    )

    def find_class(self, module: str, name: str) -> Any:
        if module not in self._MODULES or name not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)
