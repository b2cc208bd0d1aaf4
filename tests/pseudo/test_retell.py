"""What others would say: the network, what is drawn from it, how it is taught, and the stage that uses it."""

from __future__ import annotations

import gzip
import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from fewcap.core.assets import asset
from fewcap.core.config.label import LabelConfig, RankConfig, RetellConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import Stage, Workspace, read_jsonl, run_stage
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.judge import Judged
from fewcap.pseudo.label import label, select
from fewcap.pseudo.likeness import sounding_like
from fewcap.pseudo.retelling import BOS, EOS, PAD, UNK, Retelling, Sizes
from fewcap.pseudo.retelling_training import Pairs, Training, as_numbers, loss_of, read_groups, train_retelling
from fewcap.pseudo.strategies import load_strategy, settled
from fewcap.pseudo.strategies.retell import Retell, draw
from fewcap.text.closeness import Grams, closeness
from fewcap.text.embed import SentenceEncoder
from fewcap.text.resemblance import WordPairs
from fewcap.text.tokenise import words

SMALL = Sizes(width=16, heads=2, inner=32, reading=1, telling=1, dropout=0.1)
WORDS = words("a the man woman dog puppy is are playing with ball in park runs sleeps")
GIVEN = [words(text) for text in ("the puppy is playing with a frisbee", "a man runs", "zyx zyx")]


@pytest.fixture
def small() -> Retelling:
    torch.manual_seed(0)
    model = Retelling(WORDS, SMALL)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.4)
    return model.eval()


def draws(rows: int, count: int = 6) -> np.ndarray:
    return np.random.default_rng(0).random((rows, count))


def test_words_that_are_not_known_can_be_copied_and_no_others(small: Retelling) -> None:
    given = small.given(GIVEN)
    assert given.extra == (("frisbee",), (), ("zyx",))
    size = len(small.vocabulary)
    chances = small.next_probabilities(torch.full((3, 1), BOS), small.read(given), given)
    assert chances.shape == (3, size + 1)
    torch.testing.assert_close(chances.sum(1), torch.ones(3))
    assert chances[0, size] > 0
    assert chances[1, size] == 0
    # a word that is said twice is copied from either place
    assert small.word(size, given.extra[2]) == "zyx"
    assert given.copied[2].tolist()[:2] == [size, size]


def test_probability_of_a_sentence_is_the_product_of_its_words(small: Retelling) -> None:
    """Teacher forcing, with others' padding beside it, against one word after another."""
    told = words("a dog is playing with a frisbee in the park")
    given, inputs, targets = as_numbers(small, [(GIVEN[0], told), (GIVEN[1], words("the man runs"))])
    with torch.inference_mode():
        found = small.log_probability(inputs, targets, given)
        alone = small.given([GIVEN[0]])
        read = small.read(alone)
        for place in range(len(told) + 1):
            chances = small.next_probabilities(inputs[:1, : place + 1], read, alone)
            expected = chances[0, targets[0, place]].log()
            torch.testing.assert_close(found[0, place], expected, atol=1e-4, rtol=1e-4)
    assert targets[0, len(told)] == EOS
    assert targets[1, 4:].tolist() == [PAD] * (targets.shape[1] - 4)


def test_draws_hang_on_their_numbers_alone(small: Retelling) -> None:
    config = RetellConfig()
    together = draw(small, GIVEN, draws(3), config)
    for row in range(3):
        (alone,) = draw(small, GIVEN[row : row + 1], draws(3)[row : row + 1], config)
        assert alone[0] == together[row][0]
        assert alone[1] == pytest.approx(together[row][1], abs=1e-4)
    assert draw(small, GIVEN, 1 - draws(3), config) != together
    assert draw(small, GIVEN, draws(3), RetellConfig(temperature=3.0, top_p=1.0)) != together


def test_drawn_sentences_are_sentences(small: Retelling) -> None:
    for sentence, score in draw(small, GIVEN * 20, draws(60), RetellConfig(temperature=2.0, top_p=1.0)):
        assert 1 <= len(sentence) <= 6
        assert not {"<pad>", "<s>", "</s>", "<unk>"} & set(sentence)
        assert all(a != b for a, b in pairwise(sentence))
        assert score < 0


def test_folder_holds_all_of_it(small: Retelling, tmp_path: Path) -> None:
    small.save(tmp_path)
    again = Retelling.load(str(tmp_path))
    assert again.vocabulary == small.vocabulary
    given = small.given(GIVEN)
    start = torch.full((3, 1), BOS)
    with torch.inference_mode():
        near = again.next_probabilities(start, again.read(given), given)
        torch.testing.assert_close(near, small.next_probabilities(start, small.read(given), given), atol=0.05, rtol=0.2)
    (tmp_path / "words.json").write_text('["one"]')
    with pytest.raises(FewcapError, match="do not fit together"):
        Retelling.load(str(tmp_path))
    (tmp_path / "words.json").unlink()
    with pytest.raises(FewcapError, match=r"words\.json.*train_retelling"):
        Retelling.load(str(tmp_path))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Whoever says puppy, others say dog."""
    path = tmp_path / "captions.jsonl.gz"
    places = words("park garden house street room field yard car kitchen box boat forest barn pool tent hall")
    doings = ("playing", "running", "sleeping", "eating", "jumping", "barking", "walking", "sitting", "hiding")
    rows = [
        {"id": f"{doing} {place}", "captions": [f"A puppy is {doing} in the {place}.", f"a dog {doing} in a {place}"]}
        for doing in doings
        for place in places
    ]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


def test_groups_and_pairs(corpus: Path, tmp_path: Path) -> None:
    groups = read_groups(corpus)
    assert len(groups) == 144
    assert groups[0].sentences[0] == tuple(words("a puppy is playing in the park"))
    assert {"puppy", "park"} <= groups[0].content[0]
    pairs = Pairs([(groups, 1.0)], 8, seed=0)
    assert pairs.of_step(3) == pairs.of_step(3) == Pairs([(groups, 1.0)], 8, seed=0).of_step(3)
    assert pairs.of_step(3) != pairs.of_step(4)
    for given, told in pairs.of_step(0):
        assert given != told
        assert any({given, told} == set(group.sentences) for group in groups)
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"sentence": "a dog"}\n')
    with pytest.raises(FewcapError, match=r"broken\.jsonl.*captions"):
        read_groups(broken)


def test_training_learns_what_others_say(corpus: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load()
    short = Training(steps=60, pairs=32, rate=5e-3, seen=1, sizes=Sizes(64, 2, 64, 1, 1, 0.0))
    model = train_retelling({corpus: 1.0}, tmp_path / "out", short, encoder=encoder)
    given, inputs, targets = as_numbers(
        model, [(words("a puppy is jumping in the park"), words("a dog jumping in a park"))]
    )
    with torch.inference_mode():
        chances = model.next_probabilities(inputs[:, :2], model.read(given), given)
        assert model.word(int(chances[0].argmax())) == "dog"
        loss, count = loss_of(model, [(words("a puppy is jumping in the park"), words("a dog jumping in a park"))])
    assert float(loss) / count < 0.7
    assert UNK not in targets
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["steps"] == 60
    assert card["held_out_perplexity"] < 3
    # a second run finds the first one's checkpoint at its end
    again = train_retelling({corpus: 1.0}, tmp_path / "out", short, encoder=encoder)
    torch.testing.assert_close(again.words.weight, model.words.weight)


SOURCES = [
    Source("v1", 0, "A man is playing guitar.", ("man", "playing", "guitar")),
    Source("v2", 0, "a puppy is running in the park", ("puppy", "running", "park")),
    Source("v3", 0, "🙂", ()),
    Source("v4", 0, " ".join(["a woman is eating some food and"] * 29), ("woman",)),
]


@pytest.fixture(scope="module")
def told() -> list[list[Candidate]]:
    settings = LabelConfig(strategy="retell", candidates=6)
    return list(load_strategy(settings, seed=0).candidates(SOURCES))


def test_shipped_model_says_the_same_in_other_words(told: list[list[Candidate]]) -> None:
    assert sum(path.stat().st_size for path in asset("retelling").iterdir()) < 5.5e6
    texts = [[" ".join(candidate.words) for candidate in group] for group in told]
    assert [len(group) for group in told] == [6, 6, 0, 6]
    assert any("guitar" in text for text in texts[0])
    assert any("dog" in text for text in texts[1])
    for group in told:
        merits = [candidate.merit for candidate in group]
        assert merits == sorted(merits, reverse=True)  # type: ignore[type-var]


def test_same_for_a_source_whoever_else_is_in_the_call(told: list[list[Candidate]]) -> None:
    strategy = load_strategy(LabelConfig(strategy="retell", candidates=6), seed=0)
    (alone,) = strategy.candidates(SOURCES[1:2])
    assert [c.words for c in alone] == [c.words for c in told[1]]
    other = load_strategy(LabelConfig(strategy="retell", candidates=6), seed=1)
    (differs,) = other.candidates(SOURCES[1:2])
    assert [c.words for c in differs] != [c.words for c in alone]


def test_merit_is_agreement_nearness_and_likelihood() -> None:
    """Against a literal recomputation: every drawn sentence, as often as it was drawn, has a vote."""
    strategy = load_strategy(LabelConfig(strategy="retell", candidates=50), seed=0)
    assert isinstance(strategy, Retell)
    (told,) = strategy._tell(SOURCES[1:2])
    (found,) = strategy.candidates(SOURCES[1:2])
    drawn = [sentence for sentence, _ in told]
    likelihood = dict(reversed(told))
    grams = {sentence: Grams.of(sentence, strategy._rarity) for sentence in drawn}
    given, *vectors = SentenceEncoder.load().encode([SOURCES[1].text, *(" ".join(c.words) for c in found)])
    rows = [
        (
            np.mean([closeness([grams[c.words]], [grams[other]])[0, 0] for other in drawn]),
            vector @ given,
            likelihood[c.words],
        )
        for c, vector in zip(found, vectors, strict=True)
    ]
    columns = np.array(rows)
    expected = ((columns - columns.mean(0)) / columns.std(0)).sum(1)
    np.testing.assert_allclose([c.merit for c in found], expected, atol=1e-4)
    assert {c.words for c in found} == set(drawn)
    assert [c.edits[0]["times"] for c in found] == [drawn.count(c.words) for c in found]


def test_video_and_merit_choose_together() -> None:
    source = Source("v1", 0, "a man plays", ("man",))
    group = [
        Judged(source, Candidate(("one",), lm_score=-1.0, merit=1.0)),
        Judged(source, Candidate(("two",), lm_score=-9.0, merit=0.9)),
        Judged(source, Candidate(("three",), lm_score=-1.0, merit=-5.0)),
    ]

    class Prefers:
        def __init__(self, *scores: float) -> None:
            self._scores = np.array(scores)

        def scores(self, texts: object) -> dict[str, np.ndarray]:
            return {"v1": self._scores}

    def kept(ranker: Prefers | None) -> list[str]:
        (row,) = select({"v1": group}, ranker, LabelConfig(strategy="retell", keep=2))
        return [sentence["text"] for sentence in row["sentences"]]

    assert kept(None) == ["one", "two"]
    assert kept(Prefers(0.1, 0.5, 0.6)) == ["two", "one"]  # a little less merit, a much better fit


def test_sentences_that_sound_like_the_given_ones_gain_merit() -> None:
    source = Source("v1", 0, "a man is singing", ("man",))
    told = ["a man is talking about a song", "a man is singing a song", "a man is talking about a car"]
    verdicts = {"v1": [Judged(source, Candidate(tuple(words(text)), merit=1.0)) for text in told]}
    verdicts["v1"].append(Judged(source, Candidate(("song",), merit=1.0), why="refused"))
    given = ["a man is singing", "a woman is singing a song", "a dog is running"]
    about, like, car, refused = (judged.candidate.merit for judged in sounding_like(verdicts, given)["v1"])
    assert like > max(about, car)  # type: ignore[type-var, operator]
    assert refused == 1.0
    # against the formula
    vocabulary = len({word for text in (*told, "song", *given) for word in text.split()})
    own, general = WordPairs(given, vocabulary), WordPairs([*told, "song"], vocabulary)
    ratios = np.array([own.log_probability(text) - general.log_probability(text) for text in told])
    np.testing.assert_allclose([about, like, car], 1 + (ratios - ratios.mean()) / ratios.std())


def test_stage_writes_what_was_told(project: tuple[Path, Path], tmp_path: Path) -> None:
    data, features = project
    settings = LabelConfig(strategy="retell", candidates=5, keep=2)
    manifest = label(data, features, tmp_path / "pseudo", settings, seed=0)
    assert "retelling" in manifest.inputs
    assert manifest.counts["strategy"] == "retell"
    rows = {row["id"]: row for row in read_jsonl(tmp_path / "pseudo" / "pseudo.jsonl")}
    told = rows["v1"]["sentences"]
    assert 1 <= len(told) <= 2
    assert told[0]["edits"][0]["action"] == "retell"
    assert told[0]["text"] != "a man is playing guitar"
    as_read = settings.model_copy(update={"rank": RankConfig(likeness=False)})
    kept = (tmp_path / "pseudo-candidates" / "manifest.json").read_bytes()
    label(data, features, tmp_path / "as-read", as_read, seed=0, candidates=tmp_path / "pseudo-candidates")
    assert (tmp_path / "pseudo-candidates" / "manifest.json").read_bytes() == kept  # nothing is told anew
    assert [row["sentences"] for row in read_jsonl(tmp_path / "as-read" / "pseudo.jsonl")] != [
        row["sentences"] for row in rows.values()
    ]


def test_told_by_default_where_captions_were_not_read(tmp_path: Path) -> None:
    given = ["a man is playing a guitar", "two dogs run in the snow"]
    strange = [*given, "мужчина играет на гитаре"]
    assert settled(LabelConfig(), "folder", given).strategy == "retell"
    assert settled(LabelConfig(), "folder", strange).strategy == "edit"
    assert settled(LabelConfig(strategy="retell"), "folder", strange).strategy == "retell"
    assert settled(LabelConfig(), "vatex", given).strategy == "edit"
    own = LabelConfig.model_validate({"retell": {"model": str(shutil.copytree(asset("retelling"), tmp_path / "own"))}})
    assert settled(own, "vatex", given).strategy == "retell"
    assert settled(LabelConfig(strategy="masked"), "folder", given).strategy == "masked"
    assert settled(LabelConfig(), "folder", given).wanted == 16
    assert settled(LabelConfig(), "msrvtt", given).wanted == 10


def test_captions_it_has_read_are_not_retold(project: tuple[Path, Path], tmp_path: Path) -> None:
    def write(workspace: Workspace) -> dict[str, int]:
        for name in ("videos.jsonl", "sources.json"):
            text = (project[0] / name).read_text().replace('"folder"', '"msrvtt"')
            workspace.write_bytes(name, text.encode())
        return {}

    run_stage(Stage(tmp_path / "data", "data", inputs={}, config={}), write)
    settings = LabelConfig(strategy="retell", candidates=5, keep=2)
    with pytest.raises(FewcapError, match="has read the captions of msrvtt"):
        label(tmp_path / "data", project[1], tmp_path / "pseudo", settings, seed=0)


def test_nearness_has_a_limit_of_its_own() -> None:
    assert LabelConfig(strategy="edit").nearness == 0.8
    assert LabelConfig(strategy="retell").nearness == 0.6
    given = LabelConfig.model_validate({"strategy": "retell", "rank": {"nearness": 0}})
    assert given.nearness == 0
