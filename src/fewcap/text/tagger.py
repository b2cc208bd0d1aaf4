"""Part-of-speech tags for captions: nltk's averaged perceptron with weights that this project trained.

`tools/train_tagger.py` made `assets/tagger.json` with spaCy as teacher. Its classes are N (noun), V (verb), X
(auxiliary), J, R, P, T, D, C, Z; see the file's head. nltk's own English tagger can be asked for by name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol

from fewcap.core.assets import asset
from fewcap.core.errors import FewcapError

TaggerName = Literal["fewcap", "nltk"]
# fmt: off
AUXILIARIES = frozenset((
    "am", "is", "are", "was", "were", "be", "been", "being", "s", "re", "m", "ve", "ll", "has", "have",
    "had", "having", "do", "does", "did", "will", "would", "can", "could", "may", "might", "must",
    "shall", "should",
))
# fmt: on


class Tagger(Protocol):
    """Says which words are nouns or verbs."""

    def content(self, words: Sequence[str]) -> list[bool]:
        """True for each word that is a noun or a verb other than an auxiliary."""
        ...


class CaptionTagger:
    """The shipped tagger."""

    def __init__(self) -> None:
        from nltk.tag.perceptron import PerceptronTagger

        with open(asset("tagger.json"), encoding="utf-8") as handle:
            model = json.load(handle)
        self._tagger: Any = PerceptronTagger(load=False)
        self._tagger.decode_json_params((model["weights"], model["tagdict"], sorted(model["classes"])))

    def tag(self, words: Sequence[str]) -> list[str]:
        return [tag for _, tag in self._tagger.tag(list(words))]

    def coarse(self, words: Sequence[str]) -> list[str]:
        """ "N", "V" or "O" (other) for each word."""
        return [tag if tag in "NV" else "O" for tag in self.tag(words)]

    def content(self, words: Sequence[str]) -> list[bool]:
        return [tag != "O" for tag in self.coarse(words)]


class NltkTagger:
    """nltk's own English tagger; its data has to be downloaded."""

    def __init__(self) -> None:
        from nltk.tag.perceptron import PerceptronTagger

        try:
            self._tagger: Any = PerceptronTagger()
        except LookupError:
            raise FewcapError(
                "tagger nltk: nltk's data package averaged_perceptron_tagger_eng is not installed; run "
                "python -m nltk.downloader averaged_perceptron_tagger_eng, or use the tagger fewcap."
            ) from None

    def content(self, words: Sequence[str]) -> list[bool]:
        # Penn tags do not tell auxiliaries from verbs.
        return [tag[0] in "NV" and word not in AUXILIARIES for word, tag in self._tagger.tag(list(words))]


@lru_cache(maxsize=2)
def load_tagger(name: TaggerName = "fewcap") -> Tagger:
    """The tagger of that name, loaded once."""
    return CaptionTagger() if name == "fewcap" else NltkTagger()
