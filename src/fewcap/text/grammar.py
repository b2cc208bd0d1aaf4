"""Slips of annotators that captioners learn, and that can be cut off: "there is a man is talking"."""

from __future__ import annotations

from collections.abc import Sequence

_BE = ("is", "are")
_SUBJECT = 6  # words between the two verbs at most: "there is a man in a blue shirt is"
_JOINTS = {"who", "that", "which", "where", "what", "how", "when", "while", "as", "and"}  # a second verb may follow
_SINGULAR = {"a", "an", "one", "this", "someone", "somebody"}
_MANY = {"couple", "pair", "family", "group", "crowd", "team", "band", "class"}  # one word, and more than one person
_EACH_OTHER = {("to", "each", "other"), ("with", "each", "other")}
_PLACE = {"in", "on", "at", "with"}
_ARTICLES = {"a", "an", "the"}


def meant(words: Sequence[str]) -> slice:
    """The part of a caption that says something; three words stay in any case.

    Left out are "there is" before a sentence with its own verb, "to each other" of somebody who is alone, and a place
    that is said twice ("in a kitchen with a kitchen").
    """
    start, stop = _beginning(words), len(words)
    while stop - start > 5 and (_alone(words[start:stop]) or _twice(words[start:stop])):
        stop -= 3
    return slice(start, stop)


def _beginning(words: Sequence[str]) -> int:
    """Where the sentence begins: 2 after a "there is" that another verb makes superfluous, else 0."""
    if len(words) < 4 or words[0] != "there" or words[1] not in _BE:
        return 0
    for place in range(3, min(3 + _SUBJECT, len(words) - 1)):
        if words[place] in _BE:
            # "a man and a woman are" is one subject, "a man and a woman is" begins another sentence
            joints = _JOINTS.intersection(words[2:place])
            return 2 if not joints or (joints == {"and"} and words[place] == "are") else 0
    return 0


def _alone(words: Sequence[str]) -> bool:
    """One person does something with each other."""
    if tuple(words[-3:]) not in _EACH_OTHER or words[0] not in _SINGULAR or "is" not in words:
        return False
    subject = words[: list(words).index("is")]
    return len(subject) <= 2 and not _MANY.intersection(subject)


def _twice(words: Sequence[str]) -> bool:
    """Ends with a place and the same place again."""
    *_, here, article, noun, there, again, last = words
    return noun == last and {here, there} <= _PLACE and {article, again} <= _ARTICLES
