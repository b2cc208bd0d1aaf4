"""Equations 8 and 9, written out."""

from __future__ import annotations

import math

import torch

from fewcap.captioning.losses import sentence_loss, word_loss


def test_sentence_loss_is_equation_8() -> None:
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, 6, generator=g)
    targets = torch.tensor([[4, 5, 2, 0], [5, 2, 0, 0], [3, 4, 5, 2]])
    weights = torch.tensor([1.0, 0.5, 0.0])
    expected = 0.0
    for row, weight in enumerate(weights.tolist()):
        words = [t for t in targets[row].tolist() if t != 0]
        total = 0.0
        for place, word in enumerate(words):
            scores = logits[row, place].tolist()
            total -= scores[word] - math.log(sum(math.exp(s) for s in scores))
        expected += weight * total / len(words)
    assert math.isclose(float(sentence_loss(logits[targets != 0], targets, weights)), expected, rel_tol=1e-5)


def test_label_smoothing_spreads_the_target_over_all_words() -> None:
    logits = torch.randn(1, 2, 5, generator=torch.Generator().manual_seed(1))
    targets = torch.tensor([[3, 2]])
    log_p = logits.log_softmax(-1)
    expected = 0.0
    for place, word in enumerate((3, 2)):
        for v in range(5):
            share = 0.1 / 5 + (0.9 if v == word else 0.0)
            expected -= share * float(log_p[0, place, v]) / 2
    assert math.isclose(float(sentence_loss(logits[0], targets, torch.ones(1), smoothing=0.1)), expected, rel_tol=1e-5)


def test_word_loss_is_equation_9() -> None:
    g = torch.Generator().manual_seed(2)
    guess, truth = torch.randn(2, 8, generator=g), torch.randn(2, 8, generator=g)
    weights = torch.tensor([1.0, 0.3])
    expected = 0.0
    for row, weight in enumerate(weights.tolist()):
        dot = sum(float(a * b) for a, b in zip(guess[row], truth[row], strict=True))
        lengths = math.sqrt(sum(float(a) ** 2 for a in guess[row])) * math.sqrt(sum(float(b) ** 2 for b in truth[row]))
        expected += weight * (1 - dot / lengths)
    assert math.isclose(float(word_loss(guess, truth, weights)), expected, rel_tol=1e-5)


def test_parts_of_a_batch_add_up() -> None:
    g = torch.Generator().manual_seed(3)
    logits, targets = torch.randn(4, 3, 9, generator=g), torch.randint(1, 9, (4, 3), generator=g)
    weights = torch.rand(4, generator=g)
    whole = sentence_loss(logits.flatten(0, 1), targets, weights)
    parts = sum(sentence_loss(logits[i::2].flatten(0, 1), targets[i::2], weights[i::2]) for i in range(2))
    torch.testing.assert_close(whole, parts)
