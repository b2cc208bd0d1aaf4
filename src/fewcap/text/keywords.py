"""Keywords of a sentence: its nouns and verbs."""

from __future__ import annotations

from fewcap.text.tagger import Tagger, load_tagger
from fewcap.text.tokenise import words


def keywords(sentence: str, n: int | None = None, *, tagger: Tagger | None = None) -> list[str]:
    """The first `n` different nouns and verbs of a sentence, lower-case and in order; auxiliaries do not count.

    >>> keywords("A man is playing guitar.")
    ['man', 'playing', 'guitar']
    """
    tokens = words(sentence)
    if not tokens:
        return []
    flags = (tagger or load_tagger()).content(tokens)
    found = dict.fromkeys(
        token for token, content in zip(tokens, flags, strict=True) if content and not _is_letter(token)
    )
    return list(found)[:n]


def _is_letter(word: str) -> bool:
    """The "s" of "it s" and its like, never a noun worth keeping; one character of another script may be."""
    return len(word) == 1 and word.isascii()
