"""The paper's strategy: lexically constrained editing around the keywords of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fewcap.core.config.label import LabelConfig
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.editor import Draft, Editor, Seed
from fewcap.pseudo.grammar import agreement_error
from fewcap.pseudo.judge import with_articles
from fewcap.pseudo.language import LanguageModels
from fewcap.text.tagger import CaptionTagger


class Edit:
    """T candidates a sentence and a surplus, all chains at once."""

    name = "edit"
    keeps_keywords = True

    def __init__(self, editor: Editor, candidates: int, *, seed: int) -> None:
        self.editor = editor
        self.chains = round(candidates * editor.config.surplus)
        self.seed = seed
        self.tagger = CaptionTagger()

    @classmethod
    def of(cls, models: LanguageModels, config: LabelConfig, *, seed: int) -> Edit:
        return cls(Editor(models, config.edit, config.batch), config.candidates, seed=seed)

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        """A sentence without keywords has no candidates: nothing would hold the new sentences to the video."""
        seeds = (
            Seed(source.keywords, source.key(self.seed, chain))
            for source in sources
            if source.keywords
            for chain in range(self.chains)
        )
        drafts = self.editor.drafts(seeds)
        for source in sources:
            yield [self._candidate(next(drafts)) for _ in range(self.chains)] if source.keywords else []

    def _candidate(self, draft: Draft) -> Candidate:
        words = with_articles(draft.words)
        problem = None
        if not draft.finished:
            problem = f"wanted more than {self.editor.config.steps} edits"
        elif self.editor.config.grammar and (error := agreement_error(words, self.tagger)):
            problem = f"grammar: {error}"
        return Candidate(words, draft.edits, draft.lm_score, problem)
