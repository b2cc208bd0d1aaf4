"""What a caption is worth to the scores of its set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.evaluation.cider import CiderReward
from fewcap.evaluation.worth import _CIDER, Worth, _counts, _score, _Sentence, _slope

REFERENCES = {
    "v1": ["a man is playing a guitar on a stage", "a man plays the guitar"],
    "v2": ["a dog is running", "the dog runs through the grass"],
    "v3": ["a woman is slicing an onion"],
}


@given(st.tuples(*[st.floats(1.0, 50.0)] * 4))
def test_the_slope_is_that_of_the_score(counts: tuple[float, float, float, float]) -> None:
    slope = _slope(*counts)
    for place in range(4):
        up, down = list(counts), list(counts)
        up[place] += 1e-4
        down[place] -= 1e-4
        assert slope[place] == pytest.approx((_score(*up) - _score(*down)) / 2e-4, rel=1e-3, abs=1e-7)


def test_counts_are_those_of_the_reference_that_scores_best() -> None:
    caption = _Sentence.of("a man plays guitar")
    references = [_Sentence.of(text) for text in REFERENCES["v1"]]
    # "a man plays the guitar": four words match in two runs, "a man plays" and "guitar"
    assert _counts(caption, references) == (4, 5, 4, 2)
    assert _counts(_Sentence.of("a man plays the guitar"), references) == (5, 5, 5, 0)
    assert _score(*_counts(_Sentence.of("zebras"), references)) == 0


def test_worth_is_what_the_scores_of_the_set_gain() -> None:
    """Against the scores of sets that differ in one caption, of many."""
    said = {"v1": "a man is playing a guitar", "v2": "a dog is a dog", "v3": "a woman is cooking"}
    others = {"v1": "a man is singing on a stage", "v2": "a dog runs", "v3": "a woman is slicing an onion in a pan"}
    videos, captions = [*said, *others], [*said.values(), *others.values()]
    found = Worth(REFERENCES)(videos, captions)
    cider = CiderReward(REFERENCES)(videos, captions)
    counts = {
        text: np.array(_counts(_Sentence.of(text), list(map(_Sentence.of, REFERENCES[v]))))
        for v, text in zip(videos, captions, strict=True)
    }
    total = sum(counts.values())
    for place, video in enumerate(said):
        before, after = said[video], others[video]
        small = 1e-5 * (counts[after] - counts[before])
        gain = (_score(*(total + small)) - _score(*(total - small))) / 2e-5 * len(captions) / _score(*total)
        gain += _CIDER * (cider[place + 3] - cider[place]) / cider.mean()
        assert found[place + 3] - found[place] == pytest.approx(gain, rel=1e-3)


def test_a_right_caption_is_worth_more_and_a_long_right_one_most() -> None:
    captions = ["a man is playing a guitar on a stage", "a man plays the guitar", "a woman is singing"]
    worth = Worth(REFERENCES)(["v1"] * 3, captions)
    assert worth[0] > worth[1] > worth[2]


def test_captions_without_a_word_in_common_are_no_error() -> None:
    assert np.isfinite(Worth(REFERENCES)(["v1", "v2"], ["zebras", ""])).all()
