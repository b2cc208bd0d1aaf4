"""The paper's strategy: lexically constrained editing around the keywords of a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fewcap.core.config.label import LabelConfig
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.editor import Draft, Editor, Seed
from fewcap.pseudo.grammar import agreement_error
from fewcap.pseudo.judge import judge, with_articles
from fewcap.pseudo.language import LanguageModels
from fewcap.text.tagger import CaptionTagger
from fewcap.text.tokenise import words


class Edit:
    """T candidates a sentence and a surplus, all chains at once; sentences with too few go round again."""

    name = "edit"
    keeps_keywords = True

    def __init__(self, editor: Editor, candidates: int, *, seed: int) -> None:
        self.editor = editor
        self.config = editor.config
        self.chains = round(candidates * editor.config.surplus)
        self.seed = seed
        self.tagger = CaptionTagger()

    @classmethod
    def of(cls, models: LanguageModels, config: LabelConfig, *, seed: int) -> Edit:
        return cls(Editor(models, config.edit, config.batch), config.wanted, seed=seed)

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        """A sentence without keywords has no candidates: nothing would hold the new sentences to the video."""
        found: list[list[Candidate]] = [[] for _ in sources]
        waiting = [index for index, source in enumerate(sources) if source.keywords]
        for number in range(self.config.rounds):
            heat = self.config.heating**number
            chains = range(number * self.chains, (number + 1) * self.chains)
            drafts = self.editor.drafts(
                Seed(sources[index].keywords, sources[index].key(self.seed, chain), heat)
                for index in waiting
                for chain in chains
            )
            for index in waiting:
                found[index] += [self._candidate(next(drafts), sources[index], heat) for _ in chains]
            waiting = [index for index in waiting if self._sound(sources[index], found[index]) < self.config.fewest]
        yield from found

    def _sound(self, source: Source, candidates: Sequence[Candidate]) -> int:
        verdicts = judge([(source, candidates)], self.config, self.tagger, keeps_keywords=True)
        return sum(not verdict.why for verdict in verdicts)

    def _candidate(self, draft: Draft, source: Source, heat: float) -> Candidate:
        sentence = with_articles(draft.words)
        problem = None
        probability, word = draft.doubt
        if not draft.finished:
            problem = f"wanted more than {self.config.steps} edits"
        elif probability >= self.config.doubt * heat:
            problem = f"doubtful: {word}"
        elif self.config.grammar and (error := agreement_error(sentence, self.tagger, words(source.text))):
            problem = f"grammar: {error}"
        return Candidate(sentence, draft.edits, draft.lm_score, problem)
