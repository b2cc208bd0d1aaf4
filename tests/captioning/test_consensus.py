"""Consensus is CIDEr-D's closeness, in expectation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fewcap.captioning.consensus import Consensus, Voters, by_merit
from fewcap.captioning.decode import Hypothesis
from fewcap.text.closeness import closeness


def hypothesis(words: tuple[int, ...], value: float) -> Hypothesis:
    return Hypothesis(words, value, value / (len(words) + 1))


def ordered(consensus: Consensus, hypotheses: list[Hypothesis], voters: Voters | None = None) -> list[Hypothesis]:
    return by_merit(hypotheses, consensus.merits(hypotheses, voters))


def test_the_caption_that_others_agree_with_wins_over_the_likeliest() -> None:
    sentences = [[4, 5, 6], [4, 7, 8], [9, 10, 11], [4, 12, 13, 14]]
    outlier = hypothesis((9, 10, 11), -1.0)
    crowd = [hypothesis((4, 5, 6), -1.2), hypothesis((4, 5, 6, 7), -1.3), hypothesis((4, 5, 8), -1.4)]
    found = ordered(Consensus(sentences), [outlier, *crowd])
    assert found[0].words[:2] == (4, 5)
    assert sorted(found, key=lambda h: h.words) == sorted([outlier, *crowd], key=lambda h: h.words)
    certain = hypothesis((9, 10, 11), 30.0)
    assert ordered(Consensus(sentences), [*crowd, certain])[0] == certain


def test_closeness_equals_cider_d() -> None:
    """Against the project's CIDEr-D, with the training sentences as the references that set the rarities."""
    cider = pytest.importorskip("fewcap.evaluation.cider")
    texts = ["w4 w5 w6 w7", "w4 w5 w8", "w9 w5 w6 w7 w4", "w8 w9"]
    numbers = [tuple(int(w[1:]) for w in text.split()) for text in texts]
    consensus = Consensus(numbers)
    metric = cider.CiderD.of({str(i): [text] for i, text in enumerate(texts)})
    hypotheses = {"0": "w4 w5 w6", "1": "w4 w8", "2": "w4 w5 w6 w7", "3": "w9 w8 w9"}
    expected = metric.scores(hypotheses)
    for key, text in hypotheses.items():
        words = tuple(int(w[1:]) for w in text.split())
        found = closeness([consensus._grams(words)], [consensus._grams(numbers[int(key)])])
        assert math.isclose(found[0, 0] * 1000, expected[key], rel_tol=1e-6, abs_tol=1e-9)


def test_people_s_sentences_vote_as_much_as_the_captions() -> None:
    """Against a literal sum of CIDEr-D over captions and sentences."""
    sentences = [(4, 5, 6), (4, 7, 8), (9, 10, 11), (4, 12, 13, 14), (9, 10, 12)]
    consensus = Consensus(sentences)
    hypotheses = [hypothesis((4, 5, 6), -1.0), hypothesis((4, 7, 8, 5), -1.5), hypothesis((9, 10, 11), -2.0)]
    voters = Voters(np.array([4, 2, 0]), np.array([0.5, 0.3, 0.2]))

    def close(a: tuple[int, ...], b: tuple[int, ...]) -> float:
        return float(closeness([consensus._grams(a)], [consensus._grams(b)])[0, 0])

    powers = [math.exp(0.3 * (h.log_probability + 1.0)) for h in hypotheses]
    agreed = {
        h.words: sum(p * close(h.words, o.words) for p, o in zip(powers, hypotheses, strict=True)) / sum(powers)
        + sum(s * close(h.words, sentences[i]) for i, s in zip(voters.sentences, voters.shares, strict=True))
        for h in hypotheses
    }
    assert [h.words for h in ordered(consensus, hypotheses, voters)] == sorted(agreed, key=lambda w: -agreed[w])
    assert ordered(consensus, hypotheses)[0].words[0] == 4
    assert ordered(consensus, hypotheses, voters)[0].words == (9, 10, 11)


def test_one_caption_needs_no_agreement() -> None:
    only = hypothesis((4,), -1.0)
    assert ordered(Consensus([[4]]), [only]) == [only]


def test_the_best_of_several_voters_is_an_expectation() -> None:
    """Against the literal mean over all draws of three sentences out of four."""
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    closeness = np.array([[0.1, 0.9, 0.3, 0.3], [0.5, 0.5, 0.5, 0.5], [0.0, 0.2, 0.0, 1.0]])
    expected = [
        sum(math.prod(shares[list(drawn)]) * max(row[list(drawn)]) for drawn in itertools.product(range(4), repeat=3))
        for row in closeness
    ]
    assert Voters(np.arange(4), shares, best_of=3).agreement(closeness) == pytest.approx(expected)
    assert Voters(np.arange(4), shares, best_of=1).agreement(closeness) == pytest.approx(closeness @ shares)
    assert Voters(np.arange(4), shares).agreement(closeness) == pytest.approx(closeness @ shares)


def test_a_caption_that_one_person_might_have_written_wins_by_the_best_voter() -> None:
    near = [(4, 5, 6, 7), (4, 5, 6, 8), (4, 5, 6, 12), (9, 10, 11, 13)]
    consensus = Consensus([*near, *((n, n + 1, n + 2) for n in range(20, 80))])
    hypotheses = [hypothesis((4, 5, 6), -1.0), hypothesis((9, 10, 11, 13), -1.1)]
    nearest, shares = np.arange(4), np.array([0.32, 0.32, 0.32, 0.04])
    assert ordered(consensus, hypotheses, Voters(nearest, shares))[0].words == (4, 5, 6)
    assert ordered(consensus, hypotheses, Voters(nearest, shares, best_of=40))[0].words == (9, 10, 11, 13)
