"""Data-parallel training: the processes that torchrun started, or this one alone."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Ranks:
    """This process among ``count``; rank 0 writes files."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, tensors: Iterable[Tensor]) -> None:
        """Adds up tensors over all processes, in place, as one message."""
        parts = list(tensors)
        if self.count == 1 or not parts:
            return
        flat = torch.cat([part.reshape(-1) for part in parts])
        dist.all_reduce(flat)
        start = 0
        for part in parts:
            part.copy_(flat[start : start + part.numel()].view_as(part))
            start += part.numel()

    def share(self, content: Any) -> Any:
        """What rank 0 holds, on every process."""
        if self.count == 1:
            return content
        box = [content]
        dist.broadcast_object_list(box, src=0)
        return box[0]


@contextmanager
def joined() -> Iterator[Ranks]:
    """Joins the processes of ``torchrun --nproc-per-node N`` for the block."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Ranks()
        return
    started_here = not dist.is_initialized()
    if started_here:
        # Optimisers import this late, and it keeps the group of that moment for good: the group's threads would outlive
        # the group, and one that still frees a message while the interpreter ends aborts the process.
        importlib.import_module("torch._dynamo")
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
        dist.barrier()  # a process that leaves while another still talks to it is torn down with an abort
    finally:
        if started_here:
            dist.destroy_process_group()
