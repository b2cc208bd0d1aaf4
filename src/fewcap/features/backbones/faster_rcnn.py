"""Faster R-CNN with a feature pyramid (ResNet-50 or 101): fc7 of the best objects of a frame.

Loads weights trained on Visual Genome, or any other set, by path, in the layout of torchvision or of Detectron2; the
depth and the number of classes are read from the file. The network is written here in plain torch, so that it needs
neither library. Shapes: one frame [1, 3, H, W]; P pyramid levels; A anchors a place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from fewcap.core import weights
from fewcap.core.errors import FewcapError
from fewcap.features.backbones.base import Card
from fewcap.features.backbones.boxes import clip, decode, roi_align, suppress
from fewcap.features.picture import View
from fewcap.features.video import Sample

SHORT, LONG = 600, 1000  # pixels of the frame's sides
STRIDES = (4, 8, 16, 32, 64)
ANCHORS = (32, 64, 128, 256, 512)  # one size a level
RATIOS = (0.5, 1.0, 2.0)
PROPOSALS = 300


@dataclass(frozen=True)
class Layout:
    """How a family of weight files differs: colours, where a block strides, and the background class."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    blue_first: bool
    stride_in_first: bool
    background_last: bool


TORCHVISION = Layout((123.675, 116.28, 103.53), (58.395, 57.12, 57.375), False, False, False)
DETECTRON = Layout((103.53, 116.28, 123.675), (1.0, 1.0, 1.0), True, True, True)


class Norm(nn.Module):
    """Batch norm with fixed statistics."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.get_buffer("weight") * (self.get_buffer("running_var") + 1e-5).rsqrt()
        shift = self.get_buffer("bias") - self.get_buffer("running_mean") * scale
        return x * scale[:, None, None] + shift[:, None, None]


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3, 1 × 1 convolutions and a shortcut."""

    def __init__(self, c_in: int, c: int, stride: int, stride_in_first: bool) -> None:
        super().__init__()
        first, second = (stride, 1) if stride_in_first else (1, stride)
        self.conv1, self.bn1 = nn.Conv2d(c_in, c, 1, first, bias=False), Norm(c)
        self.conv2, self.bn2 = nn.Conv2d(c, c, 3, second, 1, bias=False), Norm(c)
        self.conv3, self.bn3 = nn.Conv2d(c, 4 * c, 1, bias=False), Norm(4 * c)
        changes = stride > 1 or c_in != 4 * c
        self.downsample = (
            nn.Sequential(nn.Conv2d(c_in, 4 * c, 1, stride, bias=False), Norm(4 * c)) if changes else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu_(self.bn1(self.conv1(x)))
        y = F.relu_(self.bn2(self.conv2(y)))
        return F.relu_(self.bn3(self.conv3(y)) + self.downsample(x))


class FasterRCNN(nn.Module):
    """Names follow torchvision, so that its files load as they are."""

    def __init__(self, depths: tuple[int, int, int, int], classes: int, fc: int, layout: Layout) -> None:
        super().__init__()
        self.layout, self.classes, self.dim = layout, classes, fc
        body = nn.ModuleDict({"conv1": nn.Conv2d(3, 64, 7, 2, 3, bias=False), "bn1": Norm(64)})
        c_in = 64
        for level, depth in enumerate(depths):
            c = 64 * 2**level
            blocks = []
            for i in range(depth):
                stride = 2 if i == 0 and level > 0 else 1
                blocks.append(Bottleneck(c_in, c, stride, layout.stride_in_first))
                c_in = 4 * c
            body[f"layer{level + 1}"] = nn.Sequential(*blocks)
        inner = nn.ModuleList(nn.ModuleList([nn.Conv2d(256 * 2**i, 256, 1)]) for i in range(4))
        outer = nn.ModuleList(nn.ModuleList([nn.Conv2d(256, 256, 3, padding=1)]) for _ in range(4))
        fpn = nn.ModuleDict({"inner_blocks": inner, "layer_blocks": outer})
        self.backbone = nn.ModuleDict({"body": body, "fpn": fpn})
        anchors = len(RATIOS)
        head = nn.ModuleDict(
            {
                "conv": nn.Sequential(nn.Sequential(nn.Conv2d(256, 256, 3, padding=1))),
                "cls_logits": nn.Conv2d(256, anchors, 1),
                "bbox_pred": nn.Conv2d(256, 4 * anchors, 1),
            }
        )
        self.rpn = nn.ModuleDict({"head": head})
        self.roi_heads = nn.ModuleDict(
            {
                "box_head": nn.ModuleDict({"fc6": nn.Linear(256 * 49, fc), "fc7": nn.Linear(fc, fc)}),
                "box_predictor": nn.ModuleDict(
                    {
                        "cls_score": nn.Linear(fc, classes + 1),
                        "bbox_pred": nn.Linear(fc, 4 * (classes if layout.background_last else classes + 1)),
                    }
                ),
            }
        )

    def pyramid(self, x: torch.Tensor) -> list[torch.Tensor]:
        """[1, 3, H, W] → five maps [1, 256, H / stride, W / stride]."""
        body: Any = self.backbone["body"]
        fpn: Any = self.backbone["fpn"]
        x = F.max_pool2d(F.relu_(body["bn1"](body["conv1"](x))), 3, 2, 1)
        levels = []
        for i in range(4):
            x = body[f"layer{i + 1}"](x)
            levels.append(x)
        top = fpn["inner_blocks"][3][0](levels[3])
        maps = [fpn["layer_blocks"][3][0](top)]
        for i in (2, 1, 0):
            side = fpn["inner_blocks"][i][0](levels[i])
            top = side + F.interpolate(top, size=side.shape[-2:], mode="nearest")
            maps.insert(0, fpn["layer_blocks"][i][0](top))
        return [*maps, F.max_pool2d(maps[-1], 1, 2)]

    def proposals(self, maps: list[torch.Tensor], height: int, width: int) -> torch.Tensor:
        """Places that may hold an object: [n, 4]."""
        head: Any = self.rpn["head"]
        boxes, scores = [], []
        for level, feature in enumerate(maps):
            hidden = F.relu_(head["conv"](feature))
            score = head["cls_logits"](hidden)[0].permute(1, 2, 0).flatten()  # [h w A]
            delta = head["bbox_pred"](hidden)[0].permute(1, 2, 0).reshape(-1, 4)
            best = score.topk(min(1000, len(score))).indices
            anchors = level_anchors(feature.shape[-2:], STRIDES[level], ANCHORS[level]).to(feature)[best]
            found = clip(decode(anchors, delta[best], (1.0, 1.0, 1.0, 1.0)), height, width)
            kept = suppress(found, score[best], 0.7, PROPOSALS)
            boxes.append(found[kept])
            scores.append(score[best][kept])
        every = torch.cat(boxes)
        return every[torch.cat(scores).argsort(descending=True, stable=True)[:PROPOSALS]]

    def fc7(self, maps: list[torch.Tensor], boxes: torch.Tensor) -> torch.Tensor:
        """Boxes [n, 4] → [n, dim]; a box is read from the level that fits its size."""
        side = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).clamp(min=1).sqrt()
        levels = (4 + torch.log2(side / 224 + 1e-6)).floor().clamp(2, 5).long() - 2
        pooled = maps[0].new_zeros(len(boxes), 256, 7, 7)
        for level in range(4):
            chosen = levels == level
            if chosen.any():
                pooled[chosen] = roi_align(maps[level][0], boxes[chosen], 1 / STRIDES[level], 7)
        head: Any = self.roi_heads["box_head"]
        return F.relu(head["fc7"](F.relu(head["fc6"](pooled.flatten(1)))))

    def forward(self, x: torch.Tensor, count: int) -> torch.Tensor:
        """One frame, colours 0 … 255, [1, 3, H, W] → fc7 [≤ count, dim] of its best objects."""
        height, width = x.shape[-2:]
        maps = self.pyramid(self._normal(x))
        proposals = self.proposals(maps, height, width)
        features = self.fc7(maps, proposals)
        predictor: Any = self.roi_heads["box_predictor"]
        scores = predictor["cls_score"](features).softmax(1)
        scores = scores[:, :-1] if self.layout.background_last else scores[:, 1:]  # [n, classes]
        best, label = scores.max(1)
        delta = predictor["bbox_pred"](features).unflatten(1, (-1, 4))  # [n, classes (+ 1), 4]
        delta = delta[torch.arange(len(delta)), label if self.layout.background_last else label + 1]
        boxes = clip(decode(proposals, delta, (10.0, 10.0, 5.0, 5.0)), height, width)
        return features[suppress(boxes, best, 0.5, count)]

    def _normal(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flip(1) if self.layout.blue_first else x
        mean, std = x.new_tensor(self.layout.mean), x.new_tensor(self.layout.std)
        return (x - mean[:, None, None]) / std[:, None, None]

    @classmethod
    def load(cls, path: Path) -> FasterRCNN:
        """Weights in either layout, with names and shapes checked."""
        found = load_file(path)
        layout = DETECTRON if any(name.startswith("backbone.bottom_up.") for name in found) else TORCHVISION
        state = {torchvision_name(name): value for name, value in found.items()}
        try:
            classes = len(state["roi_heads.box_predictor.cls_score.bias"]) - 1
            fc = len(state["roi_heads.box_head.fc7.bias"])
        except KeyError as error:
            raise FewcapError(
                f"{path}: not weights of Faster R-CNN with a feature pyramid ({error} is missing)."
            ) from None
        network = cls(_depths(state), classes, fc, layout).eval()
        for name, parameter in network.state_dict().items():
            if name not in state or state[name].shape != parameter.shape:
                has = list(state[name].shape) if name in state else "nothing"
                raise FewcapError(f"{path}: '{name}' should have shape {list(parameter.shape)}, the file has {has}.")
        network.load_state_dict({name: state[name].float() for name in network.state_dict()})
        return network.requires_grad_(False)


def level_anchors(shape: tuple[int, ...] | torch.Size, stride: int, size: int) -> torch.Tensor:
    """Anchors of all places of a level, row by row: [h w A, 4]."""
    height, width = shape
    sides = [(size / ratio**0.5, size * ratio**0.5) for ratio in RATIOS]  # width, height: equal areas
    base = torch.tensor([[-w / 2, -h / 2, w / 2, h / 2] for w, h in sides])  # [A, 4]
    y, x = torch.meshgrid(torch.arange(height) * stride, torch.arange(width) * stride, indexing="ij")
    places = torch.stack([x, y, x, y], dim=-1).reshape(-1, 1, 4).float()
    return (places + base).reshape(-1, 4)


def torchvision_name(name: str) -> str:
    """``backbone.bottom_up.res2.0.conv1.norm.weight`` (Detectron2) → ``backbone.body.layer1.0.bn1.weight``."""
    name = re.sub(r"^rpn\.head\.conv\.(weight|bias)$", r"rpn.head.conv.0.0.\1", name)  # torchvision before 0.13
    name = re.sub(r"^(backbone\.fpn\.(?:inner|layer)_blocks\.\d)\.(weight|bias)$", r"\1.0.\2", name)
    if name.startswith("backbone.bottom_up.stem.conv1."):
        rest = name.removeprefix("backbone.bottom_up.stem.conv1.")
        return f"backbone.body.{rest.replace('norm.', 'bn1.') if rest.startswith('norm.') else 'conv1.' + rest}"
    if found := re.match(r"backbone\.bottom_up\.res(\d)\.(\d+)\.(conv(\d)|shortcut)\.(norm\.)?(\w+)$", name):
        level, block, part, number, norm, tensor = found.groups()
        prefix = f"backbone.body.layer{int(level) - 1}.{block}"
        if part == "shortcut":
            return f"{prefix}.downsample.{1 if norm else 0}.{tensor}"
        return f"{prefix}.{'bn' if norm else 'conv'}{number}.{tensor}"
    if found := re.match(r"backbone\.fpn_(lateral|output)(\d)\.(\w+)$", name):
        kind, level, tensor = found.groups()
        return f"backbone.fpn.{'inner' if kind == 'lateral' else 'layer'}_blocks.{int(level) - 2}.0.{tensor}"
    renamed = {
        "proposal_generator.rpn_head.conv.": "rpn.head.conv.0.0.",
        "proposal_generator.rpn_head.objectness_logits.": "rpn.head.cls_logits.",
        "proposal_generator.rpn_head.anchor_deltas.": "rpn.head.bbox_pred.",
        "roi_heads.box_head.fc1.": "roi_heads.box_head.fc6.",
        "roi_heads.box_head.fc2.": "roi_heads.box_head.fc7.",
    }
    for old, new in renamed.items():
        name = name.replace(old, new)
    return name


def _depths(state: Mapping[str, torch.Tensor]) -> tuple[int, int, int, int]:
    """Blocks in each level: 3, 4, 6, 3 for ResNet-50, 3, 4, 23, 3 for ResNet-101."""
    counts = [0, 0, 0, 0]
    for name in state:
        if found := re.match(r"backbone\.body\.layer(\d)\.(\d+)\.", name):
            level = int(found[1]) - 1
            counts[level] = max(counts[level], int(found[2]) + 1)
    return counts[0], counts[1], counts[2], counts[3]


class Backbone:
    """The best objects of the middle frame of each clip, clips not overlapping."""

    def __init__(self, network: FasterRCNN, weights_hash: str, per_frame: int, device: torch.device) -> None:
        self.card = Card(
            name="faster_rcnn",
            kind="objects",
            dim=network.dim,
            view=View(SHORT, LONG, keep_shape=True),
            licence="of the weight file",
            source="local file",
            weights=weights_hash,
        )
        self._network, self._per_frame, self._device = network.to(device), per_frame, device

    @torch.inference_mode()
    def __call__(self, sample: Sample, maps: torch.Tensor) -> torch.Tensor:
        return torch.cat([self._objects(frame) for frame in sample.object_frames])

    def _objects(self, frame: np.ndarray) -> torch.Tensor:
        x = torch.from_numpy(frame).to(self._device).permute(2, 0, 1)[None].float()
        return self._network(x, self._per_frame).cpu()


def load(path: str | None, per_frame: int, device: torch.device) -> Backbone:
    """From a local file."""
    network = FasterRCNN.load(weights.resolve("faster_rcnn", path))
    return Backbone(network, weights.source_hash("faster_rcnn", path), per_frame, device)
