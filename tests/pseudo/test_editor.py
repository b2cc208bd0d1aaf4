"""The batched editor: what it promises whatever the language models say."""

from __future__ import annotations

import pytest

from fewcap.core.config.label import EditConfig
from fewcap.pseudo.candidates import Source
from fewcap.pseudo.editor import Draft, Editor, Seed
from fewcap.pseudo.language import LanguageModels
from fewcap.pseudo.strategies.edit import Edit

SOURCES = [
    Source("v1", 0, "a man is playing guitar", ("man", "playing", "guitar")),
    Source("v2", 0, "dogs run", ("dog", "running")),
    Source("v3", 0, "ardilla", ("ardilla",)),
    Source("v4", 0, "of the", ()),
    Source("v5", 0, "кот ест рыбу", ("кот", "ест", "рыбу")),
]


def drafts(models: LanguageModels, batch: int, seed: int = 0, **settings: object) -> list[Draft]:
    config = EditConfig(**{"stop": 0.15, "steps": 10, "longest": 9, **settings})
    seeds = [Seed(s.keywords, s.key(seed, chain)) for s in SOURCES if s.keywords for chain in range(5)]
    return list(Editor(models, config, batch).drafts(seeds))


def test_independent_of_the_batch(tiny: LanguageModels) -> None:
    whole = drafts(tiny, batch=100)
    assert whole == drafts(tiny, batch=1)
    assert whole == drafts(tiny, batch=7)


def test_decided_by_the_seed(tiny: LanguageModels) -> None:
    assert drafts(tiny, batch=50, seed=1) == drafts(tiny, batch=50, seed=1)
    assert drafts(tiny, batch=50, seed=1) != drafts(tiny, batch=50, seed=2)


@pytest.mark.parametrize("guidance", [True, False])
def test_keywords_stay_in_order_and_length_is_limited(tiny: LanguageModels, guidance: bool) -> None:
    seeds = [s for s in SOURCES if s.keywords for _ in range(5)]
    for source, draft in zip(seeds, drafts(tiny, batch=50, guidance=guidance), strict=True):
        rest = iter(draft.words)
        assert all(word in rest for word in source.keywords)
        assert len(draft.words) <= 9
        assert len(draft.edits) <= 10


def test_the_trace_tells_the_sentence(tiny: LanguageModels) -> None:
    """Carrying out the edits of the trace on the keywords gives the draft."""
    seeds = [s for s in SOURCES if s.keywords for _ in range(5)]
    for source, draft in zip(seeds, drafts(tiny, batch=50), strict=True):
        words = ["BOS", *source.keywords, "EOS"]
        for edit in draft.edits:
            if edit["action"] == "insert":
                words.insert(edit["position"], edit["word"])
            elif edit["action"] == "replace":
                assert words[edit["position"]] == edit["instead_of"]
                words[edit["position"]] = edit["word"]
            else:
                assert words.pop(edit["position"]) == edit["word"]
            assert 0 <= edit["probability"] <= 1
        assert words[1:-1] == list(draft.words)


@pytest.mark.parametrize(
    "setting", [{"penalty": 50.0}, {"guidance": False}, {"sampling": False}, {"temperature": 0.1}, {"stop": 0.9}]
)
def test_each_switch_changes_the_output(tiny: LanguageModels, setting: dict[str, object]) -> None:
    assert drafts(tiny, batch=50) != drafts(tiny, batch=50, **setting)


def test_greedy_chains_are_equal(tiny: LanguageModels) -> None:
    words = [draft.words for draft in drafts(tiny, batch=50, sampling=False)]
    assert len(set(words[:5])) == 1


def test_a_sentence_without_keywords_has_no_candidates(tiny: LanguageModels) -> None:
    strategy = Edit(Editor(tiny, EditConfig(surplus=1, rounds=1), 10), 3, seed=0)
    counts = [len(candidates) for candidates in strategy.candidates(SOURCES)]
    assert counts == [3, 3, 3, 0, 3]


@pytest.fixture(scope="module")
def few(tiny: LanguageModels) -> Edit:
    return Edit(Editor(tiny, EditConfig(stop=0.15, steps=10, longest=9, rounds=3, fewest=4), 16), 2, seed=0)


def test_sentences_with_too_few_candidates_go_round_again(few: Edit) -> None:
    """The further rounds of one sentence do not hang on who else is there, nor change its first round."""
    together = list(few.candidates(SOURCES))
    assert [len(group) % few.chains for group in together] == [0] * len(SOURCES)
    assert max(map(len, together)) > few.chains
    assert together == [next(few.candidates([source])) for source in SOURCES]
    once = Edit(Editor(few.editor.models, few.config.model_copy(update={"rounds": 1}), 7), 2, seed=0)
    for group, first in zip(together, once.candidates(SOURCES), strict=True):
        assert group[: few.chains] == first


def test_a_hot_chain_draws_other_words_and_makes_an_edit_at_least(tiny: LanguageModels) -> None:
    config = EditConfig(stop=0.99, steps=10, longest=9)
    drawn = {}
    for heat in (1.0, 3.0):
        seeds = [Seed(s.keywords, s.key(0, chain), heat) for s in SOURCES if s.keywords for chain in range(10)]
        drawn[heat] = list(Editor(tiny, config, 100).drafts(seeds))
        assert min(len(draft.edits) for draft in drawn[heat]) >= 1
    assert len({draft.words for draft in drawn[3.0]}) > len({draft.words for draft in drawn[1.0]})


@pytest.mark.parametrize(("doubt", "refused"), [(1e-9, True), (1.1, False)])
def test_sentences_that_the_classifier_doubts_are_refused(tiny: LanguageModels, doubt: float, refused: bool) -> None:
    config = EditConfig(stop=0.6, steps=10, longest=9, rounds=1, grammar=False, doubt=doubt)
    found = [c.problem for group in Edit(Editor(tiny, config, 100), 5, seed=0).candidates(SOURCES) for c in group]
    finished = [problem or "" for problem in found if not (problem or "").startswith("wanted")]
    assert finished
    assert all(problem.startswith("doubtful") == refused for problem in finished)
