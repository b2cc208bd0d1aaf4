"""Candidates that say something else than their given sentence."""

from __future__ import annotations

import pytest

from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.judge import Judged
from fewcap.pseudo.nearness import near_enough
from fewcap.text.embed import SentenceEncoder

SOURCE = Source("v", 0, "two rhinos are walking around", ("rhinos", "walking"))


def judged(text: str, why: str = "") -> Judged:
    return Judged(SOURCE, Candidate(tuple(text.split())), why)


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.load()


def test_another_meaning_is_refused_and_its_nearness_said(encoder: SentenceEncoder) -> None:
    same = judged("two rhinos are walking")
    other = judged("a dog is pushing a sledge in the snow")
    kept, refused = near_enough({"v": [same, other]}, encoder, 0.8)["v"]
    assert kept is same
    nearness = float(encoder.encode([other.text])[0] @ encoder.encode([SOURCE.text])[0])
    assert refused.why == f"means something else than the given sentence (nearness {nearness:.2f})"
    assert refused.candidate is other.candidate


def test_earlier_verdicts_stay(encoder: SentenceEncoder) -> None:
    refused = judged("a dog is pushing a sledge in the snow", "repeats dog")
    assert near_enough({"v": [refused], "w": []}, encoder, 0.8) == {"v": [refused], "w": []}


def test_a_lower_limit_lets_more_pass(encoder: SentenceEncoder) -> None:
    texts = ["two rhinos are walking", "a rhino is walking on a field", "two animals are running", "a man is cooking"]
    passed = [
        sum(not j.why for j in near_enough({"v": [judged(text) for text in texts]}, encoder, limit)["v"])
        for limit in (0.99, 0.6, -1.0)
    ]
    assert passed == sorted(passed)
    assert passed[0] < passed[1] < passed[2] == len(texts)
