"""Sentences of a corpus that are like given ones."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.text.resemblance import END, STRANGE, WordPairs, most_like

sentences = st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=5).map(" ".join), min_size=1, max_size=12)


def test_probabilities_are_what_the_formula_says() -> None:
    pairs = WordPairs(["a man runs", "a dog runs"], vocabulary=10)
    total = 8 + 0.5 * 10
    trust = {"": 2 / 7, "a": 2 / 7, "man": 1 / 6, "runs": 2 / 7}
    expected = [
        math.log(trust[""] * 1 + (1 - trust[""]) * 2.5 / total),  # every sentence begins with "a"
        math.log(trust["a"] * 0.5 + (1 - trust["a"]) * 1.5 / total),  # half of the words after "a"
        math.log(trust["man"] * 1 + (1 - trust["man"]) * 2.5 / total),
        math.log(trust["runs"] * 1 + (1 - trust["runs"]) * 2.5 / total),
    ]
    assert pairs.log_probability("a man runs") == pytest.approx(sum(expected) / 4)
    unknown = [math.log((1 - trust[""]) * 0.5 / total), math.log(2.5 / total)]  # nothing is known to follow "cats"
    assert pairs.log_probability("cats") == pytest.approx(sum(unknown) / 2)


@given(sentences, st.sampled_from([*"abcdex", END]))
def test_probabilities_of_what_follows_add_up_to_one(corpus: list[str], before: str) -> None:
    pairs = WordPairs(corpus, vocabulary=6)
    assert sum(pairs.probability(before, word) for word in [*"abcde", END]) == pytest.approx(1)


@given(sentences, sentences, st.integers(1, 12))
def test_a_choice_is_part_of_the_corpus_and_keeps_its_order(corpus: list[str], wanted: list[str], count: int) -> None:
    found = most_like(corpus, wanted, count)
    assert len(found) == min(count, len(corpus))
    places = iter(corpus)
    assert all(sentence in places for sentence in found)


def test_style_and_subject_decide() -> None:
    corpus = ["man on a bench in a park", "a man is riding a horse", "then cut the carrot", "a dog is eating"] * STRANGE
    corpus += ["a zyx is riding a horse"]
    chosen = most_like(corpus, ["a woman is riding a horse", "a cat is eating"], 2 * STRANGE)
    assert set(chosen) == {"a man is riding a horse", "a dog is eating"}
    assert most_like(corpus, [], 3) == corpus[:3]
