"""The limits beyond which captions are marked: few ordinary videos lie beyond them, strange ones do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from worlds import DIMS
from worlds import world as make_world

from fewcap.captioning.captioner import STRANGE, UNLIKELY, Captioner
from fewcap.captioning.confidence import find_limits
from fewcap.captioning.folder import Limits, TrainedCaptioner
from fewcap.core.store import Stage, Workspace, run_stage
from fewcap.core.types import VideoFeatures

pytestmark = pytest.mark.slow  # the fixture trains for some seconds


def test_few_ordinary_videos_are_marked_and_strange_ones_are(trained: Path, tmp_path: Path) -> None:
    videos = [features for _, _, features in make_world()]
    limits = find_limits(Captioner.load(trained), videos)

    def build(workspace: Workspace) -> dict[str, int]:
        replace(TrainedCaptioner.load(trained), limits=limits).save(workspace)
        return {}

    run_stage(Stage(tmp_path / "model", "model", inputs={}, config={}), build)
    careful = Captioner.load(tmp_path / "model")  # the limits are kept with the model
    doubts = [caption.doubt for caption in careful.caption(videos)]
    assert 5 <= doubts.count(UNLIKELY) <= 8  # of 64
    assert doubts.count(STRANGE) <= 1  # the farthest, by rounding
    assert all(caption.doubt is None for caption in Captioner.load(trained).caption(videos[:3]))
    torch.manual_seed(0)
    strange = [VideoFeatures(**{kind: torch.randn(4, dim) for kind, dim in DIMS.items()}) for _ in range(20)]
    assert all(caption.doubt == STRANGE for caption in careful.caption(strange))


def test_too_few_videos_say_nothing(trained: Path) -> None:
    captioner = Captioner.load(trained)
    assert find_limits(captioner, [features for _, _, features in make_world()[:5]]) == Limits()
