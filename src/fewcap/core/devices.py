"""Where tensors live and how many threads compute them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fewcap.core.errors import UsageError

if TYPE_CHECKING:
    import torch


def pick_device(name: str = "auto") -> torch.device:
    """``auto`` takes a GPU when there is one; any torch device name is taken as it is."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"device '{name}' can not be used here ({reason}); use 'auto' or 'cpu'.") from None
    return device


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether the hardware has instructions for bfloat16; without them it is slower than float32."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return device.type == "cpu" and bool(torch.cpu._is_avx512_bf16_supported())


def check_bfloat16(device: torch.device, setting: str) -> None:
    """Refuses bfloat16 where torch's convolutions can not compute in it: on processors without AVX-512."""
    import torch

    if device.type == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        raise UsageError(f"{setting}=bfloat16: this processor does not compute in it; set {setting}=float32.")


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Runs the block with ``count`` threads (None: as torch chose), and restores what was set before."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
