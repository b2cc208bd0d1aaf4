"""The other backbones: shapes, layouts of weight files, and what they are sensitive to."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError, UsageError
from fewcap.features.backbones import boxes, build, c3d, changes, faster_rcnn, grid, timm_model
from fewcap.features.backbones.base import Card
from fewcap.features.picture import View
from fewcap.features.video import Sample

CPU = torch.device("cpu")
APPEARANCE = Card("x", "appearance", 6, View(8, 8), "", "", "")


def clip_sample(frames: np.ndarray, clips: list[list[int]], rate: float = 8.0) -> Sample:
    times = [i / rate for i in range(len(frames))]
    return Sample(
        frames=frames[:1],
        frame_times=[0.0],
        clip_frames=frames,
        clips=clips,
        clip_spans=[(times[clip[0]], times[clip[-1]]) for clip in clips],
        clip_frame_times=times,
    )


class TestGrid:
    def test_salient_cells_are_the_strongest_and_apart(self) -> None:
        cells = torch.zeros(2, 7, 7)
        cells[:, 3, 3], cells[:, 3, 4], cells[:, 0, 6], cells[:, 6, 0] = 9, 8, 5, 4
        assert grid.salient_cells(cells, 3) == [(3, 3), (0, 6), (6, 0)]

    def test_neighbours_come_when_nothing_else_is_left(self) -> None:
        assert len(set(grid.salient_cells(torch.rand(2, 3, 3), 9))) == 9

    def test_vector_is_the_cell_and_its_position(self) -> None:
        maps = torch.zeros(1, 6, 7, 7)
        maps[0, :, 2, 5] = torch.arange(6.0)
        sample = Sample(frames=np.zeros((1, 8, 8, 3), np.uint8), frame_times=[0.0])
        found = grid.Backbone(APPEARANCE, per_frame=1, limit=5)(sample, maps)
        assert found.shape == (1, 9)
        assert found[0, :6].tolist() == [0, 1, 2, 3, 4, 5]
        assert found[0, 6:].tolist() == pytest.approx([5.5 / 7, 2.5 / 7, 0.0])

    def test_frames_share_the_limit(self) -> None:
        sample = Sample(frames=np.zeros((20, 8, 8, 3), np.uint8), frame_times=[float(i) for i in range(20)])
        assert grid.Backbone(APPEARANCE, 5, 40)(sample, torch.rand(20, 6, 7, 7)).shape == (40, 9)


def texture(shift_x: float, shift_y: float) -> np.ndarray:
    y, x = np.mgrid[0:64, 0:64].astype(float)
    x, y = x - shift_x, y - shift_y
    value = 128 + 50 * np.sin(x / 5) * np.cos(y / 6) + 40 * np.sin((x + 2 * y) / 9)
    return np.repeat(value[:, :, None], 3, axis=2).clip(0, 255).astype(np.uint8)


class TestChanges:
    @pytest.mark.parametrize(("dx", "dy"), [(1.0, 0.0), (0.0, -1.0), (2.5, 1.5), (-3.0, 2.0)])
    def test_flow_of_a_moved_texture(self, dx: float, dy: float) -> None:
        before = torch.from_numpy(texture(0, 0)).float().mean(-1)[None] / 255
        after = torch.from_numpy(texture(dx, dy)).float().mean(-1)[None] / 255
        flow = changes.coarse_flow(before, after)[0].flatten(1).median(1).values
        assert flow.tolist() == pytest.approx([dx, dy], abs=0.35)

    def test_still_clip_has_no_motion_and_a_moving_one_has(self) -> None:
        backbone = changes.Backbone(APPEARANCE)
        maps = torch.rand(1, 6, 7, 7)
        still = backbone(clip_sample(np.stack([texture(0, 0)] * 16), [list(range(16))]), maps)
        moving = backbone(clip_sample(np.stack([texture(i, 0) for i in range(16)]), [list(range(16))]), maps)
        assert still.shape == moving.shape == (1, backbone.card.dim)
        assert still.abs().max() < 1e-3
        assert moving[0, 6].item() == pytest.approx(8 / 64, rel=0.2)  # the camera: 8 pixels a second to the right
        assert abs(moving[0, 7].item()) < 0.02

    def test_maps_count_when_frames_near_the_clip_change(self) -> None:
        maps = torch.zeros(3, 6, 7, 7)
        maps[2] = 1.0
        assert changes.map_steps(maps)[:, 0].tolist() == [0.0, 1.0]
        assert changes.steps_of([0.0, 1.0, 2.0], (0.0, 0.9)) == [0]
        assert changes.steps_of([0.0, 1.0, 2.0], (0.5, 1.5)) == [0, 1]
        assert changes.steps_of([5.0, 6.0], (0.0, 1.0)) == [0]
        assert changes.steps_of([5.0], (0.0, 1.0)) == []


class TestC3D:
    @pytest.mark.slow
    def test_loads_a_checkpoint_by_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(c3d, "DIM", 64)  # of 4096: the file would have 300 megabytes
        torch.manual_seed(0)
        network = c3d.C3D().eval()
        numbered = {**{name: f"features.{i}" for name, i in c3d._NUMBERED.items()}, "fc6": "classifier.0"}
        state = {
            f"{numbered[name.split('.')[0]]}.{name.split('.')[1]}": value
            for name, value in network.state_dict().items()
        }
        path = tmp_path / "c3d.pth"
        torch.save({"state_dict": {**state, "classifier.6.bias": torch.zeros(487)}}, path)
        backbone = c3d.load(str(path), torch.float32, CPU)
        frames = np.random.default_rng(0).integers(0, 256, (20, 112, 112, 3), dtype=np.uint8)
        found = backbone(clip_sample(frames, [list(range(16)), [16, 17]]), torch.empty(0))
        assert found.shape == (2, 64)
        x = (torch.from_numpy(frames[:16]).float() - torch.tensor(c3d.MEAN)).permute(3, 0, 1, 2)[None]
        with torch.inference_mode():
            assert torch.allclose(network(x)[0], found[0], rtol=1e-3, atol=1e-3)

    def test_wrong_shapes_are_named(self, tmp_path: Path) -> None:
        state = {"conv1.weight": torch.zeros(64, 3, 3, 3, 3), "conv1.bias": torch.zeros(7)}
        save_file(state, tmp_path / "c3d.safetensors")
        with pytest.raises(FewcapError, match=r"'conv1\.bias' has shape \[7\], not \[64\]"):
            c3d.C3D.load(tmp_path / "c3d.safetensors")
        save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
        with pytest.raises(FewcapError, match=r"'conv1\.weight' is missing"):
            c3d.C3D.load(tmp_path / "other.safetensors")

    def test_without_a_file_the_remedy_is_said_before_work(self) -> None:
        with pytest.raises(FewcapError, match=r"set features\.weights\.c3d"):
            build(FeaturesConfig(motion="c3d", weights={}))


class TestFasterRCNN:
    @staticmethod
    def network(layout: faster_rcnn.Layout = faster_rcnn.TORCHVISION) -> faster_rcnn.FasterRCNN:
        torch.manual_seed(0)
        return faster_rcnn.FasterRCNN((1, 1, 1, 1), classes=5, fc=32, layout=layout).eval()

    def test_torchvision_layout_loads_and_gives_objects(self, tmp_path: Path) -> None:
        path = tmp_path / "vg.pth"
        torch.save(self.network().state_dict(), path)
        backbone = faster_rcnn.load(str(path), 10, CPU)
        assert backbone.card.dim == 32
        frame = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)
        sample = Sample(frames=frame[None], frame_times=[0.0], object_frames=[frame, frame])
        found = backbone(sample, torch.empty(0))
        assert found.shape[1] == 32
        assert 2 <= len(found) <= 20
        assert torch.isfinite(found).all()

    def test_detectron_names_become_torchvision_names(self) -> None:
        name = faster_rcnn.torchvision_name
        assert name("backbone.bottom_up.stem.conv1.weight") == "backbone.body.conv1.weight"
        assert name("backbone.bottom_up.stem.conv1.norm.bias") == "backbone.body.bn1.bias"
        assert name("backbone.bottom_up.res2.0.conv1.norm.weight") == "backbone.body.layer1.0.bn1.weight"
        assert name("backbone.bottom_up.res4.22.conv3.weight") == "backbone.body.layer3.22.conv3.weight"
        assert name("backbone.bottom_up.res3.0.shortcut.norm.bias") == "backbone.body.layer2.0.downsample.1.bias"
        assert name("backbone.fpn_lateral2.weight") == "backbone.fpn.inner_blocks.0.0.weight"
        assert name("backbone.fpn_output5.bias") == "backbone.fpn.layer_blocks.3.0.bias"
        assert name("proposal_generator.rpn_head.anchor_deltas.bias") == "rpn.head.bbox_pred.bias"
        assert name("roi_heads.box_head.fc2.weight") == "roi_heads.box_head.fc7.weight"

    def test_wrong_file_is_named(self, tmp_path: Path) -> None:
        save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors")
        with pytest.raises(FewcapError, match=r"not weights of Faster R-CNN"):
            faster_rcnn.FasterRCNN.load(tmp_path / "x.safetensors")

    def test_suppression_keeps_the_best_of_overlapping_boxes(self) -> None:
        three = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
        assert boxes.suppress(three, torch.tensor([0.5, 0.9, 0.1]), 0.5, 10) == [1, 2]
        assert boxes.overlap(three[0], three).tolist() == pytest.approx([1.0, 81 / 119, 0.0])

    def test_decoding_zero_deltas_gives_the_anchors(self) -> None:
        anchors = faster_rcnn.level_anchors((2, 3), 16, 64)
        assert anchors.shape == (18, 4)
        assert torch.allclose(boxes.decode(anchors, torch.zeros(18, 4), (1, 1, 1, 1)), anchors, atol=1e-4)
        areas = (anchors[:, 2] - anchors[:, 0]) * (anchors[:, 3] - anchors[:, 1])
        assert torch.allclose(areas, torch.full((18,), 64.0**2), rtol=1e-4)

    def test_pooling_a_linear_map_gives_the_place(self) -> None:
        y, x = torch.meshgrid(torch.arange(20.0), torch.arange(30.0), indexing="ij")
        pooled = boxes.roi_align(torch.stack([x, y]), torch.tensor([[4.0, 6.0, 18.0, 13.0]]), 1.0, 7)
        assert pooled.shape == (1, 2, 7, 7)
        assert pooled[0, 0, 0].tolist() == pytest.approx([5 + 2 * i for i in range(7)], abs=1e-3)
        assert pooled[0, 1, :, 0].tolist() == pytest.approx([6.5 + i for i in range(7)], abs=1e-3)


class TestTimm:
    def test_missing_library_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "timm", None)
        with pytest.raises(FewcapError, match=r'inception_resnet_v2 needs timm.*pip install "fewcap\[features\]"'):
            build(FeaturesConfig(appearance="inception_resnet_v2"))

    def test_adapter_gives_vectors_and_maps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Tiny(nn.Module):
            num_features = 5
            pretrained_cfg: dict[str, Any] = {"hf_hub_id": "timm/tiny", "license": "mit"}  # noqa: RUF012

            def __init__(self) -> None:
                super().__init__()
                self.conv = nn.Conv2d(3, 5, 8, 8)

            def forward_features(self, x: torch.Tensor) -> torch.Tensor:
                return self.conv(x)

            def forward_head(self, x: torch.Tensor, pre_logits: bool) -> torch.Tensor:
                assert pre_logits
                return x.mean((2, 3))

        timm, data = ModuleType("timm"), ModuleType("timm.data")
        timm.is_model = lambda name: name == "tiny"  # type: ignore[attr-defined]
        timm.list_models = lambda: ["tiny"]  # type: ignore[attr-defined]
        timm.create_model = lambda name, pretrained, checkpoint_path: Tiny()  # type: ignore[attr-defined]
        timm.data = data  # type: ignore[attr-defined]
        settings = {"input_size": (3, 32, 32), "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
        data.resolve_model_data_config = lambda model: settings  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "timm", timm)
        monkeypatch.setitem(sys.modules, "timm.data", data)
        backbone = build(FeaturesConfig(appearance="timm:tiny")).appearance
        vectors, maps = backbone(np.zeros((4, 32, 32, 3), np.uint8))
        assert vectors.shape == (4, 5)
        assert maps.shape == (4, 5, 4, 4)
        assert backbone.card.view == View(32, 32)
        assert backbone.card.licence == "mit"
        with pytest.raises(FewcapError, match="timm has no model 'tyni'. Did you mean 'tiny'"):
            build(FeaturesConfig(appearance="timm:tyni"))

    def test_maps_of_transformers_and_of_channels_last_networks(self) -> None:
        tokens = torch.rand(2, 1 + 9, 5)
        maps = timm_model.as_maps(tokens, 5, 1)
        assert maps.shape == (2, 5, 3, 3)
        assert torch.equal(maps[0, :, 1, 2], tokens[0, 1 + 3 + 2])
        assert timm_model.as_maps(torch.rand(2, 3, 4, 5), 5, 0).shape == (2, 5, 3, 4)


def test_bfloat16_is_refused_where_the_processor_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    with pytest.raises(UsageError, match=r"features\.precision=bfloat16.*float32"):
        build(FeaturesConfig(precision="bfloat16", device="cpu"))
