"""Captions that a captioner has ready for any video."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from worlds import TINY, metric, world, write_world

from fewcap.captioning.captioner import Captioner
from fewcap.captioning.choice import Ballot
from fewcap.captioning.commonness import RARE, common_captions, less_common, readiness
from fewcap.captioning.folder import TrainedCaptioner
from fewcap.captioning.train import train
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.config.train import TrainConfig
from fewcap.core.errors import FewcapError


def ballot(said: dict[str, float]) -> Ballot:
    """Captions with their log-probabilities."""
    arguments = np.zeros((len(said), 5))
    arguments[:, 4] = list(said.values())
    return Ballot(tuple(tuple(text.split()) for text in said), arguments)


def test_shares_leave_out_the_video_that_a_caption_fits_best() -> None:
    ballots = [ballot({"a man talks": -1.0, "a dog": -3.0}), ballot({"a man talks": -2.0, "a cat": -2.0})]
    first = [1 / (1 + math.exp(-1)), math.exp(-1) / (1 + math.exp(-1))]
    found = common_captions(ballots)
    assert found == {"a man talks": pytest.approx((first[0] + 0.5 - max(first[0], 0.5)) / 2, abs=1e-6)}


def test_common_captions_lose_and_others_do_not() -> None:
    ready = readiness([("a", "man"), ("a", "dog")], {"a man": 0.02})
    assert ready.tolist() == pytest.approx([math.log1p(0.02 / RARE), 0.0])
    merits = np.array([3.0, 1.0])
    assert less_common(merits, ready, 0.0).argmax() == 0
    assert less_common(merits, ready, 1.0).argmax() == 1
    assert np.isfinite(less_common(np.ones(2), ready, 1.0)).all()


def test_it_needs_captions_to_choose_among() -> None:
    with pytest.raises(ValidationError, match=r"rarity=0.5 needs captions to choose among"):
        TrainConfig(rarity=0.5)


def test_a_model_that_knows_nothing_common_says_so(trained: Path) -> None:
    with pytest.raises(FewcapError, match=r"caption\.rarity is 0\.5, but this model .* train\.rarity"):
        Captioner.load(trained, CaptionConfig(rarity=0.5))


@pytest.mark.slow
def test_training_learns_what_is_common_and_a_switch_turns_it_off(tmp_path: Path) -> None:
    write_world(tmp_path / "world")
    config = TINY.model_copy(update={"consensus": 6, "voters": 10, "rarity": 50.0})
    data, features, out = tmp_path / "world" / "data", tmp_path / "world" / "features", tmp_path / "model"
    train(data, features, None, out, config, seed=0, metric=metric)
    trained = TrainedCaptioner.load(out)
    assert trained.common
    assert all(RARE <= share <= 1 for share in trained.common.values())
    videos = [video for _, _, video in world()]
    said = [c.text for c in Captioner(trained).caption(videos)]
    plain = [c.text for c in Captioner(trained, config=CaptionConfig(rarity=0.0)).caption(videos)]
    assert plain == [c.text for c in Captioner(replace(trained, common={})).caption(videos)]
    assert sum(text in trained.common for text in said) < sum(text in trained.common for text in plain)
