"""The synthetic data creator, with the paper's own example."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewcap.core.config.label import NoiseConfig
from fewcap.pseudo.codec import Codec
from fewcap.pseudo.language import COPY, DELETE, INSERT, REPLACE, LanguageModels
from fewcap.pseudo.synthetic import Creator, Damage, Pair, damaged, draw_damage
from fewcap.text.tokenise import words

EXAMPLE = words("A woman and her dog walking down a side walk next to a fence with some flowers.")


def ids_of(codec: Codec, text: str) -> list[int]:
    special = {"BOS": codec.bos, "EOS": codec.eos, "MASK": codec.mask}
    return [special.get(word) if word in special else codec.pieces(word)[0] for word in text.split()]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("damage", "tokens", "actions"),
    [
        (
            Damage(0, 7, dropped=frozenset({0, 2})),
            "BOS woman her dog walking down EOS",
            [0, 2, 2, 0, 0, 0, 2],
        ),
        (
            Damage(0, 8, preceded=frozenset({4})),
            "BOS a woman and her MASK dog walking down a EOS",
            [0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 2],
        ),
        (
            Damage(0, 8, exchanged=frozenset({4})),
            "BOS a woman and her MASK walking down a EOS",
            [0, 0, 0, 0, 0, 1, 0, 0, 0, 2],
        ),
    ],
)
def test_the_papers_example(codec: Codec, damage: Damage, tokens: str, actions: list[int]) -> None:
    pair = damaged(codec.encode(EXAMPLE)[1:-1], damage, codec)
    assert list(pair.tokens) == ids_of(codec, tokens)
    assert list(pair.actions) == actions


def test_the_masked_model_fills_the_masks_with_its_likeliest_word(tiny: LanguageModels) -> None:
    codec = tiny.codec
    sentence = codec.encode(EXAMPLE)[1:-1]
    drafts = [
        damaged(sentence, Damage(0, 8, preceded=frozenset({4})), codec),
        damaged(sentence, Damage(0, 8, exchanged=frozenset({4})), codec),
        damaged(sentence, Damage(0, 5, dropped=frozenset({1})), codec),
    ]
    filled = Creator(tiny.masked, codec, NoiseConfig(temperature=0), [1] * len(codec)).filled(drafts, random.Random(0))
    assert filled[2] == drafts[2]
    for draft, pair, banned in ((drafts[0], filled[0], -1), (drafts[1], filled[1], codec.pieces("dog")[0])):
        with torch.inference_mode():
            logits = tiny.masked(input_ids=torch.tensor([draft.tokens]), use_mems=False).logits[0, 5]
        words = [j for j in codec.proposable() if j != banned]
        assert pair.tokens[5] == max(words, key=lambda j: float(logits[j]))
        assert pair.tokens[:5] == draft.tokens[:5]
        assert pair.tokens[6:] == draft.tokens[6:]
        assert pair.actions == draft.actions


def mended(pair: Pair, sentence: list[int], damage: Damage) -> list[int]:
    """Carries out the labelled actions with knowledge of the original sentence: nothing else may be lost."""
    kept = [i for i in range(damage.start, damage.end) if i not in damage.dropped]
    words = [t for t, a in zip(pair.tokens[1:-1], pair.actions[1:-1], strict=True) if a != DELETE]
    assert len(words) == len(kept)
    return [
        sentence[i] if a == REPLACE else t
        for i, t, a in zip(kept, words, [a for a in pair.actions[1:-1] if a != DELETE], strict=True)
    ]


@given(st.lists(st.integers(5, 30), min_size=1, max_size=12), st.integers(0, 10_000))
def test_labels_undo_any_damage(codec: Codec, sentence: list[int], seed: int) -> None:
    content = [token % 2 == 0 for token in sentence]
    damage = draw_damage(content, NoiseConfig(replace=0.3, delete=0.3), random.Random(seed))
    pair = damaged(sentence, damage, codec)
    assert len(pair.tokens) == len(pair.actions)
    assert (pair.tokens[0], pair.tokens[-1]) == (codec.bos, codec.eos)
    assert pair.actions[0] == COPY
    assert mended(pair, sentence, damage) == [
        sentence[i] for i in range(damage.start, damage.end) if i not in damage.dropped
    ]
    missing_at_end = damage.end < len(sentence) or (damage.end - 1) in damage.dropped
    assert (pair.actions[-1] == INSERT) == missing_at_end


@given(st.lists(st.booleans(), min_size=3, max_size=12), st.integers(0, 1000))
def test_no_noise_no_damage(content: list[bool], seed: int) -> None:
    quiet = NoiseConfig(segment=0, insert=0, function_words=0, delete=0, replace=0)
    assert draw_damage(content, quiet, random.Random(seed)) == Damage(0, len(content))


def test_the_same_seed_makes_the_same_pairs(tiny: LanguageModels) -> None:
    creator = Creator(tiny.masked, tiny.codec, NoiseConfig(), [1] * len(tiny.codec))
    sentences = [tiny.codec.encode(EXAMPLE[:n])[1:-1] for n in (5, 9, 12)]
    contents = [[True] * len(s) for s in sentences]
    first = creator.pairs(sentences, contents, random.Random(3))
    assert first == creator.pairs(sentences, contents, random.Random(3))
    assert first != creator.pairs(sentences, contents, random.Random(4))
    assert all(tiny.codec.mask not in pair.tokens for pair in first)
