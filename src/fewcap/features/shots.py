"""Cutting a long video at its shot changes.

Small pictures of a walk over the video are compared with one another. A shot change is a difference that lasts (a
flash does not), that is large, and that stands out from the movement around it (a pan or a fade does not). A video of
very many pixels is judged by its keyframes alone, which encoders set at shot changes anyway: two hours then take
seconds to minutes, and a change is found at the keyframe after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fewcap.features.picture import Picture, Resizer, View
from fewcap.features.sources import Source, Stream

SHORTEST, LONGEST = 2.0, 30.0  # seconds of a piece

_VIEW = View(32, 24)
_CELLS = 8  # the layout is compared in 8×8 cells
_LAYOUT = _CELLS * _CELLS * 3  # numbers of a print that tell it
_RATE = 8.0  # pictures a second
_MOST_PIXELS = 3e10  # decoded for this; about half a minute of one core
_SPENT = 0.5  # of the time limit; what has not been seen by then is cut evenly
_NEIGHBOURS = 8  # pictures to each side that tell how much is moving
_LEAST = 0.10  # difference of a change, of at most 1
_LEAST_OF_KEYFRAMES = 0.12  # seconds lie between them, in which much may move
_STANDS_OUT = 3.0  # times the difference around it
_DENSE = 20.0  # seconds between keyframes that let several processes read parts of one file


@dataclass(frozen=True)
class Pieces:
    """A video's parts in seconds, from shot change to shot change."""

    spans: tuple[tuple[float, float], ...]
    seekable: bool  # reading may begin anywhere, so the parts can be shared out


def cut(source: Source) -> Pieces:
    """Pieces of ``SHORTEST`` to ``LONGEST`` seconds that cover a video."""
    seconds = source.timeline.seconds
    if not isinstance(source, Stream):  # images know no keyframes and are read one by one
        return Pieces(pieces(seconds, {}), True)
    keyframes_only = source.pixels > _MOST_PIXELS
    seen = _look(source, keyframes_only)
    changes = shot_changes(np.array(seen.prints), keyframes_only)
    if seen.complete and seen.times:  # a header may promise more than the file holds
        gaps = np.diff([0.0, *seen.times])
        seconds = min(seconds, max(seen.times[-1] + 2 * float(gaps.max()) + 1, SHORTEST))
    found = {seen.times[place]: strength for place, strength in changes.items()}
    gap = float(max(np.diff([0.0, *seen.keyframes, seconds])))
    return Pieces(pieces(seconds, found), gap <= _DENSE)


def pieces(seconds: float, changes: dict[float, float]) -> tuple[tuple[float, float], ...]:
    """Parts between shot changes (time → strength): the stronger of two too close counts, long shots are divided."""
    bounds = [0.0, seconds]
    for at in sorted(changes, key=lambda at: -changes[at]):
        if all(abs(at - bound) >= SHORTEST for bound in bounds):
            bounds.append(at)
    bounds.sort()
    spans: list[tuple[float, float]] = []
    for start, end in pairwise(bounds):
        count = max(math.ceil((end - start) / LONGEST - 1e-6), 1)
        inner = [round(start + i * (end - start) / count, 3) for i in range(count + 1)]
        spans += pairwise(inner)
    return tuple(spans)


def shot_changes(prints: np.ndarray, keyframes_only: bool = False) -> dict[int, float]:
    """Numbers of the pictures that begin a shot, each with its strength from 0 to 1; prints [n, d] of the pictures."""
    if len(prints) < 2:
        return {}

    def difference(step: int) -> np.ndarray:
        """[n]: of each picture to the one ``step`` before it; to the first one where there is none."""
        before = np.maximum(np.arange(len(prints)) - step, 0)
        apart = np.abs(prints.astype(np.int16) - prints[before])
        return (apart[:, :_LAYOUT].mean(1) + apart[:, _LAYOUT:].mean(1)) / 2 / 255

    one, two = difference(1), difference(2)
    after = np.append(two[1:], one[-1])  # of the picture after each one to the picture before it
    lasting = np.minimum(one, np.minimum(two, after))  # a flash differs from the picture before it, and so does its end
    if keyframes_only:
        return {i: float(lasting[i]) for i in range(1, len(lasting)) if lasting[i] > _LEAST_OF_KEYFRAMES}
    found = {}
    for i in range(1, len(lasting)):
        around = [one[j] for j in range(max(i - _NEIGHBOURS, 1), min(i + _NEIGHBOURS + 1, len(one))) if j != i]
        movement = float(np.median(around)) if around else 0.0
        beside = max(one[i - 1] if i > 1 else 0.0, one[i + 1] if i + 1 < len(one) else 0.0)
        if lasting[i] > max(_LEAST, _STANDS_OUT * movement) and lasting[i] >= beside:
            found[i] = float(lasting[i])
    return found


@dataclass
class _Seen:
    times: list[float]
    prints: list[np.ndarray]
    keyframes: list[float]
    complete: bool


def _look(source: Stream, keyframes_only: bool) -> _Seen:
    """Prints of at most ``_RATE`` pictures a second: 14 megabytes an hour."""
    seen = _Seen([], [], [], False)
    resizer = Resizer(_VIEW)
    for at, frame in _until_late(source, keyframes_only):
        if frame.key_frame:
            seen.keyframes.append(at)
        if not seen.times or at - seen.times[-1] >= 1 / _RATE - 1e-3:
            seen.times.append(at)
            seen.prints.append(_print(resizer.array(Picture.of_frame(frame))))
    seen.complete = source.watch.spent <= _SPENT
    return seen


def _until_late(source: Stream, keyframes_only: bool) -> Iterator[tuple[float, Any]]:
    for at, frame in source.walk(keyframes=keyframes_only):
        if source.watch.spent > _SPENT:
            return
        yield at - source.timeline.start, frame


def _print(picture: np.ndarray) -> np.ndarray:
    """[H, W, 3] → bytes [d]: means of cells, in which noise and small movement vanish, and each colour's spread."""
    height, width, _ = picture.shape
    cells = picture.reshape(_CELLS, height // _CELLS, _CELLS, width // _CELLS, 3).mean((1, 3))
    colours = np.sort(picture.reshape(-1, 3), axis=0)[::8]
    return np.concatenate([cells.round().astype(np.uint8).ravel(), colours.ravel()])
