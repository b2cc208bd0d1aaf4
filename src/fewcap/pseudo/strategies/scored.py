"""Gives a rival's candidates the same fluency score that the editor's have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fewcap.pseudo.candidates import Candidate, Source, Strategy
from fewcap.pseudo.inference import fluency
from fewcap.pseudo.language import LanguageModels


class Scored:
    """A rival with language models that judge, and take no part in, what it writes."""

    def __init__(self, rival: Strategy, models: LanguageModels) -> None:
        self.rival = rival
        self.models = models
        self.name = rival.name
        self.keeps_keywords = rival.keeps_keywords

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        for found in self.rival.candidates(sources):
            written = [candidate for candidate in found if candidate.words]
            sentences = [tuple(self.models.codec.encode(candidate.words)) for candidate in written]
            scores = fluency(self.models.forward, self.models.backward, sentences)
            yield [replace(c, lm_score=score) for c, score in zip(written, scores, strict=True)]
