"""When to look at a video: evenly spaced frames, and clips of frames that overlap, as moments in seconds.

A moment stands for the frame that is shown then, so variable frame rates need no special case. Several moments may
fall on one frame of a slow or short video; that frame counts once and nothing is invented.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fewcap.core.config.features import FeaturesConfig
from fewcap.features.select import even_positions


@dataclass(frozen=True)
class Plan:
    """Moments to look at, in seconds."""

    frames: tuple[float, ...]
    clips: tuple[tuple[float, ...], ...]

    @property
    def moments(self) -> list[float]:
        """Every moment once, in order."""
        return sorted({*self.frames, *(moment for clip in self.clips for moment in clip)})


def plan(start: float, end: float, rate: float, config: FeaturesConfig) -> Plan:
    """The moments of the range ``start`` to ``end`` of a video that shows about ``rate`` frames a second."""
    length = max(end - start, 0.0)
    count = min(max(round(length * config.frame_rate), config.min_frames), config.max_frames)
    frames = tuple(start + (i + 0.5) * length / count for i in range(count))
    if config.motion is None and config.objects != "faster_rcnn":
        return Plan(frames, ())
    return Plan(frames, _clips(start, length, min(rate, config.clip_rate), config))


def _clips(start: float, length: float, rate: float, config: FeaturesConfig) -> tuple[tuple[float, ...], ...]:
    """Windows over a grid of ``rate`` moments a second; a shorter video is one window."""
    ticks = max(math.ceil(length * rate - 1e-3), 1)
    stride = config.clip_length - config.clip_overlap
    starts = list(range(0, max(ticks - config.clip_length, 0) + 1, stride))
    chosen = [starts[i] for i in even_positions(len(starts), config.max_clips)]
    return tuple(
        tuple(start + tick / rate for tick in range(first, min(first + config.clip_length, ticks))) for first in chosen
    )
