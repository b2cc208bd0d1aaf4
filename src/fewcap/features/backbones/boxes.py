"""Boxes: decoding, overlap, suppression and pooling, in plain torch. A box is (x1, y1, x2, y2) in pixels."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F


def decode(anchors: torch.Tensor, deltas: torch.Tensor, weights: tuple[float, float, float, float]) -> torch.Tensor:
    """Anchors [n, 4] moved and scaled by the network's deltas [n, 4] → boxes [n, 4]."""
    width, height = anchors[:, 2] - anchors[:, 0], anchors[:, 3] - anchors[:, 1]
    x, y = anchors[:, 0] + width / 2, anchors[:, 1] + height / 2
    dx, dy, dw, dh = (deltas / deltas.new_tensor(weights)).unbind(1)
    limit = math.log(1000.0 / 16)  # a network that is wrong must not give infinite boxes
    x, y = x + dx * width, y + dy * height
    width, height = width * dw.clamp(max=limit).exp(), height * dh.clamp(max=limit).exp()
    return torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], dim=1)


def clip(boxes: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Boxes [n, 4] inside the picture."""
    limits = boxes.new_tensor([width, height, width, height])
    return boxes.clamp(min=0).minimum(limits)


def overlap(box: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Intersection over union of one box [4] with others [n, 4]."""
    x1, y1 = torch.maximum(box[0], others[:, 0]), torch.maximum(box[1], others[:, 1])
    x2, y2 = torch.minimum(box[2], others[:, 2]), torch.minimum(box[3], others[:, 3])
    shared = (x2 - x1).clamp(min=0) * (y2 - y1).clamp(min=0)
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    return shared / ((box[2] - box[0]) * (box[3] - box[1]) + areas - shared).clamp(min=1e-9)


def suppress(boxes: torch.Tensor, scores: torch.Tensor, threshold: float, limit: int) -> list[int]:
    """Which boxes to keep, best first: those that overlap a better one by more than ``threshold`` go."""
    order = scores.argsort(descending=True, stable=True)
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        best = order[0]
        kept.append(int(best))
        rest = order[1:]
        order = rest[overlap(boxes[best], boxes[rest]) <= threshold]
    return kept


def roi_align(feature: torch.Tensor, boxes: torch.Tensor, scale: float, size: int) -> torch.Tensor:
    """Bilinear samples, 2 × 2 in each of size × size cells: map [c, h, w] and boxes [n, 4] → [n, c, size, size]."""
    height, width = feature.shape[1:]
    x1, y1, x2, y2 = (boxes * scale).unbind(1)
    steps = (torch.arange(2 * size, device=boxes.device, dtype=boxes.dtype) + 0.5) / (2 * size)  # [2 size]
    x = x1[:, None] + (x2 - x1).clamp(min=1)[:, None] * steps  # [n, 2 size]
    y = y1[:, None] + (y2 - y1).clamp(min=1)[:, None] * steps
    x, y = x.clamp(0, width - 1), y.clamp(0, height - 1)
    grid = torch.stack(
        [
            (2 * x / max(width - 1, 1) - 1)[:, None, :].expand(-1, 2 * size, -1),
            (2 * y / max(height - 1, 1) - 1)[:, :, None].expand(-1, -1, 2 * size),
        ],
        dim=-1,
    )  # [n, 2 size, 2 size, 2]
    rows = grid.reshape(1, -1, 2 * size, 2)  # one tall picture: the map need not be copied for every box
    samples = F.grid_sample(feature[None], rows, mode="bilinear", align_corners=True)[0]
    samples = samples.unflatten(1, (len(boxes), 2 * size)).transpose(0, 1)  # [n, c, 2 size, 2 size]
    return F.avg_pool2d(samples, 2)
