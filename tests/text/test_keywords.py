"""Keywords: nouns and verbs by the shipped tagger."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.core.assets import asset
from fewcap.core.errors import FewcapError
from fewcap.text.keywords import keywords
from fewcap.text.tagger import CaptionTagger, load_tagger
from fewcap.text.tokenise import words


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("A man is playing guitar.", ["man", "playing", "guitar"]),
        ("a man is playing guitar", ["man", "playing", "guitar"]),
        ("a squirrel is eating a peanut in it s shell", ["squirrel", "eating", "peanut", "shell"]),
        ("Two women have been running.", ["women", "running"]),
        ("someone slices a tomato with a knife", ["slices", "tomato", "knife"]),
        ("a dog and another dog are barking", ["dog", "barking"]),
        ("run", ["run"]),
        ("of the", []),
        ("", []),
        ("🙂 !!", []),
    ],
)
def test_nouns_and_verbs_in_order(sentence: str, expected: list[str]) -> None:
    assert keywords(sentence) == expected


def test_at_most_n() -> None:
    assert keywords("a woman is mixing an egg in a bowl with a whisk", 3) == ["woman", "mixing", "egg"]


def test_agrees_with_the_teacher_on_held_out_captions(shared_data: Path) -> None:
    """MSVD, COCO and Flickr captions that the tagger never saw; teacher.json has sentence hash -> N, V or O a word."""
    teacher = json.loads((Path(__file__).parent / "teacher.json").read_text(encoding="utf-8"))
    tagger = CaptionTagger()
    same = total = 0
    for tokens in _captions(shared_data):
        flags = teacher.pop(hashlib.sha256(" ".join(tokens).encode()).hexdigest()[:16], "")
        if flags:
            same += sum(a == b for a, b in zip(tagger.coarse(tokens), flags, strict=True))
            total += len(flags)
    assert total > 2000
    assert same / total >= 0.97


def _captions(shared_data: Path) -> Iterator[list[str]]:
    for name in ("coco", "flickr"):
        with gzip.open(shared_data / "corpus" / f"{name}.txt.gz", "rt", encoding="utf-8") as lines:
            yield from map(words, lines)
    with gzip.open(shared_data / "msvd" / "captions.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield from map(words, json.loads(line)["captions"])


@given(st.text(max_size=60))
def test_any_text_gives_some_of_its_words(text: str) -> None:
    found = keywords(text)
    assert set(found) <= set(words(text))
    assert len(found) == len(set(found))


def test_the_shipped_weights_are_small() -> None:
    assert asset("tagger.json").stat().st_size < 1.5e6


def test_nltks_own_tagger_says_what_to_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nltk.data.path", [])
    load_tagger.cache_clear()
    with pytest.raises(FewcapError, match="averaged_perceptron_tagger_eng"):
        load_tagger("nltk")
