"""Choosing captions by what training has learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import TINY, killed_and_resumed, metric
from worlds import world as make_world

from fewcap.captioning import confidence
from fewcap.captioning.captioner import Captioner
from fewcap.captioning.choice import ARGUMENTS, Ballot, Choice, arguments, learn
from fewcap.captioning.consensus import Consensus, Voters
from fewcap.captioning.decode import Hypothesis
from fewcap.captioning.folder import TrainedCaptioner
from fewcap.captioning.train import train
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.config.train import TrainConfig
from fewcap.core.store import Manifest, read_json, read_jsonl

LEARNING = TINY.model_copy(update={"epochs": 3, "consensus": 6, "voters": 8, "choice_folds": 2})


def fit(world: Path, out: Path, config: TrainConfig = LEARNING) -> Manifest:
    return train(world / "data", world / "features", None, out, config, seed=0, metric=metric)


@pytest.fixture(scope="module")
def chosen(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("choice") / "model"
    fit(world, out)
    return out


def ballots(seed: int, count: int = 200) -> list[Ballot]:
    random = np.random.default_rng(seed)
    words = ("man", "guitar", "dog", "runs", "sings")
    return [
        Ballot(
            tuple(tuple(random.choice(words, 3, replace=False)) for _ in range(6)),
            random.standard_normal((6, len(ARGUMENTS))) * random.uniform(0.5, 3) + random.standard_normal(),
        )
        for _ in range(count)
    ]


def test_arguments_are_recomputed_literally() -> None:
    sentences = [(4, 5, 6), (4, 7, 8), (9, 10, 11), (4, 12, 13, 14)]
    consensus = Consensus(sentences)
    hypotheses = [Hypothesis((4, 5, 6), -1.0, -0.25), Hypothesis((9, 10), -2.0, -0.66)]
    voters = Voters(np.array([2, 0]), np.array([0.75, 0.25]))
    found = arguments(consensus, hypotheses, voters)
    to_sentences = consensus.to_sentences(hypotheses, voters)  # [2, 2]
    own = consensus.to_sentences(hypotheses[:1], Voters(np.array([0]), np.ones(1)))[0, 0]  # the first is sentence 0
    powers = np.exp([0.0, -0.5])
    assert found[0, 0] == pytest.approx(own * powers[0] / powers.sum())  # nothing in common with the second
    assert found[:, 1] == pytest.approx(0.75 * to_sentences[:, 0] + 0.25 * to_sentences[:, 1])
    shares = np.array([0.75**3, 0.25**3]) / (0.75**3 + 0.25**3)
    for row, caption in zip(to_sentences, found, strict=True):
        near, far = (row[0], shares[0]), (row[1], shares[1])
        low, high = sorted((near, far))
        none_higher = (1 - high[1]) ** 40
        assert caption[2] == pytest.approx(none_higher * low[0] + (1 - none_higher) * high[0])
    assert found[:, 3].tolist() == [3, 2]
    assert found[:, 4].tolist() == [-1, -2]


def test_what_speaks_for_good_captions_is_found() -> None:
    """Worth made of two arguments and a word: what is learnt chooses as it does."""

    def worth(ballot: Ballot) -> np.ndarray:
        apart = (ballot.arguments - ballot.arguments.mean(0)) / ballot.arguments.std(0)
        return 2 * apart[:, 0] - apart[:, 3] - 3.0 * np.array(["guitar" in caption for caption in ballot.captions])

    seen = ballots(0)
    choice = learn(seen, [worth(ballot) + 7 for ballot in seen])
    new = ballots(1)
    right = [choice.merits(ballot).argmax() == worth(ballot).argmax() for ballot in new]
    assert np.mean(right) > 0.95
    assert choice.arguments["captions"] > 1
    assert choice.arguments["words"] < -0.5
    assert abs(choice.arguments["probability"]) < 0.1
    assert min(choice.words, key=choice.words.__getitem__) == "guitar"


@given(st.integers(0, 1000), st.floats(0.1, 50), st.floats(-100, 100))
def test_only_differences_within_a_video_count(seed: int, scale: float, shift: float) -> None:
    (ballot,) = ballots(seed, 1)
    choice = Choice(dict(zip(ARGUMENTS, (1.0, 0.5, 0.2, -0.3, 0.4), strict=True)), {"man": 0.2})
    moved = Ballot(ballot.captions, ballot.arguments * scale + shift)
    assert choice.merits(moved) == pytest.approx(choice.merits(ballot), abs=1e-6)


def test_captions_that_are_all_alike_are_no_error() -> None:
    same = Ballot((("a", "man"), ("a", "man")), np.ones((2, len(ARGUMENTS))))
    assert learn([same], [np.array([1.0, 1.0])]).merits(same).tolist() == [0, 0]


@pytest.mark.slow
def test_training_learns_a_choice_and_the_captioner_follows_it(world: Path, chosen: Path) -> None:
    trained = TrainedCaptioner.load(chosen)
    assert trained.choice is not None
    assert tuple(trained.choice.arguments) == ARGUMENTS
    assert set(trained.choice.words) <= {word for _, text, _ in make_world() for word in text.split()}
    assert any(trained.choice.arguments.values())
    videos = [features for _, _, features in make_world()[:8]]
    captioner = Captioner(trained, config=CaptionConfig(alternatives=5))
    for caption, ballot in zip(captioner.caption(videos), captioner.ballots(videos), strict=True):
        assert len(ballot.captions) == 6
        best = ballot.captions[int(trained.choice.merits(ballot).argmax())]
        assert caption.text == " ".join(best)
    rows = read_jsonl(chosen / "metrics.jsonl")
    assert [(row["member"], row["epoch"]) for row in rows] == [(1, 1), (1, 2), (1, 3)]  # folds are no members


@pytest.mark.slow
def test_low_confidence_is_that_of_the_captions_that_are_chosen(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confidence, "FEWEST", 4)
    fit(world, tmp_path / "model")
    trained = TrainedCaptioner.load(tmp_path / "model")
    held = {row["id"] for row in read_jsonl(world / "data" / "videos.jsonl") if row["split"] == "val"}
    videos = [features for name, _, features in make_world() if name in held]
    assert trained.limits == confidence.find_limits(Captioner(trained), videos)
    assert trained.limits != confidence.find_limits(Captioner(replace(trained, choice=None)), videos)


@pytest.mark.slow
def test_each_way_to_choose_changes_the_captions(world: Path, chosen: Path) -> None:
    trained = TrainedCaptioner.load(chosen)
    videos = [features for _, _, features in make_world()]
    brief = Choice({**dict.fromkeys(ARGUMENTS, 0.0), "words": -1.0}, {})
    told = replace(trained, choice=brief)
    shortest = Captioner(told).caption(videos)
    for caption, ballot in zip(shortest, Captioner(told).ballots(videos), strict=True):
        assert len(caption.text.split()) == min(map(len, ballot.captions))
    voted = Captioner(told, config=CaptionConfig(choice="vote")).caption(videos)
    plain = Captioner(replace(trained, choice=None)).caption(videos)
    assert [c.text for c in voted] == [c.text for c in plain] != [c.text for c in shortest]
    likeliest = Captioner(told, config=CaptionConfig(consensus=0)).caption(videos)
    assert [c.text for c in likeliest] != [c.text for c in shortest]


@pytest.mark.slow
def test_interrupted_in_the_second_fold_it_ends_byte_for_byte_the_same(
    world: Path, chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed, seen = killed_and_resumed(
        monkeypatch,
        lambda: fit(world, tmp_path / "resumed"),
        lambda trainer, epoch: trainer.part == "fold" and (trainer.member, epoch) == (1, 1),
    )
    assert seen == [("fold", 1, 1), ("fold", 1, 2)]
    assert resumed.files == Manifest.read(chosen).files


@pytest.mark.slow
def test_the_members_are_those_of_a_training_without_a_choice(world: Path, chosen: Path, tmp_path: Path) -> None:
    fit(world, tmp_path / "plain", LEARNING.model_copy(update={"choice_folds": 0}))
    assert read_json(tmp_path / "plain" / "config.json")["choice"] is None
    files = [Manifest.read(folder).files["model.safetensors"] for folder in (chosen, tmp_path / "plain")]
    assert files[0] == files[1]


@pytest.mark.slow
def test_training_that_goes_on_keeps_the_choice(world: Path, chosen: Path, tmp_path: Path) -> None:
    fit(world, tmp_path / "more", TrainConfig(epochs=1, start=str(chosen), threads=1))
    more, before = TrainedCaptioner.load(tmp_path / "more"), TrainedCaptioner.load(chosen)
    assert more.choice == before.choice
    assert (more.config.consensus, more.config.voters) == (6, 8)


def test_a_choice_needs_captions_and_sentences() -> None:
    with pytest.raises(ValueError, match="choice_folds=3 needs captions and sentences"):
        TrainConfig(choice_folds=3, consensus=20)
    with pytest.raises(ValueError, match="choice_folds=1 leaves no videos"):
        TrainConfig(choice_folds=1, consensus=20, voters=30)
