from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

SENTENCES = [["a", "man", "sings"], ["a", "man", "runs"], ["a", "dog", "runs"]]


def test_words_seen_at_least_twice_by_frequency_then_alphabet() -> None:
    vocabulary = Vocabulary.count(SENTENCES)
    assert vocabulary.words == ("<pad>", "<bos>", "<eos>", "<unk>", "a", "man", "runs")
    assert [vocabulary.words[i] for i in (PAD, BOS, EOS, UNK)] == ["<pad>", "<bos>", "<eos>", "<unk>"]


def test_a_word_seen_once_is_kept_when_it_is_common_elsewhere() -> None:
    vocabulary = Vocabulary.count(SENTENCES, known={"dog": 50, "cat": 90})
    assert "dog" in vocabulary
    assert "cat" not in vocabulary
    assert "cat" in vocabulary.extended(["cat", "dog", "cat"])


@given(st.lists(st.sampled_from(["a", "man", "runs", "unseen"])))
def test_encoding_and_decoding(words: list[str]) -> None:
    vocabulary = Vocabulary.count(SENTENCES)
    numbers = vocabulary.encode(words)
    assert numbers.count(UNK) == words.count("unseen")
    back = vocabulary.decode([BOS, *numbers, EOS, 4, 4])
    assert back == ["<unk>" if word == "unseen" else word for word in words]


def test_extending_keeps_the_numbers() -> None:
    vocabulary = Vocabulary.count(SENTENCES)
    longer = vocabulary.extended(["piano"])
    assert longer.words[: len(vocabulary)] == vocabulary.words
    assert longer["piano"] == len(vocabulary)


def test_a_word_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="twice"):
        Vocabulary(["a", "a"])
