"""Sentences that begin twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.text.grammar import stray_words


@pytest.mark.parametrize(
    ("sentence", "mended"),
    [
        ("there is a man is talking", "a man is talking"),
        ("there are some kids are playing basketball", "some kids are playing basketball"),
        ("there is a group of people are dancing", "a group of people are dancing"),
        ("there is a man talking to a woman", None),
        ("there is a man who is talking", None),
        ("there is a dog and a cat is sleeping", None),
        ("there is a man is", None),
        ("there is", None),
        ("a man is there is a dog", None),
        ("there is a very long way to what is the second verb", None),
    ],
)
def test_a_second_beginning_replaces_the_first(sentence: str, mended: str | None) -> None:
    words = sentence.split()
    assert " ".join(words[stray_words(words) :]) == (mended or sentence)


@given(st.lists(st.sampled_from(["there", "is", "are", "a", "man", "who", "and", "talking"]), max_size=9))
def test_what_is_left_is_a_sentence_that_needs_no_mending(words: list[str]) -> None:
    stray = stray_words(words)
    left = words[stray:]
    assert stray in (0, 2)
    assert words == [] or left
    if stray:
        assert words[0] == "there"
        assert any(word in ("is", "are") for word in left)
