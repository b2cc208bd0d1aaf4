"""Sentence loss and word loss (section 3.4, equations 8 and 9)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from fewcap.text.vocabulary import PAD


def sentence_loss(logits: Tensor, targets: Tensor, weights: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Sum over sentences of weight · mean over words of the cross-entropy (equation 8); divide by the weights' sum.

    logits [n, V] of the n real words of targets [M, T], which has PAD elsewhere; weights [M]: 1 for a ground-truth
    sentence, less for a pseudo sentence. A sum, so that parts of a batch, on other devices too, add up to the loss of
    the whole.
    """
    losses = word_losses(logits, targets, smoothing=smoothing)
    lengths = (targets != PAD).sum(1).clamp(min=1)  # len_s
    return (losses.sum(1) / lengths * weights).sum()


def word_losses(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of each word [M, T], 0 where targets [M, T] has PAD; logits [n, V] of the real words."""
    real = targets != PAD
    losses = F.cross_entropy(logits.float(), targets[real], reduction="none", label_smoothing=smoothing)
    return losses.new_zeros(targets.shape).masked_scatter(real, losses)


def word_loss(keyword_vector: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Sum over sentences of weight · (1 - cosine) of refined and ground-truth keywords (equation 9).

    keyword_vector [M, d_s] from the model, target [M, d_s] from the sentence encoder, weights [M].
    """
    return ((1 - F.cosine_similarity(keyword_vector.float(), target, dim=-1)) * weights).sum()
