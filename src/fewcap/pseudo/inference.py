"""Calls of the networks for many sequences at once, with results that do not depend on who shares the call.

Sequences are grouped by their exact length, so nothing is padded, and each distinct one is computed once. A block has
at least FEWEST rows: below that, matrix libraries switch to kernels that round differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

FEWEST, MOST_TOKENS = 8, 2048

Ids = tuple[int, ...]


def in_blocks(sequences: Sequence[Ids], call: Callable[[Tensor], Tensor]) -> dict[Ids, Tensor]:
    """`call` of [B, L] ids gives [B, ...]; the result has one row for each distinct sequence."""
    by_length: dict[int, list[Ids]] = {}
    for sequence in dict.fromkeys(sequences):
        by_length.setdefault(len(sequence), []).append(sequence)
    rows: dict[Ids, Tensor] = {}
    for length, group in sorted(by_length.items()):
        size = max(FEWEST, MOST_TOKENS // length)
        for start in range(0, len(group), size):
            block = group[start : start + size]
            filled = block + block[:1] * (FEWEST - len(block))
            rows.update(zip(block, call(torch.tensor(filled)), strict=False))
    return rows


@torch.inference_mode()
def action_probs(classifier: Any, sentences: Sequence[Ids]) -> dict[Ids, Tensor]:
    """[L, 4] for each sentence: probability of each action at each token."""
    return in_blocks(
        sentences, lambda ids: classifier.classifier(classifier.transformer(ids, use_mems=False)[0]).float().softmax(-1)
    )


@torch.inference_mode()
def next_log_probs(network: Any, prefixes: Sequence[Ids]) -> dict[Ids, Tensor]:
    """[V] for each prefix: log p(token | prefix)."""
    return in_blocks(
        prefixes,
        lambda ids: network.lm_loss(network.transformer(ids, use_mems=False)[0][:, -1]).float().log_softmax(-1),
    )


@torch.inference_mode()
def sequence_log_probs(network: Any, sequences: Sequence[Ids]) -> dict[Ids, Tensor]:
    """A number for each sequence: the mean over its tokens of log p(token | those before it)."""

    def call(ids: Tensor) -> Tensor:
        hidden = network.transformer(ids[:, :-1], use_mems=False)[0]  # [B, L-1, d]
        logits = network.lm_loss(hidden).float()  # [B, L-1, V]
        picked = logits.gather(-1, ids[:, 1:, None])[..., 0] - logits.logsumexp(-1)
        return picked.mean(1)

    return in_blocks(sequences, call)


def fluency(forward: Any, backward: Any, sentences: Sequence[Ids]) -> list[float]:
    """For each sentence the mean log probability of a token, of both directions."""
    there = sequence_log_probs(forward, sentences)
    back = sequence_log_probs(backward, [ids[::-1] for ids in sentences])
    return [float(there[ids] + back[ids[::-1]]) / 2 for ids in sentences]
