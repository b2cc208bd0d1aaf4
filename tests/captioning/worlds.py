"""A small world of features and captions: what is done, by whom and with what can be read from the vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from fewcap.captioning import loop
from fewcap.captioning.loop import Row, Trainer
from fewcap.core.config.train import ModelConfig, TrainConfig
from fewcap.core.store import Manifest, Stage, Workspace, run_stage
from fewcap.core.types import RewardName, VideoFeatures

TINY = TrainConfig(
    model=ModelConfig(width=32, heads=4, dropout=0.1, frames=4, objects=4, max_words=8),
    epochs=25,
    batch=16,
    learning_rate=4e-3,
    warmup_steps=5,
    patience=25,
    precision="float32",
    threads=1,
)

WHO = ("man", "woman", "dog", "cat")
DOES = ("eating", "washing", "carrying", "watching")
WHAT = ("carrot", "car", "ball", "bird")
DIMS = {"appearance": 24, "motion": 16, "objects": 12}


def sentence(who: str, does: str, what: str) -> str:
    return f"a {who} is {does} a {what}"


def world(seed: int = 0) -> list[tuple[str, str, VideoFeatures]]:
    """Sixty-four videos as (id, caption, features)."""
    random = np.random.default_rng(seed)
    signs = {word: random.standard_normal(sum(DIMS.values())) for word in (*WHO, *DOES, *WHAT)}
    videos = []
    for number, words in enumerate(product(WHO, DOES, WHAT)):
        vector = sum(signs[word] for word in words)
        parts: dict[str, torch.Tensor] = {}
        start = 0
        for kind, dim in DIMS.items():
            rows = 3 + (number + dim) % 4
            clean = np.abs(vector[start : start + dim])
            noisy = clean + 0.1 * random.standard_normal((rows, dim))
            parts[kind] = torch.from_numpy(noisy).half()
            start += dim
        videos.append((f"v{number:02d}", sentence(*words), VideoFeatures(**parts)))
    return videos


def write_world(folder: Path, kinds: tuple[str, ...] = ("appearance", "motion", "objects"), seed: int = 0) -> None:
    """The artefacts ``data`` and ``features`` of the small world."""
    videos = world(seed)

    def build_data(workspace: Workspace) -> dict[str, int]:
        order = np.random.default_rng(1).permutation(len(videos)).tolist()
        split = {i: "val" if place < 8 else "test" if place < 16 else "train" for place, i in enumerate(order)}
        workspace.write_jsonl(
            "videos.jsonl",
            (
                {"id": id_, "split": split[i], "path": None, "captions": [text], "sha256": None}
                for i, (id_, text, _) in enumerate(videos)
            ),
        )
        workspace.write_json("sources.json", {"source": "folder", "packed_features": None})
        return {"videos": len(videos)}

    def build_features(workspace: Workspace) -> dict[str, int]:
        tensors = {f"{kind}/{id_}": getattr(features, kind) for id_, _, features in videos for kind in kinds}
        workspace.write_tensors("shards/00000.safetensors", tensors)
        backbones = {kind: {"name": f"test {kind}", "dim": DIMS[kind], "hash": f"hash of {kind}"} for kind in kinds}
        index = {"backbones": backbones, "videos": {id_: {"shard": "shards/00000.safetensors"} for id_, _, _ in videos}}
        workspace.write_json("index.json", index)
        return {"videos": len(videos)}

    run_stage(Stage(folder / "data", "data", inputs={}, config={}), build_data)
    run_stage(Stage(folder / "features", "features", inputs={}, config={"world": list(kinds)}), build_features)


class SaidWords:
    """Share of the words of the reference that are said, in per cent."""

    def __call__(self, hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> float:
        return float(100 * np.mean(self.reward(references)(list(hypotheses), list(hypotheses.values()))))

    def reward(
        self, references: Mapping[str, Sequence[str]], name: RewardName = "cider"
    ) -> Callable[[Sequence[str], Sequence[str]], np.ndarray]:
        """By all scores the order is the same, and distances are twice as large."""

        def share(video: str, caption: str) -> float:
            wanted = set(references[video][0].split())
            return (2 if name == "scores" else 1) * len(set(caption.split()) & wanted) / len(wanted)

        return lambda videos, captions: np.array([share(*pair) for pair in zip(videos, captions, strict=True)])

    worth = reward

    def agreement(self, references: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        return {video: np.ones(len(group)) for video, group in references.items()}


metric = SaidWords()


def killed_and_resumed(
    monkeypatch: pytest.MonkeyPatch, train: Callable[[], Manifest], moment: Callable[[Trainer, int], bool]
) -> tuple[Manifest, list[tuple[str, int, int]]]:
    """A training that is interrupted before the epoch that is the ``moment``, and trained again; with the epochs
    (part, member, number) of the second time."""
    real = Trainer._epoch
    seen: list[tuple[str, int, int]] = []

    def interrupted(trainer: Trainer, epoch: int) -> Row:
        if moment(trainer, epoch):
            raise KeyboardInterrupt
        return real(trainer, epoch)

    def watched(trainer: Trainer, epoch: int) -> Row:
        seen.append((trainer.part, trainer.member, epoch))
        return real(trainer, epoch)

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(Trainer, "_epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train()
    monkeypatch.setattr(Trainer, "_epoch", watched)
    return train(), seen


def manifest_files(folder: Path) -> dict[str, str]:
    return Manifest.read(folder).files
