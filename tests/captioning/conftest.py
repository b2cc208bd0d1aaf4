from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from worlds import TINY, metric, write_world

from fewcap.captioning.train import train


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
