"""The choices of section 3.2 of the paper, as functions of probabilities.

n chains, V vocabulary, L tokens of one sentence, 4 actions.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from fewcap.pseudo.language import COPY, DELETE, INSERT, REPLACE


def penalised(log_probs: Tensor, present: Tensor, penalty: float) -> Tensor:
    """Equations 1 and 2: p(token | context) / I(token in sentence), normalised over the vocabulary; in logarithms.

    log_probs [n, V]; present [n, V] is true for tokens that the sentence already has.
    """
    return (log_probs - math.log(penalty) * present).log_softmax(-1)


def word_log_scores(forward: Tensor, backward: Tensor, present: Tensor, penalty: float) -> Tensor:
    """log of p̂ = p̂_FLM · p̂_BLM for every token of the vocabulary, [n, V]."""
    return penalised(forward, present, penalty) + penalised(backward, present, penalty)


def allowed_edits(locked: np.ndarray, starts: np.ndarray, room: bool) -> np.ndarray:
    """[L, 4]: which edits a sentence permits. `locked` and `starts` [L] cover its start and end token.

    A locked token is neither replaced nor deleted; nothing is inserted before the start token, inside a word of
    several tokens, or into a sentence that has no room.
    """
    allowed = np.zeros((len(locked), 4), dtype=bool)
    allowed[:, REPLACE] = allowed[:, DELETE] = ~locked
    allowed[:, INSERT] = starts & room
    allowed[0] = False
    allowed[-1, [REPLACE, DELETE]] = False
    return allowed


def wants_edit(probs: np.ndarray, allowed: np.ndarray, stop: float) -> bool:
    """Whether the classifier gives any permitted edit at least the probability `stop`."""
    return bool((probs * allowed).max() >= stop)


def choose_edit(
    probs: np.ndarray, allowed: np.ndarray, temperature: float, draws: tuple[float, float] | None
) -> tuple[int, int]:
    """Action, then position, by the classifier's probabilities [L, 4]: p'_r = Σ_t p'_{r,t}, then p'_{r,t} within r.

    With two uniform `draws` both are drawn at the given temperature; without, the likeliest are taken as in the paper.
    """
    masses = np.where(allowed, probs, 0.0)  # [L, 4]
    totals = masses.sum(0)
    totals[COPY] = 0.0
    if draws is None:
        action = int(totals.argmax())
        return action, int(masses[:, action].argmax())
    action = draw(totals, temperature, draws[0])
    return action, draw(masses[:, action], temperature, draws[1])


def draw(weights: np.ndarray, temperature: float, uniform: float) -> int:
    """An index with probability ∝ weight^(1/temperature), by inverting the distribution at `uniform`."""
    sharpened = (weights / weights.max()) ** (1 / temperature)
    cumulative = np.cumsum(sharpened)
    index = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    return min(index, int(np.flatnonzero(sharpened)[-1]))


def choose_words(
    log_scores: Tensor, banned: Tensor, temperature: float | Tensor, top: int, uniforms: Tensor | None
) -> tuple[Tensor, Tensor]:
    """A token for each row and its share of p̂ among the permitted tokens, [n] each.

    log_scores and banned [n, V], temperature one number or [n]; with `uniforms` [n] tokens are drawn from the `top`
    likeliest, without, the best wins.
    """
    permitted = log_scores.masked_fill(banned, float("-inf"))
    shares = permitted.softmax(-1)
    if uniforms is None:
        best = shares.max(-1)
        return best.indices, best.values
    values, indices = permitted.topk(min(top, permitted.shape[1]), dim=-1)  # [n, top]
    cumulative = (values / torch.as_tensor(temperature).reshape(-1, 1)).softmax(-1).double().cumsum(-1)
    rank = torch.searchsorted(cumulative, uniforms.double()[:, None] * cumulative[:, -1:], right=True)
    rank = rank.clamp(max=int(values.shape[1]) - 1)
    token = indices.gather(1, rank)
    return token[:, 0], shares.gather(1, token)[:, 0]
