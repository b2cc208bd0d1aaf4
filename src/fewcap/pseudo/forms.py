"""Words that are easily taken for one another because they differ in form alone: play, plays, playing; is, are."""

from __future__ import annotations

from collections.abc import Iterable

# fmt: off
_IRREGULAR = (
    ("is", "are"), ("was", "were"), ("has", "have"), ("this", "these"), ("that", "those"),
    ("his", "her", "its", "their"), ("he", "she", "it", "they"), ("man", "men"), ("woman", "women"),
    ("child", "children"), ("person", "people"), ("foot", "feet"), ("tooth", "teeth"),
    ("ride", "rode", "ridden"), ("eat", "ate", "eaten"), ("run", "ran"), ("sit", "sat"), ("stand", "stood"),
    ("take", "took", "taken"), ("throw", "threw", "thrown"), ("hold", "held"), ("make", "made"), ("drive", "drove"),
)
# fmt: on
# Their endings make other words: "thing" is no form of "the".
_NO_STEMS = {"the", "her", "its", "his", "has", "was", "for", "with", "see", "star", "site"}


def families(vocabulary: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The other forms of each word, as far as the vocabulary has them; by spelling, so a few are no kin."""
    known = set(vocabulary)
    groups: dict[str, set[str]] = {}
    for stem in sorted(known):
        if len(stem) > 2 and stem not in _NO_STEMS and (forms := {form for form in _inflected(stem) if form in known}):
            _join(groups, {stem, *forms})
    for kin in _IRREGULAR:
        _join(groups, known.intersection(kin))
    return {word: tuple(sorted(group - {word})) for word, group in groups.items() if len(group) > 1}


def _inflected(stem: str) -> set[str]:
    """-s, -ing and -ed of a noun or verb, whichever of them exist."""
    bare = stem[:-1] if stem.endswith("e") else stem
    doubled = stem + stem[-1]
    forms = {stem + "s", bare + "ing", bare + "ed", doubled + "ing", doubled + "ed"}
    if stem.endswith(("s", "x", "z", "ch", "sh", "o")):
        forms.add(stem + "es")
    if stem.endswith("y"):
        forms |= {stem[:-1] + "ies", stem[:-1] + "ied"}
    return forms


def _join(groups: dict[str, set[str]], words: set[str]) -> None:
    merged = set(words)
    for word in words:
        merged |= groups.get(word, set())
    for word in merged:
        groups[word] = merged
