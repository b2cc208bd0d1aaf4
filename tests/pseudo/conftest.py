"""Tiny random language models: enough to test what the machinery does, whatever they say."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fewcap.core.config.label import ModelsConfig
from fewcap.core.store import Stage, Workspace, run_stage
from fewcap.pseudo.codec import Codec
from fewcap.pseudo.language import ROLES, LanguageModels, new_network
from fewcap.text.tokenise import words

VOCABULARY = words(
    "a the man woman dog is are playing guitar walking down side walk next to fence with some flowers and her small "
    "baby in on street red big ball two people running eating table"
)


@pytest.fixture(scope="session")
def codec() -> Codec:
    return Codec.of_words(VOCABULARY)


@pytest.fixture(scope="session")
def tiny(codec: Codec) -> LanguageModels:
    """Weights drawn wide, so that different contexts give clearly different probabilities."""
    torch.manual_seed(0)
    config = ModelsConfig(layers=2, width=16, heads=2, inner=32)
    networks = {role: new_network(role, config, codec).eval() for role in ROLES}
    for network in networks.values():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.data.normal_(0, 0.4)
    networks["classifier"].classifier.weight.data.normal_(0, 0.8)
    networks["classifier"].classifier.bias.data.copy_(torch.tensor([0.5, 0.0, 1.0, 0.0]))
    return LanguageModels(codec, **networks)


@pytest.fixture(scope="session")
def tiny_folder(tiny: LanguageModels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.save(folder)
    return folder


CAPTIONS = {
    "v1": ("a man is playing guitar",),
    "v2": ("Two dogs are running on the street.", "a dog runs"),
    "v3": ("of the",),  # no noun, no verb
    "v4": ("ardilla",),  # one word that no vocabulary has
    "v5": ("кот ест рыбу 🙂",),
    "v6": (" ".join(["a woman is eating some food and"] * 29),),  # two hundred words
    "v7": ("猫", "a baby is walking to the table"),
}


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A data folder and a features folder as the stages before this one write them; v7 has no features."""
    root = tmp_path_factory.mktemp("project")

    def write_data(workspace: Workspace) -> dict[str, int]:
        rows = [
            {"id": video, "split": "train", "path": None, "captions": captions, "sha256": None}
            for video, captions in CAPTIONS.items()
        ]
        rows.append({"id": "t1", "split": "test", "path": None, "captions": ["a cat sleeps"], "sha256": None})
        workspace.write_jsonl("videos.jsonl", rows)
        workspace.write_json("sources.json", {"source": "folder", "packed_features": None})
        return {}

    def write_features(workspace: Workspace) -> dict[str, int]:
        generator = torch.Generator().manual_seed(0)
        seen = [video for video in CAPTIONS if video != "v7"]
        tensors = {f"appearance/{video}": torch.rand(3, 6, generator=generator).half() for video in seen}
        workspace.write_tensors("shards/00000.safetensors", tensors)
        videos = {video: {"shard": "shards/00000.safetensors"} for video in seen}
        backbones = {"appearance": {"name": "random", "dim": 6, "hash": "0"}}
        workspace.write_json("index.json", {"backbones": backbones, "videos": videos})
        return {}

    run_stage(Stage(root / "data", "data", inputs={}, config={}), write_data)
    run_stage(Stage(root / "features", "features", inputs={}, config={}), write_features)
    return root / "data", root / "features"
