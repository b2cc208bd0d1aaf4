"""The resolver: pinned files only, converted once, and foreign pickles that can do nothing."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from fewcap.core import weights
from fewcap.core.errors import FewcapError, UsageError
from fewcap.core.unpickle import convert_flax_pickle, convert_torch_file


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEWCAP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_every_model_says_what_people_need_to_know(cache: Path) -> None:
    for status in weights.list_models():
        model = status.model
        assert model.name
        assert model.role
        assert model.source
        assert model.licence
        assert model.size > 0
        assert status.present or status.remedy
    assert not cache.exists()  # listing converts nothing


def test_package_is_converted_into_the_cache_with_its_licence(cache: Path) -> None:
    assert weights.status("efficientnet_lite0").present
    path = weights.resolve("efficientnet_lite0")
    assert path.is_relative_to(cache)
    assert path.suffix == ".safetensors"
    facts = json.loads(path.with_suffix(".json").read_text())
    assert facts["licence"] == "Apache-2.0"
    assert "Apache" in path.with_suffix(".LICENSE").read_text()
    before = path.stat().st_mtime_ns
    assert weights.get("efficientnet_lite0") == path
    assert path.stat().st_mtime_ns == before  # once
    assert weights.verify("efficientnet_lite0") == path


def test_changed_cache_is_found_by_verify(cache: Path) -> None:
    path = weights.resolve("efficientnet_lite0")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)
    with pytest.raises(FewcapError, match="has changed since it was written"):
        weights.verify("efficientnet_lite0")


def test_a_package_with_another_content_is_not_used(cache: Path, tmp_path: Path) -> None:
    forged = tmp_path / "x.pth"
    torch.save({"a": torch.zeros(1)}, forged)
    with pytest.raises(FewcapError, match="is not the pinned"):
        weights._convert(weights.model("efficientnet_lite0"), forged, None)
    assert not cache.exists()


def test_missing_weights_name_the_command(cache: Path) -> None:
    with pytest.raises(FewcapError, match="run 'fewcap weights i3d --get'"):
        weights.resolve("i3d")
    with pytest.raises(FewcapError, match=r"set features\.weights\.faster_rcnn"):
        weights.get("faster_rcnn")
    with pytest.raises(UsageError, match="Did you mean 'i3d'"):
        weights.resolve("i3")


def test_local_file_comes_first(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.pth"
    torch.save({"state_dict": {"module.a": torch.arange(3.0)}}, path)
    found = weights.resolve("c3d", path)
    assert found.is_relative_to(cache)
    assert weights.resolve("c3d", path) == found
    with pytest.raises(FewcapError, match="there is no such weight file for c3d"):
        weights.resolve("c3d", tmp_path / "absent.pth")


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("convert", [convert_torch_file, convert_flax_pickle])
def test_pickles_that_name_functions_are_refused(convert: object, tmp_path: Path) -> None:
    target, path = tmp_path / "touched", tmp_path / "evil.pth"
    path.write_bytes(pickle.dumps({"a": Evil(target)}))
    with pytest.raises(FewcapError, match="it is not opened"):
        convert(path)  # type: ignore[operator]
    assert not target.exists()


def test_nested_arrays_become_named_tensors(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    path.write_bytes(pickle.dumps({"a": {"b": np.ones((2, 3), np.float32)}, "c": np.arange(2)}, protocol=4))
    found = convert_flax_pickle(path)
    assert sorted(found) == ["a.b", "c"]
    assert found["a.b"].shape == (2, 3)
