"""PP-LCNetV2 and networks side by side; the reader of Paddle's files."""

from __future__ import annotations

import struct
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from fewcap.core import weights
from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError, UsageError
from fewcap.core.paddle import convert_paddle_parameters
from fewcap.features.backbones import efficientnet_lite0, pplcnet_v2, together
from fewcap.features.backbones.pplcnet_v2 import BLOCKS, LINEAR, PPLCNetV2, layers, scaled

CPU = torch.device("cpu")


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (count, 224, 224, 3), dtype=np.uint8)


def invented(folder: Path) -> Path:
    """A file as the converter makes it of a published one, with random numbers."""
    random = torch.Generator().manual_seed(0)
    found: dict[str, torch.Tensor] = {
        "linear_0.w_0": torch.randn(1280, 1000, generator=random) * 0.03,
        "linear_0.b_0": torch.randn(1000, generator=random),
    }
    for layer in layers(PPLCNetV2()):
        weight = layer.conv.weight
        spread = (2 / weight[0].numel()) ** 0.5
        for name in layer.published:
            if name.startswith("conv2d") and name.endswith("w_0"):
                found[name] = torch.randn(weight.shape, generator=random) * spread
            else:
                found[name] = torch.rand(len(weight), generator=random) * 0.2 + 0.5 * ("norm" in name)
    path = folder / "pplcnet.safetensors"
    save_file({f"{i:03}": found[name].contiguous() for i, name in enumerate(sorted(found))}, path)
    return path


def literal(path: Path, x: torch.Tensor) -> torch.Tensor:
    """The network as its graph has it, one operation after another, norms apart: [B, 3, 224, 224] → [B, 1000]."""
    content = load_file(path)
    names = sorted([name for layer in layers(PPLCNetV2()) for name in layer.published] + LINEAR)
    w = dict(zip(names, (content[key] for key in sorted(content)), strict=True))
    convs, norms = 0, 0

    def conv(y: torch.Tensor, stride: int = 1, *, depthwise: bool = False, bias: bool = False, norm: bool = True):  # type: ignore[no-untyped-def]
        nonlocal convs, norms
        weight = w[f"conv2d_{convs}.w_0"]
        y = F.conv2d(
            y,
            weight,
            w[f"conv2d_{convs}.b_0"] if bias else None,
            stride,
            weight.shape[-1] // 2,
            groups=y.shape[1] if depthwise else 1,
        )
        convs += 1
        if norm:
            own = [w[f"batch_norm2d_{norms}.{part}"] for part in ("w_1", "w_2", "w_0", "b_0")]
            y = F.batch_norm(y, *own, eps=1e-5)
            norms += 1
        return y

    y = F.relu(conv(x, 2))
    y = F.relu(conv(y, depthwise=True))
    y = F.relu(conv(y))
    for shape in BLOCKS:
        start = y
        if shape.kernel == 5:
            branches = 3 if shape.stride == 1 else 2
            convs, norms = convs + branches, norms + branches
            y = F.relu(conv(y, shape.stride, depthwise=True, bias=True, norm=False))
        else:
            y = F.relu(conv(y, shape.stride, depthwise=True))
        if shape.split:
            z = F.relu(conv(y.mean((2, 3), keepdim=True), bias=True, norm=False))
            y = y * torch.sigmoid(conv(z, bias=True, norm=False))
            y = F.relu(conv(y))
        y = F.relu(conv(y))
        if shape.shortcut:
            y = y + start
    y = F.relu(conv(y.mean((2, 3), keepdim=True), norm=False)).flatten(1)
    return 0.8 * y @ w["linear_0.w_0"] + w["linear_0.b_0"]


def test_network_is_its_published_graph(tmp_path: Path) -> None:
    path = invented(tmp_path)
    network = PPLCNetV2.load(path)
    x = scaled(pictures(2), torch.float32, CPU)
    with torch.inference_mode():
        expected = literal(path, x)
        assert torch.allclose(network.logits(x), expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


def test_published_weights_name_what_they_saw() -> None:
    """Figures from the published graph, run by onnxruntime 1.31."""
    if not weights.status("pplcnet_v2").present:
        pytest.skip("the weights of PP-LCNetV2 are not on this machine: fewcap weights pplcnet_v2 --get")
    y, x = np.mgrid[0:224, 0:224]
    gradient = np.stack([x, y, (x + y) // 2], axis=-1).astype(np.uint8)[None]
    network = PPLCNetV2.load(weights.resolve("pplcnet_v2"))
    with torch.inference_mode():
        best = network.logits(scaled(gradient, torch.float32, CPU))[0].topk(3)
    assert best.indices.tolist() == [644, 446, 629]
    assert best.values.tolist() == pytest.approx([4.6377, 4.1206, 4.0965], abs=2e-3)


def test_weights_are_written_as_they_are_read(tmp_path: Path) -> None:
    network = PPLCNetV2.load(invented(tmp_path))
    network.blocks[-1].mix.weight.data *= 2
    save_file(pplcnet_v2.published(network), tmp_path / "again.safetensors")
    again = PPLCNetV2.load(tmp_path / "again.safetensors")
    for name, weight in network.state_dict().items():
        assert torch.allclose(again.state_dict()[name], weight, rtol=1e-5), name


def test_fast_form_agrees_with_the_plain_one_and_frames_do_not_meet(tmp_path: Path) -> None:
    path = str(invented(tmp_path))
    frames = pictures(4)
    with torch.inference_mode():
        expected = PPLCNetV2.load(Path(path))(scaled(frames, torch.float32, CPU))
    backbone = pplcnet_v2.load(path, torch.float32, CPU)
    vectors, maps = backbone(frames)
    assert maps.shape == (4, 1024, 7, 7)
    assert float((maps - expected).norm() / expected.norm()) < 1e-4
    assert torch.allclose(vectors, maps.mean((2, 3)), rtol=1e-5)
    alone = np.zeros_like(frames)
    alone[2] = frames[1]
    assert torch.equal(backbone(alone)[0][2], vectors[1])


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    save_file({"000": torch.zeros(3)}, tmp_path / "x.safetensors")
    with pytest.raises(FewcapError, match="not weights of PP-LCNetV2"):
        PPLCNetV2.load(tmp_path / "x.safetensors")


def test_networks_side_by_side(tmp_path: Path) -> None:
    lite, other = (
        efficientnet_lite0.load(None, torch.float32, CPU),
        pplcnet_v2.load(str(invented(tmp_path)), torch.float32, CPU),
    )
    both = together.Backbone([lite, other])
    frames = pictures(4)
    vectors, maps = both(frames)
    assert (both.card.name, both.card.dim) == ("efficientnet_lite0+pplcnet_v2", 1280 + 1024)
    assert both.card.hash != together.Backbone([other, lite]).card.hash
    assert vectors.shape == (4, 2304)
    assert torch.equal(maps, lite(frames)[1])
    for part, network in ((vectors[:, :1280], lite), (vectors[:, 1280:], other)):
        assert torch.allclose(part.norm(dim=1), torch.ones(4), atol=1e-5)
        assert float(torch.cosine_similarity(part, network(frames)[0]).min()) > 0.9999


def test_networks_that_want_other_pictures_do_not_go_together() -> None:
    lite, other = (efficientnet_lite0.load(None, torch.float32, CPU) for _ in range(2))
    other.card = replace(other.card, view=None, name="other")
    with pytest.raises(UsageError, match="efficientnet_lite0 and other look at pictures of other sizes"):
        together.Backbone([lite, other])


@pytest.mark.parametrize(
    ("appearance", "message"),
    [
        ("efficientnet_lite0+pplcnet", "Did you mean 'pplcnet_v2'"),
        ("pplcnet_v2+pplcnet_v2", "names a network twice"),
        ("efficientnet_lite0+", "appearance '' is unknown"),
    ],
)
def test_names_of_networks_are_checked(appearance: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeaturesConfig(appearance=appearance)
    assert FeaturesConfig(appearance="efficientnet_lite0+pplcnet_v2").appearance == "efficientnet_lite0+pplcnet_v2"


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def written(array: np.ndarray, kind: int = 5) -> bytes:
    """A tensor as Paddle writes it."""
    description = b"\x08" + varint(kind) + b"".join(b"\x10" + varint(size) for size in array.shape)
    return struct.pack("<IQIi", 0, 0, 0, len(description)) + description + array.astype("<f4").tobytes()


@given(st.lists(st.lists(st.integers(1, 200), min_size=1, max_size=3).filter(lambda s: np.prod(s) < 2000), min_size=1))
def test_paddle_files_are_read_back(sizes: list[list[int]]) -> None:
    arrays = [np.random.default_rng(i).normal(size=size).astype(np.float32) for i, size in enumerate(sizes)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pdiparams"
        path.write_bytes(b"".join(written(array) for array in arrays))
        found = convert_paddle_parameters(path)
    assert list(found) == [f"{i:03}" for i in range(len(arrays))]
    for array, tensor in zip(arrays, found.values(), strict=True):
        assert np.array_equal(array, tensor.numpy())


@pytest.mark.parametrize(
    "content",
    [
        written(np.ones(3))[:-1],
        written(np.ones(3), kind=6),
        struct.pack("<IQIi", 1, 0, 0, 4) + b"\x08\x05\x10\x01" + b"\0" * 4,
        struct.pack("<IQIi", 0, 0, 0, 2**30),
        struct.pack("<IQIi", 0, 0, 0, 12) + b"\x08\x05\x10" + b"\xff" * 9,
        b"",
        b"PK\x03\x04",
    ],
)
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pdiparams"
    path.write_bytes(content)
    with pytest.raises(FewcapError, match=r"x\.pdiparams"):
        convert_paddle_parameters(path)
