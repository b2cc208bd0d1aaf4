"""Sentences that begin twice or do not come to an end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.text.grammar import meant


@pytest.mark.parametrize(
    ("sentence", "mended"),
    [
        ("there is a man is talking", "a man is talking"),
        ("there are some kids are playing basketball", "some kids are playing basketball"),
        ("there is a group of people are dancing", "a group of people are dancing"),
        ("there is a man in a blue shirt is walking", "a man in a blue shirt is walking"),
        ("there is a man and woman are fighting in a boat", "a man and woman are fighting in a boat"),
        ("there is a man and a woman are talking to each other", "a man and a woman are talking to each other"),
        ("there is a man talking to a woman", None),
        ("there is a man who is talking", None),
        ("there is a man and a woman who are talking", None),
        ("there is a dog and a cat is sleeping", None),
        ("there is a man is", None),
        ("there is", None),
        ("a man is there is a dog", None),
        ("there is a very long way to what is the second verb", None),
        ("a man is talking to each other", "a man is talking"),
        ("someone is playing with each other", "someone is playing"),
        ("two men are talking to each other", None),
        ("a group of people is talking to each other", None),
        ("a couple is dancing with each other", None),
        ("a man and woman is talking to each other", None),
        ("a man is making a dish in a kitchen with a kitchen", "a man is making a dish in a kitchen"),
        ("a man is talking to a man", None),
        ("a man sits with a man", None),
        ("a dog with a dog", None),
        ("a man is holding a dog with a dog", None),
        ("a man is pouring milk from a bowl into a bowl", None),
    ],
)
def test_what_says_nothing_is_cut_off(sentence: str, mended: str | None) -> None:
    words = sentence.split()
    assert " ".join(words[meant(words)]) == (mended or sentence)


WORDS = ["there", "is", "are", "a", "man", "who", "and", "talking", "to", "with", "each", "other"]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_what_is_left_is_a_sentence_that_needs_no_mending(words: list[str]) -> None:
    left = words[meant(words)]
    assert bool(left) == bool(words)
    assert " ".join(left) in " ".join(words)
    assert len(left) == len(words) or len(left) >= 2
