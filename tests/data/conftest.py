"""A few real clips to build data sets from, rendered once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fewcap.data.render import write_clip
from fewcap.data.scene import make_scene


@pytest.fixture(scope="session")
def fixtures(repo: Path) -> Path:
    return repo / "tests" / "fixtures"


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One short mp4 file."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    write_clip(make_scene(0, 0, seconds=0.7, odd_share=0, sound_share=0), path)
    return path


@pytest.fixture
def video_folder(tmp_path: Path, clip: Path) -> Callable[[Sequence[str]], Path]:
    """Makes a folder with a clip under each of the given names."""

    def make(names: Sequence[str], folder: str = "videos") -> Path:
        place = tmp_path / folder
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(clip, place / name)
        return place

    return make
