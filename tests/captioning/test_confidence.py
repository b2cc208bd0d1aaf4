"""The score below which captions are marked: a tenth of the ordinary ones lies below it, and strange features do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from worlds import DIMS
from worlds import world as make_world

from fewcap.captioning.captioner import Captioner
from fewcap.captioning.confidence import doubtful_below, of_project
from fewcap.captioning.folder import TrainedCaptioner
from fewcap.core.store import Stage, run_stage
from fewcap.core.types import VideoFeatures

pytestmark = pytest.mark.slow  # the fixture trains for some seconds


def test_a_tenth_of_ordinary_captions_is_marked(trained: Path, tmp_path: Path) -> None:
    videos = [features for _, _, features in make_world()]
    limit = doubtful_below(Captioner.load(trained), videos)

    def build(workspace: object) -> dict[str, int]:
        replace(TrainedCaptioner.load(trained), doubtful_below=limit).save(workspace)  # type: ignore[arg-type]
        return {}

    run_stage(Stage(tmp_path / "model", "model", inputs={}, config={}), build)
    careful = Captioner.load(tmp_path / "model")  # the limit is kept with the model
    marked = sum(caption.doubt is not None for caption in careful.caption(videos))
    assert 5 <= marked <= 8  # of 64
    assert all(caption.doubt is None for caption in Captioner.load(trained).caption(videos[:3]))
    torch.manual_seed(0)
    strange = [VideoFeatures(**{kind: 3 * torch.randn(4, dim) for kind, dim in DIMS.items()}) for _ in range(20)]
    assert sum(caption.doubt is not None for caption in careful.caption(strange)) > 4


def test_too_few_videos_say_nothing(trained: Path) -> None:
    captioner = Captioner.load(trained)
    assert doubtful_below(captioner, [features for _, _, features in make_world()[:5]]) is None
    assert of_project(captioner, trained.parent / "data", trained.parent / "features") is None  # eight of them
