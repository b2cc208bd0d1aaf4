"""Even selection, padding and the plan of moments."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fewcap.core.config.features import FeaturesConfig
from fewcap.features.sampling import plan
from fewcap.features.select import even_positions, pad_batch, select_evenly


@given(st.integers(0, 300), st.integers(1, 60))
def test_positions_are_even_distinct_and_within(length: int, count: int) -> None:
    found = even_positions(length, count)
    assert len(found) == min(length, count)
    assert found == sorted(set(found))
    assert all(0 <= position < length for position in found)
    if length > count:
        steps = [b - a for a, b in pairwise(found)]
        assert not steps or max(steps) - min(steps) <= 1
        assert abs(found[0] - (length - 1 - found[-1])) <= 1  # as much is left before as after


def test_selection_of_paper_size() -> None:
    x = torch.arange(100.0)[:, None]
    assert select_evenly(x, 20)[:, 0].tolist() == [2.0 + 5 * i for i in range(20)]
    assert select_evenly(x[:7], 20).shape == (7, 1)  # short: as it is
    with pytest.raises(ValueError, match="at least one"):
        select_evenly(x, 0)


def test_padding_is_masked() -> None:
    batch, mask = pad_batch([torch.ones(2, 3), torch.ones(4, 3), torch.ones(0, 3)])
    assert batch.shape == (3, 4, 3)
    assert mask.sum(1).tolist() == [2, 4, 0]
    assert float(batch[~mask].abs().sum()) == 0.0


def test_clips_of_the_paper() -> None:
    config = FeaturesConfig(clip_rate=25, max_clips=100)
    found = plan(0.0, 4.0, 25.0, config)  # 100 frames
    assert len(found.clips) == (100 - 16) // 8 + 1
    assert all(len(clip) == 16 for clip in found.clips)
    assert found.clips[1][0] == pytest.approx(8 / 25)
    assert set(found.clips[0][8:]) == set(found.clips[1][:8])  # 8 overlap


def test_frames_follow_rate_and_bounds() -> None:
    config = FeaturesConfig(motion=None)
    assert len(plan(0, 2, 25, config).frames) == 4
    assert len(plan(0, 12, 25, config).frames) == 6
    assert len(plan(0, 3600, 25, config).frames) == 8
    assert plan(0, 7, 25, config).clips == ()


@given(st.floats(0, 1e5), st.floats(1e-3, 2e4), st.floats(0.1, 120))
def test_moments_lie_in_the_range(start: float, length: float, rate: float) -> None:
    found = plan(start, start + length, rate, FeaturesConfig())
    assert found.moments == sorted(found.moments)
    assert all(start <= moment <= start + length + 1e-6 * start for moment in found.moments)
    assert len(found.clips) <= 20
    assert len(found.frames) <= 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"appearance": "efficientnet_lite"}, "Did you mean 'efficientnet_lite0'"),
        ({"motion": "i3"}, "choose one of changes, i3d, c3d"),
        ({"objects": "boxes"}, "objects 'boxes' is unknown"),
        ({"min_frames": 30}, "exceeds max_frames 8"),
        ({"clip_overlap": 16}, "must be less than clip_length 16"),
        ({"motion": "c3d", "clip_length": 8, "clip_overlap": 4}, "set clip_length to 16"),
        ({"ray_address": "auto"}, "set engine: ray"),
    ],
)
def test_contradictions_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FeaturesConfig.model_validate(settings)


def test_how_the_work_is_done_does_not_change_what_comes_out() -> None:
    assert FeaturesConfig(workers=7, engine="ray", device="cpu").content() == FeaturesConfig().content()
    assert FeaturesConfig(max_frames=30).content() != FeaturesConfig().content()
