"""Forms of a word, by which the classifier learns agreement."""

from __future__ import annotations

import random

from fewcap.core.config.label import NoiseConfig
from fewcap.pseudo.forms import families
from fewcap.pseudo.language import REPLACE, LanguageModels
from fewcap.pseudo.synthetic import Creator
from fewcap.text.tokenise import words


def test_families_stay_within_the_vocabulary() -> None:
    found = families(words("the thing play plays playing cut cutting bike biking party parties is are men man red"))
    assert found["play"] == ("playing", "plays")
    assert found["biking"] == ("bike",)
    assert found["cut"] == ("cutting",)
    assert found["parties"] == ("party",)
    assert (found["is"], found["men"]) == (("are",), ("man",))
    assert not {"the", "thing", "red"} & set(found)


def test_an_exchanged_word_can_be_another_form(tiny: LanguageModels) -> None:
    noise = NoiseConfig(segment=0, insert=0, function_words=0, delete=0, replace=1, forms=1)
    creator = Creator(tiny.masked, tiny.codec, noise, [1] * len(tiny.codec))
    sentence = [tiny.codec.pieces(word)[0] for word in ("two", "people", "are", "running")]
    [pair] = creator.pairs([sentence], [[True] * 4], random.Random(0))
    assert tiny.codec.word(pair.tokens[3]) == "is"
    assert pair.actions[3] == REPLACE
