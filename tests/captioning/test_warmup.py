"""The text warm-up: what stands for a video, and what is kept."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from fewcap.captioning.model import CaptionModel, Dims
from fewcap.captioning.warmup import Warmth, apply, count_words, disturbed, packed, read, read_corpus
from fewcap.core.config.train import ModelConfig, WarmupConfig
from fewcap.core.errors import FewcapError
from fewcap.text.vocabulary import Vocabulary


def test_disturbed_anchors_keep_the_asked_closeness() -> None:
    random = np.random.default_rng(0)
    e = random.standard_normal((300, 48))
    e /= np.linalg.norm(e, axis=1, keepdims=True)
    found = disturbed(e, (0.3, 0.6), random)
    cosines = (found * e).sum(1)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert cosines.min() >= 0.3 - 1e-5
    assert cosines.max() <= 0.6 + 1e-5


def test_the_corpus_is_read_once_each_and_in_a_seeded_order(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_text("A man, is singing!\ntoo short\na man is singing\n" + "w " * 30 + "\n")
    zipped.write_bytes(gzip.compress(b"two dogs run fast\n"))
    found = read_corpus([plain, zipped], WarmupConfig(), [], seed=0)
    assert sorted(found) == ["a man is singing", "two dogs run fast"]
    with pytest.raises(FewcapError, match=r"missing\.txt"):
        read_corpus([tmp_path / "missing.txt"], WarmupConfig(), [], seed=0)
    plain.write_text(
        "\n".join(
            f"a {n} is {v} the {o}"
            for n in ("dog", "cat", "man")
            for v in ("eating", "seeing")
            for o in ("ball", "car")
        )
    )
    wanted = WarmupConfig(max_sentences=4)
    chosen = read_corpus([plain], wanted, ["A cat is eating something."], seed=0)
    assert all("cat" in sentence for sentence in chosen)
    anyhow = read_corpus([plain], wanted.model_copy(update={"like_given": False}), ["A cat is eating."], seed=0)
    assert len(anyhow) == 4
    assert anyhow != chosen
    assert count_words(["a b a", "a c"], 2) == {"a": 3, "b": 1}


def test_weights_are_taken_over_word_by_word() -> None:
    config = ModelConfig(width=16, heads=2)
    old, new = Vocabulary(["man", "dog", "runs"]), Vocabulary(["runs", "piano", "man"])
    torch.manual_seed(0)
    source = CaptionModel(config, Dims({}, len(old), 384, 8))
    target = CaptionModel(config, Dims({"appearance": 5}, len(new), 384, 8))
    before = target.word_embedding.weight[new["piano"]].clone()
    warmth = Warmth(old.words, {"man": 3, "dog": 2, "runs": 1}, {k: v.clone() for k, v in source.state_dict().items()})
    assert apply(warmth, target, new) > 20
    for word in ("man", "runs"):
        torch.testing.assert_close(target.word_embedding.weight[new[word]], source.word_embedding.weight[old[word]])
    torch.testing.assert_close(target.word_embedding.weight[new["piano"]], before)
    torch.testing.assert_close(target.blocks[0].feed_forward[0].weight, source.blocks[0].feed_forward[0].weight)


def test_packing_loses_little(tmp_path: Path) -> None:
    weights = {"m": torch.randn(6, 40, generator=torch.Generator().manual_seed(0)), "b": torch.randn(5)}
    path = tmp_path / "w.safetensors"
    path.write_bytes(packed(Warmth(("<pad>", "ä"), {"ä": 2}, weights)))
    back = read(path)
    assert back.words == ("<pad>", "ä")
    assert back.counts == {"ä": 2}
    assert (back.weights["m"] - weights["m"]).abs().max() < 0.02
    torch.testing.assert_close(back.weights["b"], weights["b"], atol=2e-3, rtol=2e-3)


def test_another_width_is_refused() -> None:
    vocabulary = Vocabulary(["man", "dog"])
    wide, narrow = (CaptionModel(ModelConfig(width=width), Dims({}, len(vocabulary), 384, 8)) for width in (384, 256))
    with pytest.raises(FewcapError, match=r"model\.width=384.*model\.width=256"):
        apply(Warmth(vocabulary.words, {}, wide.state_dict()), narrow, vocabulary)
