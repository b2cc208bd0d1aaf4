from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from worlds import metric, write_world

from fewcap.captioning.train import train
from fewcap.core.config.train import ModelConfig, TrainConfig

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


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders ``data`` and ``features`` of the small world."""
    folder = tmp_path_factory.mktemp("world")
    write_world(folder)
    return folder


@pytest.fixture(scope="session")
def trained(world: Path) -> Path:
    """A model folder trained on the small world."""
    train(world / "data", world / "features", None, world / "model", TINY, seed=0, metric=metric)
    return world / "model"
