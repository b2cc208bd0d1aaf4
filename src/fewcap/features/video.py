"""Reading a video once: the frames shown at given moments, for every backbone of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features.picture import WHOLE, Crop, Picture, Resizer, View
from fewcap.features.sampling import Plan, plan
from fewcap.features.sources import Source, open_source

Part = tuple[float | None, float | None]  # from and to, in seconds; None: from the beginning, to the end


@dataclass
class Sample:
    """What was seen of a video. Frames are uint8 arrays in the size that the backbones asked for."""

    frames: np.ndarray  # [n, H, W, 3], for appearance
    frame_times: list[float]
    clip_frames: np.ndarray | None = None  # [m, h, w, 3]: the distinct frames of all clips
    clips: list[list[int]] = field(default_factory=list)  # rows of clip_frames, a list a clip
    clip_spans: list[tuple[float, float]] = field(default_factory=list)  # seconds of first and last frame of each clip
    clip_frame_times: list[float] = field(default_factory=list)
    object_frames: list[np.ndarray] = field(default_factory=list)  # [H', W', 3] each, for a detector
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Views:
    """The picture sizes that the backbones of a run ask for; None: not wanted."""

    frames: View
    clips: View | None = None
    objects: View | None = None


def sample_video(
    path: Path, config: FeaturesConfig, views: Views, *, start: float | None = None, end: float | None = None
) -> Sample:
    """Decodes ``path`` (or its part from ``start`` to ``end`` seconds) once and keeps what ``views`` ask for."""
    with closing(open_source(path, config)) as source:
        return next(sample_parts(source, [(start, end)], config, views))


def sample_parts(
    source: Source, parts: Sequence[Part], config: FeaturesConfig, views: Views, crop: Crop = WHOLE
) -> Iterator[Sample]:
    """The same for several parts that follow one another, in one walk; the time limit holds for each."""
    plans = [_plan(source, part, config) for part in parts]
    part_of = {moment: number for number, moments in enumerate(plans) for moment in moments.moments}
    walk = groupby(source.shown(sorted(part_of)), lambda shown: part_of[shown[0]])
    found = next(walk, None)
    for number, moments in enumerate(plans):
        frames = found[1] if found is not None and found[0] == number else ()
        yield _collect(source, frames, moments, config, views, crop)
        source.watch.restart()  # the time until the next part is asked for does not count
        if frames:
            found = next(walk, None)


def _plan(source: Source, part: Part, config: FeaturesConfig) -> Plan:
    line, (start, end) = source.timeline, part
    first = line.start if start is None else max(line.start + start, line.start)
    last = line.end if end is None else min(line.start + end, line.end)
    if first >= line.end or last < first:
        raise FewcapError(f"{source.path}: has no part from {start} to {end} seconds, it lasts {line.seconds:.1f} s.")
    return plan(first, last, line.rate, config)


def _collect(
    source: Source,
    walk: Iterable[tuple[float, float, Picture]],
    moments: Plan,
    config: FeaturesConfig,
    views: Views,
    crop: Crop,
) -> Sample:
    """Sorts the frames of a walk by who asked for them."""
    origin = source.timeline.start
    frame_moments = set(moments.frames)
    clip_moments = {moment for clip in moments.clips for moment in clip} if views.clips is not None else set()
    every_other = moments.clips if config.clip_overlap == 0 else moments.clips[::2]  # clips without overlap
    middles = {clip[(len(clip) - 1) // 2] for clip in every_other} if views.objects is not None else set()

    frames: dict[float, np.ndarray] = {}  # by the time of the frame: a frame that is asked for twice counts once
    clip_frames: dict[float, np.ndarray] = {}
    objects: dict[float, np.ndarray] = {}
    resize = {view: Resizer(view, crop) for view in (views.frames, views.clips, views.objects) if view is not None}
    shown: dict[float, float] = {}  # moment -> time of the frame shown
    for moment, at, picture in walk:
        shown[moment] = at
        if moment in frame_moments and at not in frames:
            frames[at] = resize[views.frames].array(picture)
        if moment in clip_moments and at not in clip_frames and views.clips is not None:
            clip_frames[at] = resize[views.clips].array(picture)
        if moment in middles and at not in objects and views.objects is not None:
            objects[at] = resize[views.objects].array(picture)
    if not frames:
        raise FewcapError(f"{source.path}: no frame of it can be decoded{source.damage()}; replace the file.")

    row = {at: i for i, at in enumerate(clip_frames)}
    clips, spans = [], []
    for clip in moments.clips if views.clips is not None else ():
        times = list(dict.fromkeys(shown[moment] for moment in clip if moment in shown))
        rows = [row[at] for at in times]
        if len(rows) > 1 and rows not in clips:  # a single frame has no motion
            clips.append(rows)
            spans.append((round(times[0] - origin, 3), round(times[-1] - origin, 3)))
    return Sample(
        frames=np.stack(list(frames.values())),
        frame_times=[round(at - origin, 3) for at in frames],
        clip_frames=np.stack(list(clip_frames.values())) if clips else None,
        clips=clips,
        clip_spans=spans,
        clip_frame_times=[round(at - origin, 3) for at in clip_frames],
        object_frames=list(objects.values()),
        warnings=[f"{source.damaged} damaged packets or frames were skipped"] if source.damaged else [],
    )
