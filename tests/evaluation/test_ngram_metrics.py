"""BLEU, ROUGE-L and CIDEr-D equal coco-caption's on real references, for the corpus and for each item."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewcap.core.errors import FewcapError
from fewcap.evaluation.bleu import bleu_counts
from fewcap.evaluation.cider import CiderD, CiderReward, cider_d
from fewcap.evaluation.metric import CiderMetric
from fewcap.evaluation.ngrams import ReferenceSet
from fewcap.evaluation.ptb import tokenise
from fewcap.evaluation.rouge import rouge_l

Tokenised = tuple[list[str], dict[str, list[str]]]


def reference_scores(name: str, hypotheses: list[str], references: dict[str, list[str]]) -> tuple[Any, Any]:
    pytest.importorskip("pycocoevalcap", reason="pycocoevalcap, the reference, is not installed")
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    scorer = {"bleu": lambda: Bleu(4), "rouge": Rouge, "cider": Cider}[name]()
    captions = {key: [caption] for key, caption in zip(references, hypotheses, strict=True)}
    with contextlib.redirect_stdout(io.StringIO()):
        return scorer.compute_score(references, captions)


def assert_parity(hypotheses: list[str], references: dict[str, list[str]]) -> None:
    prepared = ReferenceSet(references)
    counts = bleu_counts(hypotheses, prepared)
    corpus, sentences = reference_scores("bleu", hypotheses, references)
    np.testing.assert_allclose(counts.corpus(), corpus, rtol=0, atol=1e-9)
    np.testing.assert_allclose(counts.sentences().T, sentences, rtol=0, atol=1e-9)

    corpus, sentences = reference_scores("rouge", hypotheses, references)
    ours = rouge_l(hypotheses, list(references.values()))
    np.testing.assert_allclose(ours, sentences, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.mean(), corpus, rtol=0, atol=1e-9)

    corpus, sentences = reference_scores("cider", hypotheses, references)
    ours = CiderD(prepared).tokenised_scores(hypotheses)
    np.testing.assert_allclose(ours, sentences, rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.mean(), corpus, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["msvd", "msrvtt"])
def test_equal_to_coco_caption_on_real_references(corpus: str, request: pytest.FixtureRequest) -> None:
    captions, references = request.getfixturevalue(corpus)
    tokenised = {key: [tokenise(caption) for caption in group] for key, group in references.items()}
    assert_parity([tokenise(caption) for caption in captions.values()], tokenised)


WORDS = st.lists(st.sampled_from(["a", "man", "dog", "is", "runs", "the", "ball", "of"]), max_size=9).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WORDS, st.lists(WORDS.filter(bool), min_size=1, max_size=4)), min_size=1, max_size=6))
def test_equal_to_coco_caption_on_anything(items: list[tuple[str, list[str]]]) -> None:
    references = {str(index): group for index, (_, group) in enumerate(items)}
    assert_parity([caption for caption, _ in items], references)


def test_caption_longer_than_a_machine_word() -> None:
    long = " ".join(f"word{i % 70}" for i in range(150))
    assert_parity([long, "a dog"], {"a": [long + " end", "word1 word2"], "b": ["a dog runs"]})


def test_metric_is_on_the_papers_scale_and_one_item_scores_nothing() -> None:
    references = {"a": ["a man is cooking"], "b": ["a dog is running"]}
    captions = {"a": "a man is cooking", "b": "a dog is running"}
    assert cider_d(captions, references) == pytest.approx(1000.0)
    assert cider_d({"a": captions["a"]}, {"a": references["a"]}) == 0.0
    metric = CiderMetric()
    assert metric(captions, references) == metric(captions, references) == cider_d(captions, references)
    assert metric(captions, {**references, "b": ["a cat sleeps"]}) < 1000.0


def test_ids_must_match() -> None:
    with pytest.raises(FewcapError, match=r"1 ids have no caption .first: 'b'. and 1 captions have no reference"):
        cider_d({"a": "x", "c": "y"}, {"a": ["x"], "b": ["y"]})
    with pytest.raises(FewcapError, match="'b' has no reference caption"):
        cider_d({"a": "x", "b": "y"}, {"a": ["x"], "b": []})


def test_reward_of_several_captions_is_that_of_each_alone() -> None:
    references = {"a": ["a man is running", "the man runs"], "b": ["a dog sits on a ball"], "c": ["a cat"]}
    reward = CiderReward(references)
    videos, captions = ["b", "a", "b", "c", "a"], ["a dog", "a man is running", "a dog sits on a ball", "", "dog"]
    ended = {video: [f"{text} <end>" for text in group] for video, group in references.items()}
    for video, caption, value in zip(videos, captions, reward(videos, captions), strict=True):
        alone = CiderD(ReferenceSet(ended)).tokenised_scores(
            [f"{caption} <end>" if other == video else "nothing" for other in references]
        )
        assert value == pytest.approx(alone[list(references).index(video)], abs=1e-12)


def test_agreement_is_the_score_against_the_others() -> None:
    references = {
        "a": ["a man is running", "a man is running", "the dog barks"],
        "b": ["a dog sits on a ball", "a dog sits on the ball", "a dog plays"],
        "c": ["a cat"],
    }
    agreement = CiderMetric().agreement(references)
    np.testing.assert_allclose(agreement["a"], [5, 5, 0], atol=1e-9)
    assert agreement["b"][0] > agreement["b"][2] > 0
    assert agreement["c"].tolist() == [0]


def test_a_caption_that_breaks_off_is_paid_less() -> None:
    references = {"a": ["a man is running with a ball", "a man is running with a ball"], "b": ["a dog"]}
    reward = CiderReward(references)
    whole, broken = reward(["a", "a"], ["a man is running", "a man is running with a"])
    plain = CiderD(ReferenceSet(references))
    assert (
        whole - broken
        > plain.tokenised_scores(["a man is running", "x"])[0]
        - plain.tokenised_scores(["a man is running with a", "x"])[0]
    )
