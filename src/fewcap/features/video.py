"""Reading a video once: the frames shown at given moments, for every backbone of a run.

PyAV reads what ffmpeg reads. Damaged parts are skipped and counted; only what decodes is returned. A file is foreign
input: protocols and containers are limited to plain media files, and pixels, duration and time to what the
configuration allows.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features import stills
from fewcap.features.picture import Picture, Resizer, View, too_large
from fewcap.features.sampling import Plan, plan

log = logging.getLogger("fewcap.features")

_SCAN_BYTES = 64 * 2**20  # up to this size all packets are listed first, which gives exact times and keyframes
_BLIND_SEEK_SECONDS = 10.0  # without that list, jump over gaps at least this long
_TOLERANCE = 1e-3  # of timestamps, in seconds
# Media files only: playlists and scripts that ffmpeg also understands could open other files or the network.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif,apng,mpegts,mpeg,mpegvideo,flv,ogg,asf,h264,hevc,av1,obu,ivf,"
    "m4v,mjpeg,nut,rm,mxf,dv,wtv,yuv4mpegpipe,h263,vc1,swf,image2,jpeg_pipe,png_pipe,bmp_pipe,tiff_pipe,webp_pipe"
)


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


@dataclass(frozen=True)
class _Timeline:
    start: float
    end: float
    rate: float  # frames a second, on average
    keyframes: tuple[float, ...] | None  # None: not listed


def sample_video(
    path: Path, config: FeaturesConfig, views: Views, *, start: float | None = None, end: float | None = None
) -> Sample:
    """Decodes ``path`` (or its part from ``start`` to ``end`` seconds) once and keeps what ``views`` ask for."""
    deadline = time.monotonic() + config.time_limit
    if path.is_dir() or stills.is_picture(path):
        source: _Pictures | _Stream = _Pictures(path, config, deadline)
    elif path.exists():
        source = _Stream(path, config, deadline)
    else:
        raise FewcapError(f"{path}: there is no such video file; correct its path in the data.")
    with closing(source):
        line = source.timeline
        first = line.start if start is None else max(line.start + start, line.start)
        last = line.end if end is None else min(line.start + end, line.end)
        if first >= line.end or last < first:
            raise FewcapError(
                f"{path}: has no part from {start} to {end} seconds, it lasts {line.end - line.start:.1f} s."
            )
        moments = plan(first, last, line.rate, config)
        return _collect(source, line.start, moments, config, views)


def _collect(source: _Pictures | _Stream, origin: float, moments: Plan, config: FeaturesConfig, views: Views) -> Sample:
    """Walks over the moments once and sorts the frames by who asked for them."""
    frame_moments = set(moments.frames)
    clip_moments = {moment for clip in moments.clips for moment in clip} if views.clips is not None else set()
    every_other = moments.clips if config.clip_overlap == 0 else moments.clips[::2]  # clips without overlap
    middles = {clip[(len(clip) - 1) // 2] for clip in every_other} if views.objects is not None else set()

    frames: dict[float, np.ndarray] = {}  # by the time of the frame: a frame that is asked for twice counts once
    clip_frames: dict[float, np.ndarray] = {}
    objects: dict[float, np.ndarray] = {}
    resize = {view: Resizer(view) for view in (views.frames, views.clips, views.objects) if view is not None}
    shown: dict[float, float] = {}  # moment -> time of the frame shown
    for moment, at, picture in source.shown(moments.moments):
        shown[moment] = at
        if moment in frame_moments and at not in frames:
            frames[at] = resize[views.frames].array(picture)
        if moment in clip_moments and at not in clip_frames and views.clips is not None:
            clip_frames[at] = resize[views.clips].array(picture)
        if moment in middles and at not in objects and views.objects is not None:
            objects[at] = resize[views.objects].array(picture)
    if not frames:
        raise FewcapError(f"{source.path}: no frame of it can be decoded{source.damage()}; replace the file.")
    if source.damaged:
        source.warnings.append(f"{source.damaged} damaged packets or frames were skipped")

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
        warnings=source.warnings,
    )


class _Pictures:
    """A folder of images, one image, or an animated WebP, as a video."""

    def __init__(self, path: Path, config: FeaturesConfig, deadline: float) -> None:
        self.path = path
        self.damaged = 0
        self.warnings: list[str] = []
        self._config, self._deadline = config, deadline
        self._times, self._load = stills.open_pictures(path, config)
        end = self._times[-1]
        self.timeline = _Timeline(0.0, end, (len(self._times) - 1) / end, None)
        if end > config.max_duration:
            raise _too_long(path, end, config)

    def shown(self, moments: Sequence[float]) -> Iterator[tuple[float, float, Picture]]:
        """For each moment the picture shown then; only those are read."""
        newest: int | None = None
        picture: Picture | None = None
        for moment in moments:
            index = min(max(bisect_right(self._times, moment + _TOLERANCE) - 1, 0), len(self._times) - 2)
            if index != newest:
                _check_time(self.path, self._deadline, self._config)
                newest, picture = index, self._load(index)
                self.damaged += picture is None
            if picture is not None:
                yield moment, self._times[index], picture

    def damage(self) -> str:
        return f" ({self.damaged} images are damaged)" if self.damaged else ""

    def close(self) -> None:
        pass


class _Stream:
    """The video stream of a media file."""

    def __init__(self, path: Path, config: FeaturesConfig, deadline: float) -> None:
        self.path = path
        self.damaged = 0
        self.warnings: list[str] = []
        self._config = config
        self._deadline = deadline
        self._container, self._stream = self._open()
        try:
            self.timeline = self._read_timeline()
            if self.timeline.end - self.timeline.start > config.max_duration:
                raise _too_long(path, self.timeline.end - self.timeline.start, config)
        except BaseException:
            self.close()
            raise

    def _open(self) -> tuple[Any, Any]:
        try:
            container = av.open(
                str(self.path),
                metadata_errors="ignore",
                container_options={"protocol_whitelist": "file", "format_whitelist": _CONTAINERS},
            )
        except (av.error.FFmpegError, ValueError, OSError) as error:
            raise FewcapError(
                f"{self.path}: not a video that can be read ({_reason(error)}); replace the file."
            ) from None
        if not container.streams.video:
            container.close()
            raise FewcapError(f"{self.path}: has no video stream; replace the file.")
        stream = container.streams.video[0]
        context = stream.codec_context
        if context is None:
            container.close()
            raise FewcapError(f"{self.path}: its video is in an unknown format; convert it to H.264, for example.")
        if context.width * context.height > self._config.max_pixels:
            container.close()
            raise too_large(self.path, context.width, context.height, self._config.max_pixels)
        context.thread_count = 1  # workers use the cores; frame threads would multiply memory
        context.options = {"max_pixels": str(self._config.max_pixels)}
        return container, stream

    def _read_timeline(self) -> _Timeline:
        declared = self._stream.duration
        if self._stream.time_base is None:
            raise FewcapError(f"{self.path}: its video has no time base; replace the file.")
        tick = float(self._stream.time_base)
        if self.path.stat().st_size > _SCAN_BYTES and (declared or self._container.duration):
            start = (self._stream.start_time or 0) * tick
            length = declared * tick if declared else self._container.duration / 1e6
            return _Timeline(start, start + length, float(self._stream.average_rate or 25), None)
        return self._scan(tick)

    def _scan(self, tick: float) -> _Timeline:
        """Lists the packets, without decoding them: the real times of a file, whatever its header says."""
        times: list[float] = []
        keyframes: list[float] = []
        longest = 0.0
        count = 0
        try:
            for packet in self._container.demux(self._stream):
                _check_time(self.path, self._deadline, self._config)
                if packet.size == 0:
                    continue
                count += 1
                stamp = packet.pts if packet.pts is not None else packet.dts
                if stamp is None:
                    continue
                times.append(stamp * tick)
                longest = max(longest, times[-1] + (packet.duration or 0) * tick)
                if packet.is_keyframe:
                    keyframes.append(times[-1])
        except (av.error.FFmpegError, ValueError, OSError):
            self.damaged += 1
        self._rewind()
        rate = float(self._stream.average_rate or self._stream.base_rate or 25)
        if len(times) < count / 2 or not times:  # a raw stream: frames are counted instead
            return _Timeline(0.0, max(count, 1) / rate, rate, None)
        start, last = min(times), max(times)
        if len(times) > 1:
            longest = max(longest, last + (last - start) / (len(times) - 1))
        end = max(longest, last + _TOLERANCE)
        return _Timeline(start, end, len(times) / (end - start), tuple(sorted(keyframes)))

    def _rewind(self) -> None:
        self._container.close()
        self._container, self._stream = self._open()

    def shown(self, moments: Sequence[float]) -> Iterator[tuple[float, float, Picture]]:
        """For each moment, in order, the time and picture of the frame that is shown then."""
        waiting = list(reversed(moments))
        before: tuple[float, Any] | None = None
        position, blocked = self.timeline.start, -1.0
        frames = self._decode()
        while waiting:
            if before is not None and waiting[-1] > blocked and self._worth_jumping(position, waiting[-1]):
                blocked = waiting[-1]  # one jump a moment: a container that jumps badly is then read in order
                if self._jump(waiting[-1]):
                    frames, before = self._decode(), None
            found = next(frames, None)
            if found is None:
                break
            at = found[0]
            while waiting and waiting[-1] < at - _TOLERANCE:
                shown_at, shown = before or found
                yield waiting.pop(), shown_at, Picture.of_frame(shown)
            before, position = found, at
        while waiting and before is not None:
            yield waiting.pop(), before[0], Picture.of_frame(before[1])

    def _worth_jumping(self, position: float, moment: float) -> bool:
        keyframes = self.timeline.keyframes
        if keyframes is None:
            return moment - position > _BLIND_SEEK_SECONDS
        # A second of frames is decoded sooner than a jump is made.
        return any(position + 1.0 < keyframe <= moment for keyframe in keyframes)

    def _jump(self, moment: float) -> bool:
        try:
            self._container.seek(int(moment / float(self._stream.time_base)), stream=self._stream, backward=True)
        except (av.error.FFmpegError, ValueError, OverflowError, OSError):
            return False
        return True

    def _decode(self) -> Iterator[tuple[float, Any]]:
        """Frames in order with their times; what does not decode is counted and skipped."""
        tick = float(self._stream.time_base)
        newest: float | None = None
        packets = self._container.demux(self._stream)
        while True:
            _check_time(self.path, self._deadline, self._config)
            try:
                packet = next(packets)
            except StopIteration:
                return
            except (av.error.FFmpegError, ValueError, OSError):
                self.damaged += 1
                return
            try:
                frames = packet.decode()
            except (av.error.FFmpegError, ValueError, OSError):
                self.damaged += 1
                continue
            for frame in frames:
                if frame.is_corrupt:
                    self.damaged += 1
                    continue
                if frame.width * frame.height > self._config.max_pixels:
                    raise too_large(self.path, frame.width, frame.height, self._config.max_pixels)
                if frame.pts is not None:
                    at = frame.pts * tick
                else:
                    at = self.timeline.start if newest is None else newest + 1 / self.timeline.rate
                newest = at if newest is None else max(at, newest)  # broken clocks never run backwards
                yield newest, frame

    def damage(self) -> str:
        return f" ({self.damaged} damaged packets or frames)" if self.damaged else ""

    def close(self) -> None:
        self._container.close()


def _check_time(path: Path, deadline: float, config: FeaturesConfig) -> None:
    if time.monotonic() > deadline:
        raise FewcapError(
            f"{path}: reading it takes more than {config.time_limit:g} s; raise features.time_limit or replace the "
            "file."
        )


def _too_long(path: Path, seconds: float, config: FeaturesConfig) -> FewcapError:
    return FewcapError(
        f"{path}: lasts {seconds:.0f} s, more than features.max_duration {config.max_duration:g}; raise that limit if "
        "the video is right."
    )


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0][:120]
