"""The appearance network whose last stages have read captions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from fewcap.core import assets, weights
from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features.backbones import build, efficientnet_lite0, efficientnet_lite0_captions
from fewcap.features.backbones.efficientnet_lite0 import EfficientNetLite0

CPU = torch.device("cpu")


def test_early_stages_are_the_published_ones_and_the_last_are_not() -> None:
    published = EfficientNetLite0.load(weights.resolve("efficientnet_lite0")).state_dict()
    own = efficientnet_lite0_captions.load_network().state_dict()
    changed = {name for name, tensor in own.items() if not tensor.equal(published[name])}
    assert changed
    assert all(name.startswith("head.") or int(name.split(".")[1]) >= 11 for name in changed)
    assert not any("running" in name for name in changed)  # norms keep the statistics of ImageNet


def test_it_has_an_identity_of_its_own() -> None:
    card = build(FeaturesConfig(appearance="efficientnet_lite0_captions", motion=None, objects=None)).appearance.card
    plain = efficientnet_lite0.load(None, torch.float32, CPU).card
    assert (card.name, plain.name) == ("efficientnet_lite0_captions", "efficientnet_lite0")
    assert card.dim == plain.dim
    assert card.hash != plain.hash


def test_a_damaged_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(assets.asset("appearance"), tmp_path / "appearance")
    with (tmp_path / "appearance" / "late.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    monkeypatch.setattr(assets, "asset", lambda name: tmp_path / name)
    with pytest.raises(FewcapError, match=r"late\.safetensors: its content is not what was shipped; reinstall fewcap"):
        efficientnet_lite0_captions.load_network()
