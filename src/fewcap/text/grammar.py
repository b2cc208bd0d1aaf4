"""A slip of annotators that captioners learn: "there is a man is talking"."""

from __future__ import annotations

from collections.abc import Sequence

_BE = ("is", "are")
_SUBJECT = 4  # words between the two verbs at most: "there are a group of people are"
_JOINTS = {"who", "that", "which", "where", "and", "while", "as"}  # a second verb may follow these


def stray_words(words: Sequence[str]) -> int:
    """How many words at the beginning say nothing: 2 for "there is" before a sentence with its own verb, else 0."""
    if len(words) < 4 or words[0] != "there" or words[1] not in _BE:
        return 0
    for place in range(3, min(3 + _SUBJECT, len(words) - 1)):
        if words[place - 1] in _JOINTS:
            return 0
        if words[place] in _BE:
            return 2
    return 0
