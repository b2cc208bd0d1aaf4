"""I3D: shapes, padding as published, and the names of actions in known clips."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewcap.core import weights
from fewcap.core.errors import FewcapError
from fewcap.features.backbones.i3d import DIM, I3D, Mixed, same_padding

DTYPE = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32  # the faster one
# Some of the 400 actions of Kinetics, by their number in DeepMind's list.
DUNKING, EYEBROWS, MOTORCYCLING = 107, 126, 199


@given(st.integers(1, 300), st.integers(1, 7), st.integers(1, 3))
def test_padding_gives_the_size_that_tensorflow_promises(size: int, kernel: int, stride: int) -> None:
    before, after = same_padding(size, kernel, stride)
    assert 0 <= after - before <= 1
    padded = size + before + after
    if padded >= kernel:
        assert (padded - kernel) // stride + 1 == -(-size // stride) or before == after == 0


def test_branches_are_joined_in_order() -> None:
    torch.manual_seed(0)
    mixed = Mixed(4, (1, 2, 3, 4, 5, 6)).eval()
    x = torch.rand(1, 4, 2, 5, 5)
    with torch.inference_mode():
        y = mixed(x)
        assert y.shape == (1, 1 + 3 + 5 + 6, 2, 5, 5)
        assert torch.equal(y[:, :1], mixed.branch_0(x))
        padded = torch.nn.functional.max_pool3d(x, 3, 1, padding=1)
        assert torch.allclose(y[:, 9:], mixed.branch_3(padded))


def test_other_weights_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(FewcapError, match="not weights of I3D"):
        I3D.load(tmp_path / "x.safetensors")


@pytest.fixture(scope="module")
def network() -> I3D:
    if not weights.status("i3d").present:
        pytest.skip("the weights of I3D are not on this machine: fewcap weights i3d --get")
    return I3D.load(weights.resolve("i3d")).to(DTYPE)


def test_clips_of_any_length_are_seen_as_they_are(network: I3D) -> None:
    with torch.inference_mode():
        for frames in (2, 5):
            assert network(torch.zeros(1, 3, frames, 224, 224, dtype=DTYPE)).shape == (1, DIM)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("video", "action"), [("video1522", DUNKING), ("video1537", EYEBROWS), ("video1551", MOTORCYCLING)]
)
def test_names_the_action_of_known_clips(network: I3D, shared_data: Path, video: str, action: int) -> None:
    """Captions: basketball players in a game; a woman does her make-up; people ride motorcycles."""
    with av.open(str(shared_data / "msrvtt" / "clips" / f"{video}.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)][:32]
    height, width = frames[0].shape[:2]
    top, left = (height - 224) // 2, (width - 224) // 2
    clip = np.stack([frame[top : top + 224, left : left + 224] for frame in frames])
    x = torch.from_numpy(clip).permute(3, 0, 1, 2)[None].float() / 127.5 - 1
    with torch.inference_mode():
        logits = network.logits(x.to(DTYPE).contiguous(memory_format=torch.channels_last_3d))
    assert int(logits.argmax()) == action
