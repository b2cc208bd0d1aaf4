"""Batches: the same for the same seed, whole in parts, and honest about keywords."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewcap.captioning.batches import keyword_batch, sentence_batch, video_batch
from fewcap.captioning.retrieval import Keyword
from fewcap.captioning.trainset import Sentence, TrainingSet, TrainingVideo
from fewcap.core.config.train import KeywordConfig, ModelConfig, TrainConfig
from fewcap.core.types import VideoFeatures
from fewcap.features.select import even_positions
from fewcap.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary

VOCABULARY = Vocabulary([f"w{i}" for i in range(40)])


def training_set(videos: int = 10, **changes: Any) -> TrainingSet:
    config = TrainConfig(**{"batch": 4, "epochs": 5, "model": ModelConfig(frames=4), **changes})
    looks = {f"v{i}": [VideoFeatures(appearance=torch.full((3 + i % 4, 2), float(i)))] for i in range(videos)}
    examples = [
        TrainingVideo(
            f"v{i}",
            tuple(Sentence((4 + i, 5 + j), (f"w{i}",), False) for j in range(3)),
            tuple(Sentence((4 + i, 30 + j, 6), (f"w{i}", f"w{j + 20}"), True) for j in range(i % 3)),
            (Keyword("w38", 0.75), Keyword("w39", 0.25)),
            np.full(3, i, dtype=np.float32),
            np.full(3, -i, dtype=np.float32),
        )
        for i in range(videos)
    ]
    return TrainingSet(examples, looks, {"appearance": 2}, VOCABULARY, config, seed=7)


def flat(steps: Any) -> list[tuple[Any, ...]]:
    """Every row of every batch with all that belongs to it."""
    rows = []
    for batches in steps:
        for batch in batches:
            per_video = len(batch.inputs) // len(batch.video.frame_mask)
            for row in range(len(batch.inputs)):
                frames = batch.video.appearance[row // per_video][batch.video.frame_mask[row // per_video]]
                words = [w for w in batch.inputs[row].tolist() if w != PAD]
                rows.append((tuple(words), float(batch.weights[row]), frames.sum().item(),
                             tuple(batch.keywords.words[row].tolist())))  # fmt: skip
    return sorted(rows)


def test_the_same_epoch_gives_the_same_batches_and_another_does_not() -> None:
    data = training_set()
    assert flat(data.epoch(2)) == flat(data.epoch(2)) == flat(training_set().epoch(2))
    assert flat(data.epoch(2)) != flat(data.epoch(3))


def test_processes_and_accumulation_only_divide_the_work() -> None:
    whole = flat(training_set(pseudo_per_video=0).epoch(1))
    halves = flat(training_set(pseudo_per_video=0).epoch(1, part=0, parts=2))
    halves += flat(training_set(pseudo_per_video=0).epoch(1, part=1, parts=2))
    assert sorted(halves) == whole
    assert flat(training_set(pseudo_per_video=0, accumulate=2).epoch(1)) == whole


def test_an_epoch_shows_each_video_with_its_sentences_and_weights() -> None:
    data = training_set(sentences_per_video=2, pseudo_per_video=1, pseudo_weight=0.25)
    rows = flat(data.epoch(0))
    counted = [row for row in rows if row[1] > 0]
    assert sum(weight == 1.0 for _, weight, _, _ in counted) == 2 * 10
    assert sum(weight == 0.25 for _, weight, _, _ in counted) == sum(1 for i in range(10) if i % 3)
    assert {words[1] - 4 for words, *_ in counted} == set(range(10))


@pytest.mark.parametrize(("source", "first", "last"), [("own", 1, 1), ("retrieved", 0, 0), ("mixed", 0.8, 0.2)])
def test_keywords_come_from_where_the_schedule_says(source: str, first: float, last: float) -> None:
    keywords = KeywordConfig(source=source, own_start=0.8, own_end=0.2, drop=0.0)
    data = training_set(videos=200 if source == "mixed" else 30, keywords=keywords, batch=64)
    for epoch, share in ((0, first), (4, last)):
        assert data.own_share(epoch) == pytest.approx(share)
        own = [VOCABULARY["w38"] not in words for _, _, _, words in flat(data.epoch(epoch))]
        assert np.mean(own) == pytest.approx(share, abs=0.1)


def test_own_keywords_come_along_whatever_is_shown() -> None:
    retrieved = training_set(keywords=KeywordConfig(source="retrieved", drop=0.5))
    own = training_set(keywords=KeywordConfig(source="own", drop=0.0))
    for (some,), (others,) in zip(retrieved.epoch(0), own.epoch(0), strict=True):
        assert some.ids == others.ids
        torch.testing.assert_close(some.own_keywords.words, others.keywords.words)
        torch.testing.assert_close(others.own_keywords.words, others.keywords.words)


def test_dropping_keywords_and_frames() -> None:
    data = training_set(keywords=KeywordConfig(source="retrieved", drop=0.5), frame_drop=0.5, videos=40, batch=40)
    (batch,) = next(iter(data.epoch(0)))
    kept = (batch.keywords.words != PAD).sum(1)
    assert set(kept.tolist()) == {0, 1, 2}
    assert batch.video.frame_mask.any(1).all()
    assert batch.video.frame_mask.sum() < 0.8 * batch.video.frame_mask.numel()


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_a_frame_comes_from_its_own_part_of_the_video(length: int, frames: int, seed: int) -> None:
    video = VideoFeatures(appearance=torch.arange(float(length)).unsqueeze(1))
    config, dims = ModelConfig(frames=frames), {"appearance": 1}
    moments = np.random.default_rng(seed).random((1, frames))
    drawn = video_batch([video], dims, config, moments=moments).appearance
    assert drawn is not None
    places = drawn[0, :, 0].tolist()
    n = min(length, frames)
    assert len(places) == n
    assert places == sorted(places)
    for part, place in enumerate(places):
        assert int(part * length / n) <= place <= math.ceil((part + 1) * length / n) - 1
    middle = video_batch([video], dims, config).appearance
    assert middle is not None
    assert middle[0, :, 0].tolist() == even_positions(length, frames)


def test_frames_at_random_show_another_video_each_time() -> None:
    def shown(at_random: bool) -> list[set[float]]:
        data = training_set(videos=3, frames_at_random=at_random, frame_drop=0.0, model=ModelConfig(frames=2))
        data.looks = {f"v{i}": [VideoFeatures(appearance=torch.arange(40.0).view(20, 2))] for i in range(3)}
        return [{row[2] for row in flat(data.epoch(epoch))} for epoch in range(4)]

    assert len({tuple(sums) for sums in shown(True)}) == 4
    assert len({tuple(sums) for sums in shown(False)}) == 1


def test_sentences_that_others_agree_with_are_drawn_more_often() -> None:
    def shares(power: float) -> np.ndarray:
        data = training_set(videos=40, agreement=power, batch=40, pseudo_per_video=0)
        data.videos = [replace(video, agreement=(0.0, 1.0, 3.0)) for video in data.videos]
        words = [row[0][2] - 5 for epoch in range(25) for row in flat(data.epoch(epoch))]
        return np.bincount(words, minlength=3) / len(words)

    np.testing.assert_allclose(shares(0.0), [1 / 3] * 3, atol=0.06)
    weights = np.array([0.05, 0.75, 2.25])
    np.testing.assert_allclose(shares(1.0), weights / weights.sum(), atol=0.06)
    assert shares(2.0)[2] > shares(1.0)[2]


def test_every_look_at_a_video_is_shown() -> None:
    data = training_set(videos=2, frame_drop=0.0)
    data.looks = {f"v{i}": [VideoFeatures(appearance=torch.full((1, 2), float(k))) for k in (0, 5, 9)] for i in (0, 1)}
    assert {row[2] for epoch in range(20) for row in flat(data.epoch(epoch))} == {0.0, 10.0, 18.0}


def test_sentences_are_cut_and_unknown_words_are_targets_too() -> None:
    inputs, targets = sentence_batch([[5, UNK, 7], [4, 5, 6, 7, 8, 9]], 5)
    assert inputs.tolist() == [[BOS, 5, UNK, 7, PAD, PAD], [BOS, 4, 5, 6, 7, 8]]
    assert targets.tolist() == [[5, UNK, 7, EOS, PAD, PAD], [4, 5, 6, 7, 8, EOS]]


def test_keywords_that_are_unknown_are_left_out() -> None:
    batch = keyword_batch([[Keyword("zzz", 0.9), Keyword("w1", 0.5)], []], VOCABULARY, 3)
    assert batch.words.tolist() == [[VOCABULARY["w1"], PAD, PAD], [PAD] * 3]
    assert batch.weights[0].tolist() == [0.5, 0.0, 0.0]


def test_appearance_and_motion_stand_side_by_side() -> None:
    video = VideoFeatures(
        appearance=torch.arange(12.0).unsqueeze(1), motion=torch.tensor([[1.0], [2.0]]), objects=torch.zeros(0, 3)
    )
    batch = video_batch([video], {"appearance": 1, "motion": 1, "objects": 3}, ModelConfig(frames=4))
    assert batch.appearance[0, :, 0].tolist() == [1, 4, 7, 10]
    assert batch.motion[0, :, 0].tolist() == [1, 1, 2, 2]
    assert batch.objects is None
    partly = VideoFeatures(appearance=torch.ones(2, 1))
    both = video_batch([video, partly], {"appearance": 1, "motion": 1}, ModelConfig(frames=4))
    assert both.frame_mask.sum(1).tolist() == [4, 2]
    assert both.motion[1].abs().sum() == 0
