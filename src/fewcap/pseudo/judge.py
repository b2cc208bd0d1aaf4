"""Which candidates may be ranked at all, and why the others may not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fewcap.core.config.label import EditConfig
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.text.tagger import Tagger
from fewcap.text.tokenise import words

_SOUNDS_LIKE_VOWEL = ("hour", "honest", "heir", "honor")
_SOUNDS_LIKE_CONSONANT = ("uni", "use", "using", "usu", "uti", "eu", "one", "once", "ukulele")


@dataclass(frozen=True)
class Judged:
    """A candidate with its source; `why` is empty when it passed."""

    source: Source
    candidate: Candidate
    why: str = ""

    @property
    def text(self) -> str:
        return " ".join(self.candidate.words)


def judge(
    groups: Sequence[tuple[Source, Sequence[Candidate]]], config: EditConfig, tagger: Tagger, *, keeps_keywords: bool
) -> list[Judged]:
    """All candidates of one video; equal sentences pass once, a given sentence never."""
    given = {" ".join(words(source.text)) for source, _ in groups}
    seen: set[str] = set()
    verdicts = []
    for source, candidates in groups:
        for candidate in candidates:
            why = _objection(candidate, source, given, seen, config, tagger, keeps_keywords)
            verdicts.append(Judged(source, candidate, why))
            seen.add(" ".join(candidate.words))
    return verdicts


def _objection(
    candidate: Candidate,
    source: Source,
    given: set[str],
    seen: set[str],
    config: EditConfig,
    tagger: Tagger,
    keeps_keywords: bool,
) -> str:
    text = " ".join(candidate.words)
    if text in given:
        return "equals a given sentence"
    if text in seen:
        return "equals an earlier candidate"
    if candidate.problem:
        return candidate.problem
    if len(candidate.words) < config.shortest:
        return f"has fewer than {config.shortest} words"
    if len(candidate.words) > max(config.longest, len(words(source.text)) + 2):
        return f"has more than {config.longest} words"
    if candidate.words == source.keywords:
        return "has only the keywords"
    if keeps_keywords and (lost := [word for word in source.keywords if word not in candidate.words]):
        return f"lost the keyword {lost[0]}"
    if repeated := repeated_word(candidate.words, tagger):
        return f"repeats {repeated}"
    return ""


def repeated_word(sentence: Sequence[str], tagger: Tagger) -> str:
    """A noun or verb that occurs twice, or any word twice in a row; empty when there is none."""
    for word, following in pairwise(sentence):
        if word == following:
            return word
    counts = Counter(word for word, content in zip(sentence, tagger.content(sentence), strict=True) if content)
    return next((word for word, n in counts.items() if n > 1), "")


def with_articles(sentence: Sequence[str]) -> tuple[str, ...]:
    """ "a" before a vowel becomes "an", and the other way round; by spelling, with the usual exceptions."""
    mended = list(sentence)
    for index, (word, following) in enumerate(pairwise(sentence)):
        if word in ("a", "an"):
            mended[index] = "an" if _starts_with_vowel(following) else "a"
    return tuple(mended)


def _starts_with_vowel(word: str) -> bool:
    if word.startswith(_SOUNDS_LIKE_CONSONANT):
        return False
    return word[0] in "aeiou" or word.startswith(_SOUNDS_LIKE_VOWEL)
