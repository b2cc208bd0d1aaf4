"""Choosing N vectors of a sequence and padding sequences to one batch (section 4.3 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def even_positions(length: int, count: int) -> list[int]:
    """``count`` positions spread evenly over ``length``, the middle of each part; all of them when there are fewer."""
    if length <= count:
        return list(range(length))
    return [(2 * i + 1) * length // (2 * count) for i in range(count)]


def select_evenly(x: torch.Tensor, n: int) -> torch.Tensor:
    """[M, d] → [min(M, n), d]: evenly chosen rows; a short sequence stays as it is and is never stretched."""
    if n < 1:
        raise ValueError(f"at least one vector must be selected, not {n}")
    if len(x) <= n:
        return x
    return x[even_positions(len(x), n)]


def pad_batch(sequences: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences [n_i, d] → batch [B, n, d] padded with zeros, mask [B, n] that is True where a vector is real."""
    if not sequences:
        raise ValueError("a batch needs at least one sequence")
    longest = max(len(sequence) for sequence in sequences)
    first = sequences[0]
    batch = first.new_zeros(len(sequences), longest, first.shape[1])  # [B, n, d]
    mask = torch.zeros(len(sequences), longest, dtype=torch.bool, device=first.device)  # [B, n]
    for row, sequence in enumerate(sequences):
        batch[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = True
    return batch, mask
