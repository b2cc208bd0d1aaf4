"""Training by reward: the loss is the literal one, captions get better by the reward, and it resumes exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from worlds import TINY, killed_and_resumed, metric

from fewcap.captioning.selfcritical import SelfCriticalTrainer, policy_loss
from fewcap.captioning.train import train
from fewcap.core.config.train import SelfCriticalConfig, TrainConfig
from fewcap.core.store import Manifest, read_jsonl

START = TINY.model_copy(update={"epochs": 6, "smooth": 1})
REWARDED = START.model_copy(
    update={"selfcritical": SelfCriticalConfig(epochs=4, samples=4, batch=16, learning_rate=2e-3)}
)


def fit(world: Path, out: Path, config: TrainConfig) -> Manifest:
    return train(world / "data", world / "features", None, out, config, seed=0, metric=metric)


def test_a_sample_is_judged_against_the_mean_of_the_others() -> None:
    log_probability = torch.randn(3, 4, requires_grad=True)
    reward = torch.rand(3, 4)
    expected = 0.0
    for video in range(3):
        for sample in range(4):
            others = [float(reward[video, other]) for other in range(4) if other != sample]
            advantage = float(reward[video, sample]) - sum(others) / 3
            expected -= advantage * log_probability[video, sample].item() / 4
    loss = policy_loss(log_probability, reward)
    assert float(loss) == pytest.approx(expected, abs=1e-5)
    loss.backward()
    assert log_probability.grad is not None
    better = reward > (reward.sum(1, keepdim=True) - reward) / 3
    assert ((log_probability.grad < 0) == better).all()  # descending raises what was better


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["sample", "beam"])
def test_reward_rises_and_the_rows_go_on(draw: str, world: Path, tmp_path: Path) -> None:
    before = fit(world, tmp_path / "before", START)
    settings = REWARDED.selfcritical.model_copy(update={"draw": draw})
    after = fit(world, tmp_path / "after", REWARDED.model_copy(update={"selfcritical": settings}))
    rows = read_jsonl(tmp_path / "after" / "metrics.jsonl")
    assert [row["epoch"] for row in rows] == list(range(1, 11))
    assert rows[:6] == read_jsonl(tmp_path / "before" / "metrics.jsonl")
    rewards = [row["reward"] for row in rows[6:]]
    assert rewards[-1] > rewards[0] + 0.03
    assert after.counts["best_score"] > before.counts["best_score"]
    assert after.files["model.safetensors"] != before.files["model.safetensors"]


@pytest.mark.slow
def test_the_reward_may_be_what_a_caption_adds_to_all_scores(world: Path, tmp_path: Path) -> None:
    by_scores = REWARDED.selfcritical.model_copy(update={"reward": "scores"})
    plain = fit(world, tmp_path / "plain", REWARDED)
    other = fit(world, tmp_path / "other", REWARDED.model_copy(update={"selfcritical": by_scores}))
    assert other.files["model.safetensors"] != plain.files["model.safetensors"]
    rewards = [row["reward"] for row in read_jsonl(tmp_path / "other" / "metrics.jsonl")[6:]]
    assert rewards[0] > 1.0  # twice the share of words: the world's all scores
    assert rewards[-1] > rewards[0]


@pytest.mark.slow
def test_an_interrupted_run_ends_like_an_undisturbed_one(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = fit(world, tmp_path / "straight", REWARDED)
    resumed, seen = killed_and_resumed(
        monkeypatch,
        lambda: fit(world, tmp_path / "resumed", REWARDED),
        lambda trainer, epoch: isinstance(trainer, SelfCriticalTrainer) and epoch == 2,
    )
    assert [epoch for _, _, epoch in seen] == list(range(2, REWARDED.selfcritical.epochs))
    assert resumed.files == straight.files
