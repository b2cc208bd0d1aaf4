"""A cheap view of motion that needs no weights: what changes in the appearance maps, and coarse optical flow.

For a clip: the mean absolute difference of successive appearance maps (what appears, disappears or moves, a number a
channel), and statistics of the flow between its frames. Shapes: P pairs of successive frames, G × G cells.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch.nn import functional as F

from fewcap.features.backbones.base import Card
from fewcap.features.picture import View
from fewcap.features.video import Sample

SIZE = 64  # pixels of a frame
CELLS = 8  # G: flow is solved in cells of 8 pixels
BINS = 8  # directions
_PARTS = 4  # statistics are kept for 4 × 4 parts of the frame
FLOW_DIM = 4 + 2 * _PARTS**2 + 4 * BINS + 2 * _PARTS**2


class Backbone:
    """[N_clip, c + flow statistics] for an appearance network with c channels in its map."""

    def __init__(self, appearance: Card) -> None:
        self._channels = appearance.map_channels
        self.card = Card(
            name="changes",
            kind="motion",
            dim=self._channels + FLOW_DIM,
            view=View(SIZE, SIZE),
            licence="Apache-2.0",
            source=f"fewcap, on the map of {appearance.name}",
            weights=appearance.hash,
        )

    def __call__(self, sample: Sample, maps: torch.Tensor) -> torch.Tensor:
        if sample.clip_frames is None:
            return torch.zeros(0, self.card.dim)
        gray = torch.from_numpy(sample.clip_frames).float().mean(-1) / 255  # [m, SIZE, SIZE]
        times = torch.tensor(sample.clip_frame_times)
        seconds = (times[1:] - times[:-1]).clamp_min(1e-3)  # [m - 1]
        flow = coarse_flow(gray[:-1], gray[1:]) / SIZE / seconds[:, None, None, None]  # frame widths a second
        change = (gray[1:] - gray[:-1]).abs()  # [m - 1, SIZE, SIZE]
        steps = map_steps(maps)  # [n - 1, c]
        rows = []
        for clip, span in zip(sample.clips, sample.clip_spans, strict=True):
            pairs = [row for row, after in pairwise(clip) if after == row + 1]
            near = steps_of(sample.frame_times, span)
            appearance = steps[near].mean(0) if near else steps.new_zeros(self._channels)
            rows.append(torch.cat([appearance, flow_statistics(flow[pairs], change[pairs])]))
        return torch.stack(rows)


def map_steps(maps: torch.Tensor) -> torch.Tensor:
    """Maps [n, c, h, w] → mean absolute difference to the next one, [n - 1, c]."""
    return (maps[1:] - maps[:-1]).abs().mean((2, 3))


def steps_of(times: list[float], span: tuple[float, float]) -> list[int]:
    """Which steps between frames at ``times`` overlap a clip; at least the nearest one when there is any."""
    steps = list(pairwise(times))
    inside = [i for i, (before, after) in enumerate(steps) if before < span[1] and after > span[0]]
    if inside or not steps:
        return inside
    middle = (span[0] + span[1]) / 2
    return [min(range(len(steps)), key=lambda i: abs(sum(steps[i]) / 2 - middle))]


def coarse_flow(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """Lucas-Kanade on three scales: gray frames [P, SIZE, SIZE] twice → pixels moved (x, y) in cells [P, 2, G, G]."""
    pairs = len(before)
    flow = before.new_zeros(pairs, 2, CELLS, CELLS)
    for scale in (4, 2, 1):
        a = F.avg_pool2d(before[:, None], scale)  # [P, 1, S, S]
        b = F.avg_pool2d(after[:, None], scale)
        size = a.shape[-1]
        dense = F.interpolate(flow, size=(size, size), mode="bilinear", align_corners=False)  # fractions of SIZE pixels
        b = _moved(b, dense / scale)
        mean = F.pad((a + b) / 2, (1, 1, 1, 1), mode="replicate")
        dx = (mean[:, :, 1:-1, 2:] - mean[:, :, 1:-1, :-2]) / 2
        dy = (mean[:, :, 2:, 1:-1] - mean[:, :, :-2, 1:-1]) / 2
        dt = b - a
        cell = size // CELLS
        window = 2 * cell if cell % 2 == 0 else 3 * cell  # each cell looks at its neighbours too

        def total(x: torch.Tensor, window: int = window, cell: int = cell) -> torch.Tensor:
            return F.avg_pool2d(x, window, cell, padding=(window - cell) // 2, count_include_pad=False)

        xx, yy, xy = total(dx * dx) + 1e-3, total(dy * dy) + 1e-3, total(dx * dy)
        xt, yt = total(dx * dt), total(dy * dt)
        determinant = xx * yy - xy * xy
        u = (xy * yt - yy * xt) / determinant
        v = (xy * xt - xx * yt) / determinant
        flow = flow + scale * torch.cat([u, v], dim=1).clamp(-2, 2)
    return flow


def _moved(image: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
    """image [P, 1, S, S] looked up at each pixel plus its flow [P, 2, S, S] in pixels."""
    size = image.shape[-1]
    line = torch.arange(size, dtype=image.dtype)
    y, x = torch.meshgrid(line, line, indexing="ij")
    at = torch.stack([x + flow[:, 0], y + flow[:, 1]], dim=-1)  # [P, S, S, 2]
    return F.grid_sample(image, (2 * at + 1) / size - 1, mode="bilinear", padding_mode="border", align_corners=False)


def flow_statistics(flow: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """flow [P, 2, G, G] and changes of brightness [P, SIZE, SIZE] of a clip → [FLOW_DIM]."""
    if len(flow) == 0:
        return torch.zeros(FLOW_DIM)
    camera = flow.flatten(2).median(-1).values  # [P, 2]: what the whole picture does
    own = flow - camera[:, :, None, None]  # what moves inside it
    speed = own.norm(dim=1)  # [P, G, G]
    parts = F.adaptive_avg_pool2d(speed, _PARTS).flatten(1)  # [P, 16]
    bright = F.adaptive_avg_pool2d(change, _PARTS).flatten(1)  # [P, 16]
    return torch.cat(
        [
            camera.mean(0),
            camera.abs().mean(0),
            parts.mean(0),
            parts.std(0, correction=0),
            _directions(own).flatten(),
            bright.mean(0),
            bright.std(0, correction=0),
        ]
    )


def _directions(flow: torch.Tensor) -> torch.Tensor:
    """How much moves in each direction, in the quarters of the frame: [P, 2, G, G] → [4, BINS]."""
    angle = torch.atan2(flow[:, 1], flow[:, 0])  # [P, G, G]
    position = ((angle / (2 * math.pi)) % 1.0) * BINS
    low = position.floor().long() % BINS
    share = position - position.floor()
    speed = flow.norm(dim=1)
    votes = F.one_hot(low, BINS) * ((1 - share) * speed)[..., None]
    votes = votes + F.one_hot((low + 1) % BINS, BINS) * (share * speed)[..., None]  # [P, G, G, BINS]
    mean = votes.mean(0).permute(2, 0, 1)[None]  # [1, BINS, G, G]
    return F.adaptive_avg_pool2d(mean, 2)[0].flatten(1).T  # [4, BINS]
