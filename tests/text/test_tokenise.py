from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.text.tokenise import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man's T-shirt, isn't it?", "a man s t shirt isn t it"),
        ("  two\tspaces\nand lines ", "two spaces and lines"),
        ("a woman’s café", "a woman s café"),
        ("x_y 3.5 20% rock&roll", "x y 3 5 20 rock roll"),
        ("ÉCOLE Straße ñandú", "école straße ñandú"),
        ("हिन्दी में", "हिन्दी में"),
        ("ﬁsh cafe\u0301", "fish café"),
        ("...", ""),
        ("", ""),
    ],
)
def test_lower_case_words_without_punctuation(text: str, expected: str) -> None:
    assert words(text) == expected.split()


@given(st.text())
def test_words_of_words_are_the_same_words(text: str) -> None:
    assert words(" ".join(words(text))) == words(text)


def test_captions_of_msvd_are_left_as_they_are(shared_data: Path) -> None:
    with gzip.open(shared_data / "msvd" / "captions.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            for caption in json.loads(line)["captions"]:
                assert words(caption) == caption.split()
