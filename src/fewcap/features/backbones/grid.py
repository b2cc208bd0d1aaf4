"""Objects without a detector: the most salient cells of the appearance network's map, with their positions."""

from __future__ import annotations

import torch

from fewcap.features.backbones.base import Card
from fewcap.features.select import even_positions
from fewcap.features.video import Sample

PLACE = 3  # x and y of the cell's middle (0 … 1 of the frame), time (0 … 1 of the video)


class Backbone:
    """Takes ``per_frame`` cells of as many evenly chosen frames as fit into ``limit``."""

    def __init__(self, appearance: Card, per_frame: int, limit: int) -> None:
        self._per_frame, self._limit = per_frame, limit
        self.card = Card(
            name="grid",
            kind="objects",
            dim=appearance.map_channels + PLACE,
            view=None,
            licence=appearance.licence,
            source=f"map of {appearance.name}",
            weights=appearance.hash,
        )

    def __call__(self, sample: Sample, maps: torch.Tensor) -> torch.Tensor:  # [n, c, h, w] → [N', c + 3]
        frames = even_positions(len(maps), max(self._limit // self._per_frame, 1))
        last = max(sample.frame_times[-1], 1e-6)
        rows = []
        for index in frames:
            cells = salient_cells(maps[index], self._per_frame)
            height, width = maps.shape[2:]
            for y, x in cells:
                place = maps.new_tensor([(x + 0.5) / width, (y + 0.5) / height, sample.frame_times[index] / last])
                rows.append(torch.cat([maps[index, :, y, x], place]))
        return torch.stack(rows[: self._limit])


def salient_cells(frame_map: torch.Tensor, count: int) -> list[tuple[int, int]]:
    """(y, x) of the cells that respond most in a map [c, h, w]; neighbours of a chosen one come last.

    A strong thing covers several cells: without that rule all objects of a frame would be the same thing.
    """
    _, height, width = frame_map.shape
    energy = frame_map.square().sum(0).tolist()  # [h, w]
    order = sorted(((y, x) for y in range(height) for x in range(width)), key=lambda cell: -energy[cell[0]][cell[1]])
    chosen: list[tuple[int, int]] = []
    for spacing in (1, 0):
        for y, x in order:
            if len(chosen) == count:
                return chosen
            if all(max(abs(y - v), abs(x - u)) > spacing for v, u in chosen):
                chosen.append((y, x))
    return chosen
