"""What keeps a candidate from being ranked."""

from __future__ import annotations

import pytest

from fewcap.core.config.label import EditConfig
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.grammar import agreement_error, is_plural
from fewcap.pseudo.judge import judge, with_articles
from fewcap.pseudo.label import most_fluent
from fewcap.text.tagger import CaptionTagger, load_tagger
from fewcap.text.tokenise import words

SOURCE = Source("v", 0, "A man is playing guitar.", ("man", "playing", "guitar"))


def verdicts(*texts: str, keeps_keywords: bool = True) -> list[str]:
    candidates = [Candidate(tuple(text.split())) for text in texts]
    judged = judge([(SOURCE, candidates)], EditConfig(longest=9), load_tagger(), keeps_keywords=keeps_keywords)
    return [verdict.why for verdict in judged]


def test_reasons() -> None:
    assert verdicts(
        "a young man is playing a guitar",
        "a young man is playing a guitar",
        "a man is playing guitar",
        "man playing guitar",
        "a man playing a piano",
        "a man and a man playing guitar",
        "a a man playing guitar",
        "a very very big man in a red hat is playing guitar outside",
    ) == [
        "",
        "equals an earlier candidate",
        "equals a given sentence",
        "has only the keywords",
        "lost the keyword guitar",
        "repeats man",
        "repeats a",
        "has more than 9 words",
    ]
    assert verdicts("a piano") == ["has fewer than 3 words"]
    assert verdicts("someone plays the piano", keeps_keywords=False) == [""]


@pytest.mark.parametrize(
    ("sentence", "mended"),
    [
        ("a onion", "an onion"),
        ("an man", "a man"),
        ("a hour in an university", "an hour in a university"),
        ("an one legged man", "a one legged man"),
        ("a", "a"),
        ("кот и a рыба", "кот и a рыба"),
    ],
)
def test_articles(sentence: str, mended: str) -> None:
    assert " ".join(with_articles(sentence.split())) == mended


@pytest.mark.parametrize(
    "sentence",
    [
        "a girls are singing",
        "a train rides on a tracks",
        "a man is examine a flower",
        "a woman is boils an egg",
        "a person is slicing a some cucumber",
        "the girls is dancing",
        "the girl are dancing",
        "a man is playing a",
        "a man is walking with",
        "a dog is is running",
        "a lady is poured some sauce",
        "a dog is diving in water is attack",
        "the man examine the flowers",
        "someone make a cake",
        "two control of an airplane",
        "a man is about to draining noodles",
        "a woman is eating a food",
        "playing kitten is sleeping",
        "a man is running on a truck passes the house",
        "a woman and a man chops a carrot",
        "the cat and dog is sleeping",
        "a mother feeds a baby is eating",
        "a cat is monkey licking the hand",
        "a make of sushi with a hand",
        "a cat is trying to tried the melon",
        "a cat is tried to bite the melon",
        "a man is trying plays the guitar",
        "a squirrel is eating some a nut",
        "a man is standing in the yellow",
    ],
)
def test_agreement_errors_are_found(sentence: str) -> None:
    assert agreement_error(sentence.split(), CaptionTagger())


@pytest.mark.parametrize(
    "sentence",
    [
        "two girls are singing on a stage",
        "a man and a woman are dancing",
        "a group of girls is dancing",
        "a train is coming down the tracks",
        "the food is being cut into pieces",
        "people are running in the streets",
        "a man picks a ball up",
        "the girl took a photo",
        "a boy is running and a girl is dancing",
        "a man is horse riding",
        "a tree is cut by a man",
        "a woman is cooking something",
        "a man is trying to play a guitar",
        "three small white dogs are eating a food item",
        "water is boiling in a pot",
        "a woman and a man chop a carrot",
        "the man plays a guitar while a girl is dancing",
        "someone plays with a cooked egg",
        "a man is jumping a fallen tree",
        "кот ест рыбу",
        "猫",
    ],
)
def test_sound_sentences_pass(sentence: str) -> None:
    assert agreement_error(sentence.split(), CaptionTagger()) == ""


def test_what_the_given_sentence_has_wrong_is_forgiven() -> None:
    sentence, given = words("the man examine flowers in a park"), words("the man examine the flowers")
    assert agreement_error(sentence, CaptionTagger(), given) == ""
    assert agreement_error([*sentence, "with"], CaptionTagger(), given) == "ends with with"


def test_plurals_by_spelling() -> None:
    assert [w for w in ("dogs", "men", "glass", "bus", "tennis", "gas", "boxes") if is_plural(w)] == [
        "dogs",
        "men",
        "boxes",
    ]


def test_the_most_fluent_share_in_old_order() -> None:
    scores = [-3.0, -1.0, -2.0, -4.0]
    candidates = [Candidate(("a", "dog", f"runs{i}"), lm_score=score) for i, score in enumerate(scores)]
    judged = judge([(SOURCE, candidates)], EditConfig(), load_tagger(), keeps_keywords=False)
    assert [v.candidate.lm_score for v in most_fluent(judged, 0.5)] == [-1.0, -2.0]
    assert len(most_fluent(judged, 1.0)) == 4
    assert len(most_fluent(judged, 0.01)) == 1
    assert len(most_fluent(judged, 0.01, fewest=3)) == 3
