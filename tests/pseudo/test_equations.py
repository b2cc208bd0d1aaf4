"""The paper's equations against slow literal computations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewcap.core.config.label import EditConfig
from fewcap.pseudo.chain import Chain
from fewcap.pseudo.editor import Editor
from fewcap.pseudo.equations import allowed_edits, choose_edit, choose_words, draw, wants_edit, word_log_scores
from fewcap.pseudo.inference import action_probs, next_log_probs, sequence_log_probs
from fewcap.pseudo.language import COPY, DELETE, INSERT, REPLACE, LanguageModels


def literal_word_scores(
    models: LanguageModels, left: list[int], right: list[int], sentence: list[int], penalty: float
) -> list[float]:
    """Equations 1 and 2 and their product, one token of the vocabulary after another, one context at a time."""

    def literal(network: torch.nn.Module, context: list[int]) -> list[float]:
        with torch.inference_mode():
            logits = network(input_ids=torch.tensor([context]), use_mems=False).logits[0, -1].double()
        exponentials = [float(torch.exp(x)) for x in logits]
        probabilities = [e / sum(exponentials) for e in exponentials]
        indicator = [penalty if j in sentence else 1.0 for j in range(len(probabilities))]
        discounted = [p / i for p, i in zip(probabilities, indicator, strict=True)]
        return [d / sum(discounted) for d in discounted]

    forward = literal(models.forward, left)
    backward = literal(models.backward, list(reversed(right)))
    return [f * b for f, b in zip(forward, backward, strict=True)]


@pytest.mark.parametrize("penalty", [1.0, 1.2, 3.0])
@pytest.mark.parametrize(("action", "position"), [(INSERT, 1), (INSERT, 4), (REPLACE, 2)])
def test_word_probabilities(tiny: LanguageModels, penalty: float, action: int, position: int) -> None:
    codec = tiny.codec
    sentence = codec.encode(["man", "playing", "guitar"])
    chain = Chain.of_keywords(["man", "playing", "guitar"], codec, "key")
    left, right = chain.contexts(action, position)
    present = torch.zeros(1, len(codec), dtype=torch.bool)
    present[0, sentence] = True
    fast = word_log_scores(
        next_log_probs(tiny.forward, [left])[left][None],
        next_log_probs(tiny.backward, [right])[right][None],
        present,
        penalty,
    )[0].exp()
    behind = sentence[position:] if action == INSERT else sentence[position + 1 :]
    slow = literal_word_scores(tiny, sentence[:position], behind, sentence, penalty)
    np.testing.assert_allclose(fast.numpy(), slow, rtol=2e-4)


def test_the_penalty_matters_and_off_is_off(tiny: LanguageModels) -> None:
    sentence = tiny.codec.encode(["man", "dog"])
    kept = literal_word_scores(tiny, sentence[:2], sentence[2:], sentence, 1.0)
    punished = literal_word_scores(tiny, sentence[:2], sentence[2:], sentence, 1.2)
    man = tiny.codec.pieces("man")[0]
    assert punished[man] / sum(punished) < kept[man] / sum(kept)


def test_action_and_position_by_the_letter_of_the_paper() -> None:
    """Rows summed over positions choose the action, the row's maximum chooses the position."""
    generator = np.random.default_rng(0)
    for _ in range(50):
        probs = generator.dirichlet(np.ones(4), size=6)  # [L, 4]
        locked = generator.random(6) < 0.5
        allowed = allowed_edits(locked, np.ones(6, dtype=bool), room=True)
        best_action, best_total = -1, -1.0
        for action in (REPLACE, INSERT, DELETE):
            total = sum(probs[t, action] for t in range(6) if allowed[t, action])
            if total > best_total:
                best_action, best_total = action, total
        positions = [t for t in range(6) if allowed[t, best_action]]
        best_position = max(positions, key=lambda t: probs[t, best_action])
        assert choose_edit(probs, allowed, 1.0, None) == (best_action, best_position)


def test_what_is_allowed() -> None:
    locked = np.array([True, True, False, True, True])  # start, keyword of two pieces (with 3?), word, ..., end
    starts = np.array([True, True, True, False, True])
    allowed = allowed_edits(locked, starts, room=True)
    assert not allowed[:, COPY].any()
    assert not allowed[0].any()
    assert allowed[1].tolist() == [False, False, True, False]
    assert allowed[2].tolist() == [False, True, True, True]
    assert allowed[3].tolist() == [False, False, False, False]  # inside a word
    assert allowed[4].tolist() == [False, False, True, False]  # insert before the end
    assert not allowed_edits(locked, starts, room=False)[:, INSERT].any()


def test_stop_when_only_copies_are_wanted() -> None:
    allowed = np.array([[False] * 4, [False, True, True, True], [False, False, True, False]])
    copies = np.array([[1, 0, 0, 0], [0.6, 0.1, 0.2, 0.1], [0.7, 0, 0.3, 0]])
    assert not wants_edit(copies, allowed, 0.5)
    assert wants_edit(np.array([[1, 0, 0, 0], [0.2, 0.1, 0.6, 0.1], [1, 0, 0, 0]]), allowed, 0.5)
    assert not wants_edit(np.array([[0, 0, 1, 0], [0.9, 0.1, 0, 0], [0.1, 0.9, 0, 0]]), allowed, 0.5)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda w: max(w) > 1e-3), st.floats(0, 1, exclude_max=True)
)
def test_draw_never_picks_what_has_no_weight(weights: list[float], uniform: float) -> None:
    assert weights[draw(np.array(weights), 1.0, uniform)] > 0


def test_draw_follows_the_weights() -> None:
    grid = (np.arange(10_000) + 0.5) / 10_000
    picks = np.bincount([draw(np.array([0.2, 0.0, 0.8]), 0.5, u) for u in grid], minlength=3) / 10_000
    np.testing.assert_allclose(picks, np.array([0.04, 0.0, 0.64]) / 0.68, atol=1e-3)


def test_words_are_drawn_by_their_share() -> None:
    scores = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    banned = torch.tensor([[False, False, False, True]])
    grid = (torch.arange(2000) + 0.5) / 2000
    tokens, _ = choose_words(scores.repeat(2000, 1), banned.repeat(2000, 1), 1.0, 2, grid.double())
    shares = torch.bincount(tokens, minlength=4) / 2000
    np.testing.assert_allclose(shares.numpy(), [0.5 / 0.8, 0.3 / 0.8, 0, 0], atol=2e-3)
    best, share = choose_words(scores, banned, 1.0, 2, None)
    assert best.item() == 0
    assert share.item() == pytest.approx(0.5 / 0.95)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(5, 30), min_size=1, max_size=9), min_size=1, max_size=20))
def test_calls_in_blocks_equal_calls_one_by_one(tiny: LanguageModels, sentences: list[list[int]]) -> None:
    sequences = [(tiny.codec.bos, *s, tiny.codec.eos) for s in sentences]
    together = action_probs(tiny.classifier, sequences)
    scored = sequence_log_probs(tiny.forward, sequences)
    with torch.inference_mode():
        for ids in set(sequences):
            logits = tiny.classifier(input_ids=torch.tensor([ids]), use_mems=False).logits[0]
            np.testing.assert_allclose(together[ids].numpy(), logits.softmax(-1).numpy(), atol=1e-5)
            assert torch.equal(action_probs(tiny.classifier, [ids])[ids], together[ids])  # bit for bit
            log_probs = tiny.forward(input_ids=torch.tensor([ids]), use_mems=False).logits[0].log_softmax(-1)
            literal = sum(float(log_probs[t, ids[t + 1]]) for t in range(len(ids) - 1)) / (len(ids) - 1)
            assert float(scored[ids]) == pytest.approx(literal, abs=1e-4)


def test_greedy_steps_follow_the_equations(tiny: LanguageModels) -> None:
    """Six greedy edits of the batched editor, each recomputed literally."""
    config = EditConfig(sampling=False, stop=1e-6, longest=8)
    editor = Editor(tiny, config, batch=4)
    chain = Chain.of_keywords(["man", "guitar"], tiny.codec, "key")
    for _ in range(6):
        before, locked = list(chain.ids), chain.locked.copy()
        with torch.inference_mode():
            probs = tiny.classifier(input_ids=torch.tensor([before]), use_mems=False).logits[0].softmax(-1).numpy()
        editor.step([chain])
        allowed = allowed_edits(locked, np.ones(len(before), dtype=bool), room=len(before) - 2 < 8)
        action, position = choose_edit(probs, allowed, 1.0, None)
        edit = chain.edits[-1]
        assert (edit["action"], edit["position"]) == (("copy", "replace", "insert", "delete")[action], position)
        if action == DELETE:
            assert chain.ids == before[:position] + before[position + 1 :]
            continue
        behind = before[position:] if action == INSERT else before[position + 1 :]
        scores = literal_word_scores(tiny, before[:position], behind, before, 1.2)
        barred = {before[position - 1], before[position], behind[0]}
        words = [j for j in tiny.codec.proposable() if j not in barred]
        assert chain.ids[position] == max(words, key=lambda j: scores[j])
