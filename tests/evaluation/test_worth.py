"""What a caption is worth to the scores of its set."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fewcap.evaluation.cider import CiderReward
from fewcap.evaluation.metric import CiderMetric
from fewcap.evaluation.worth import (
    CHOICE,
    REWARD,
    Weights,
    Worth,
    _best_match,
    _bleu_slope,
    _meteor,
    _meteor_slope,
    _Sentence,
)

REFERENCES = {
    "v1": ["a man is playing a guitar on a stage", "a man plays the guitar"],
    "v2": ["a dog is running", "the dog runs through the grass"],
    "v3": ["a woman is slicing an onion"],
}


@given(st.tuples(*[st.floats(1.0, 50.0)] * 4))
def test_the_slope_of_meteor_is_that_of_its_logarithm(counts: tuple[float, float, float, float]) -> None:
    assume(counts[3] < counts[2])  # runs are made of matches
    slope = _meteor_slope(np.array(counts))
    for place in range(4):
        up, down = list(counts), list(counts)
        up[place] += 1e-4
        down[place] -= 1e-4
        expected = (math.log(_meteor(*up)) - math.log(_meteor(*down))) / 2e-4
        assert slope[place] == pytest.approx(expected, rel=1e-3, abs=1e-6)


def bleu(counts: Sequence[float]) -> float:
    """BLEU-4, literally: correct and guessed n-grams, the caption's words and the reference's."""
    precisions = [counts[n] / counts[n + 4] for n in range(4)]
    return min(1.0, math.exp(1 - counts[9] / counts[8])) * math.prod(precisions) ** 0.25


@given(st.lists(st.floats(1.0, 50.0), min_size=10, max_size=10))
def test_the_slope_of_bleu_is_that_of_its_logarithm(counts: list[float]) -> None:
    assume(abs(counts[9] - counts[8]) > 1e-2)  # the penalty for brevity has a bend there
    slope = _bleu_slope(np.array(counts))
    for place in range(10):
        up, down = list(counts), list(counts)
        up[place] += 1e-4
        down[place] -= 1e-4
        expected = (math.log(bleu(up)) - math.log(bleu(down))) / 2e-4
        assert slope[place] == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_meteor_counts_those_of_the_reference_that_scores_best() -> None:
    references = [_Sentence.of(text) for text in REFERENCES["v1"]]
    # "a man plays the guitar": four words match in two runs, "a man plays" and "guitar"
    assert _best_match(_Sentence.of("a man plays guitar"), references) == (4, 5, 4, 2)
    assert _best_match(_Sentence.of("a man plays the guitar"), references) == (5, 5, 5, 0)
    assert _meteor(*_best_match(_Sentence.of("zebras"), references)) == 0


@pytest.mark.parametrize("weights", [CHOICE, REWARD, Weights(0.5, 2.0, 0.0)])
def test_worth_is_what_the_scores_of_the_set_gain(weights: Weights) -> None:
    """Against the scores of sets in which a little of one caption is exchanged for another one."""
    said = {"v1": "a man is playing a guitar", "v2": "a dog is a dog", "v3": "a woman is slicing a dog"}
    others = {"v1": "a man is singing on a stage", "v2": "a dog is running", "v3": "a woman is slicing an onion"}
    videos, captions = [*said, *others], [*said.values(), *others.values()]
    worth = Worth(REFERENCES, weights)
    found, cider = worth(videos, captions), CiderReward(REFERENCES)(videos, captions)
    meteor_counts, bleu_counts = worth._meteor_counts(videos, captions), worth._bleu_counts(videos, captions)
    for place in range(3):
        gain = weights.cider * (cider[place + 3] - cider[place]) / cider.mean()
        for weight, counts, score in (
            (weights.meteor, meteor_counts, _meteor),
            (weights.bleu, bleu_counts, lambda *x: bleu(x)),
        ):
            small = 1e-5 * (counts[place + 3] - counts[place])
            up, down = (score(*(counts.sum(0) + sign * small)) for sign in (1, -1))
            gain += weight * (math.log(up) - math.log(down)) / 2e-5 * len(captions)
        assert found[place + 3] - found[place] == pytest.approx(gain, rel=1e-3)


def test_training_is_rewarded_by_cider_d_or_by_all_scores() -> None:
    videos, captions = ["v1", "v2"], ["a man is playing a guitar", "a dog runs"]
    metric = CiderMetric()
    by_cider, by_scores = metric.reward(REFERENCES), metric.reward(REFERENCES, "scores")
    assert (by_cider(videos, captions) == CiderReward(REFERENCES)(videos, captions)).all()
    assert (by_scores(videos, captions) == Worth(REFERENCES, REWARD)(videos, captions)).all()
    assert (metric.worth(REFERENCES)(videos, captions) == Worth(REFERENCES, CHOICE)(videos, captions)).all()


def test_a_right_caption_is_worth_more_and_a_long_right_one_most() -> None:
    captions = ["a man is playing a guitar on a stage", "a man plays the guitar", "a woman is singing"]
    worth = Worth(REFERENCES)(["v1"] * 3, captions)
    assert worth[0] > worth[1] > worth[2]


def test_captions_without_a_word_in_common_are_no_error() -> None:
    assert np.isfinite(Worth(REFERENCES)(["v1", "v2"], ["zebras", ""])).all()
