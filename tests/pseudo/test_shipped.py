"""The shipped models: small enough, whole, and able to write sentences."""

from __future__ import annotations

import json

import pytest

from fewcap.core.assets import asset
from fewcap.core.config.label import LabelConfig
from fewcap.pseudo.candidates import Source
from fewcap.pseudo.judge import judge, repeated_word
from fewcap.pseudo.language import ROLES
from fewcap.pseudo.strategies import load_strategy
from fewcap.text.tagger import load_tagger

SOURCES = [
    Source("v1", 0, "a man is playing guitar", ("man", "playing", "guitar")),
    Source("v2", 0, "a woman is slicing an onion", ("woman", "slicing", "onion")),
    Source("v3", 0, "two dogs run on the beach", ("dogs", "run", "beach")),
]


def test_all_models_inside_stay_small() -> None:
    assert sum(path.stat().st_size for path in asset("xlnet").parent.rglob("*") if path.is_file()) < 60e6


def test_size_and_card() -> None:
    folder = asset("xlnet")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 40e6
    card = json.loads((folder / "card.json").read_text())
    for role in ROLES[:3]:
        assert card[role]["held_out_perplexity"] < 40
    text = (folder / "README.md").read_text()
    for role in ROLES[:3]:
        assert f"{card[role]['held_out_perplexity']}" in text
    for action in ("copy", "replace", "insert", "delete"):
        for figure in card["classifier"][action].values():
            assert f" {figure} |" in text


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    config = LabelConfig(strategy="edit")
    strategy = load_strategy(config, seed=0)
    groups = []
    for source, candidates in zip(SOURCES, strategy.candidates(SOURCES), strict=True):
        judged = judge([(source, candidates)], config.edit, load_tagger(), keeps_keywords=True)
        groups.append([verdict.text for verdict in judged if not verdict.why])
    return groups


def test_five_different_sentences_with_every_keyword(sentences: list[list[str]]) -> None:
    for source, group in zip(SOURCES, sentences, strict=True):
        assert len(set(group)) >= 5
        for sentence in group:
            assert set(source.keywords) <= set(sentence.split())
            assert not repeated_word(sentence.split(), load_tagger())


def test_sentences_read_like_captions(sentences: list[list[str]]) -> None:
    starts = [sentence.split()[0] for group in sentences for sentence in group]
    assert sum(start in ("a", "an", "the", "two", "three", "some", "one") for start in starts) > 0.6 * len(starts)
