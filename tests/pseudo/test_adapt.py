"""The editor's models learn how the given sentences sound."""

from __future__ import annotations

from pathlib import Path

import torch

from fewcap.core.config.label import AdaptConfig, NoiseConfig
from fewcap.pseudo.adapt import adapt_models
from fewcap.pseudo.inference import fluency
from fewcap.pseudo.language import LanguageModels

GIVEN = [
    f"{article} {size} {who} is {doing} on the street"
    for article in ("a", "the")
    for size in ("small", "big", "red")
    for who in ("man", "woman", "dog", "baby")
    for doing in ("running", "walking", "playing")
]


def mean_fluency(models: LanguageModels) -> float:
    scores = fluency(models.forward, models.backward, [tuple(models.codec.encode(s.split())) for s in GIVEN])
    return sum(scores) / len(scores)


def test_given_sentences_become_likelier_and_twice_is_the_same(tiny_folder: Path, tmp_path: Path) -> None:
    config = AdaptConfig(epochs=4, rate=1e-2)
    for name in ("one", "two"):
        out, scratch = tmp_path / name, tmp_path / f"scratch {name}"
        assert adapt_models(str(tiny_folder), GIVEN, config, NoiseConfig(), out, scratch=scratch, seed=0)
    before, one = LanguageModels.load(str(tiny_folder)), LanguageModels.load(str(tmp_path / "one"))
    assert mean_fluency(one) > mean_fluency(before) + 0.5
    two = LanguageModels.load(str(tmp_path / "two"))
    for role in ("forward", "backward", "classifier"):
        assert all(
            torch.equal(a, b)
            for a, b in zip(getattr(one, role).parameters(), getattr(two, role).parameters(), strict=True)
        )
    for a, b in zip(one.masked.parameters(), before.masked.parameters(), strict=True):
        assert torch.equal(a, b)


def test_too_few_sentences_or_none_wanted(tiny_folder: Path, tmp_path: Path) -> None:
    for sentences, config in ((GIVEN[:10], AdaptConfig()), (GIVEN, AdaptConfig(epochs=0))):
        arguments = (str(tiny_folder), sentences, config, NoiseConfig(), tmp_path / "out")
        assert not adapt_models(*arguments, scratch=tmp_path / "scratch", seed=0)
    assert not (tmp_path / "out").exists()
