"""What a video file shows at given moments: a media file by PyAV, or images, behind one interface.

PyAV reads what ffmpeg reads. Damaged parts are skipped and counted. A file is foreign input: protocols and containers
are limited to plain media files, and pixels, duration and time to what the configuration allows.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import av

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features import stills
from fewcap.features.picture import Picture, too_large

_SCAN_BYTES = 64 * 2**20  # up to this size all packets are listed first, which gives exact times and keyframes
_BLIND_SEEK_SECONDS = 10.0  # without that list, jump over gaps at least this long
_TOLERANCE = 1e-3  # of timestamps, in seconds
# Media files only: playlists and scripts that ffmpeg also understands could open other files or the network.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif,apng,mpegts,mpeg,mpegvideo,flv,ogg,asf,h264,hevc,av1,obu,ivf,"
    "m4v,mjpeg,nut,rm,mxf,dv,wtv,yuv4mpegpipe,h263,vc1,swf,image2,jpeg_pipe,png_pipe,bmp_pipe,tiff_pipe,webp_pipe"
)


@dataclass(frozen=True)
class Timeline:
    """When a video begins and ends, in seconds of its own clock."""

    start: float
    end: float
    rate: float  # frames a second, on average
    keyframes: tuple[float, ...] | None  # None: not listed

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Watch:
    """The time that reading may take."""

    def __init__(self, path: Path, limit: float) -> None:
        self._path, self._limit = path, limit
        self.restart()

    def restart(self) -> None:
        self._started = time.monotonic()

    @property
    def spent(self) -> float:
        """The part of the time that is gone; above 1 nothing may be read any more."""
        return (time.monotonic() - self._started) / self._limit

    def check(self) -> None:
        if self.spent > 1:
            raise FewcapError(
                f"{self._path}: reading it takes more than {self._limit:g} s; raise features.time_limit or replace the "
                "file."
            )


Source: TypeAlias = "Pictures | Stream"


def open_source(path: Path, config: FeaturesConfig) -> Source:
    """A video, a folder of images or an image; to be closed by whoever opened it."""
    if path.is_dir():
        return Pictures(path, config)
    if path.is_file():
        if path.stat().st_size == 0:
            raise FewcapError(f"{path}: the file is empty; replace it.")
        return Pictures(path, config) if stills.is_picture(path) else Stream(path, config)
    if path.exists():  # a pipe would be waited for without end
        raise FewcapError(f"{path}: is neither a file nor a folder; save the video to a file first.")
    raise FewcapError(f"{path}: there is no such video file; correct its path in the data.")


class Pictures:
    """A folder of images, one image, or an animated WebP, as a video."""

    def __init__(self, path: Path, config: FeaturesConfig) -> None:
        self.path = path
        self.damaged = 0
        self.watch = Watch(path, config.time_limit)
        self._times, self._load = stills.open_pictures(path, config)
        end = self._times[-1]
        self.timeline = Timeline(0.0, end, (len(self._times) - 1) / end, None)
        if end > config.max_duration:
            raise _too_long(path, end, config)

    def shown(self, moments: Sequence[float]) -> Iterator[tuple[float, float, Picture]]:
        """For each moment the picture shown then; only those are read."""
        newest: int | None = None
        picture: Picture | None = None
        for moment in moments:
            index = min(max(bisect_right(self._times, moment + _TOLERANCE) - 1, 0), len(self._times) - 2)
            if index != newest:
                self.watch.check()
                newest, picture = index, self._load(index)
                self.damaged += picture is None
            if picture is not None:
                yield moment, self._times[index], picture

    def damage(self) -> str:
        return f" ({self.damaged} images are damaged)" if self.damaged else ""

    def close(self) -> None:
        pass


class Stream:
    """The video stream of a media file."""

    def __init__(self, path: Path, config: FeaturesConfig) -> None:
        self.path = path
        self.damaged = 0
        self.watch = Watch(path, config.time_limit)
        self._config = config
        self._container, self._stream = self._open()
        try:
            self.timeline = self._read_timeline()
            if self.timeline.seconds > config.max_duration:
                raise _too_long(path, self.timeline.seconds, config)
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

    def _read_timeline(self) -> Timeline:
        declared = self._stream.duration
        if self._stream.time_base is None:
            raise FewcapError(f"{self.path}: its video has no time base; replace the file.")
        tick = float(self._stream.time_base)
        if self.path.stat().st_size > _SCAN_BYTES and (declared or self._container.duration):
            start = (self._stream.start_time or 0) * tick
            length = declared * tick if declared else self._container.duration / 1e6
            return Timeline(start, start + length, float(self._stream.average_rate or 25), None)
        return self._scan(tick)

    def _scan(self, tick: float) -> Timeline:
        """Lists the packets, without decoding them: the real times of a file, whatever its header says."""
        times: list[float] = []
        keyframes: list[float] = []
        longest = 0.0
        count = 0
        try:
            for packet in self._container.demux(self._stream):
                self.watch.check()
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
            return Timeline(0.0, max(count, 1) / rate, rate, None)
        start, last = min(times), max(times)
        if len(times) > 1:
            longest = max(longest, last + (last - start) / (len(times) - 1))
        end = max(longest, last + _TOLERANCE)
        return Timeline(start, end, len(times) / (end - start), tuple(sorted(keyframes)))

    def _rewind(self) -> None:
        self._container.close()
        self._container, self._stream = self._open()

    @property
    def pixels(self) -> float:
        """About how many pixels the whole video has: what decoding it costs."""
        context, line = self._stream.codec_context, self.timeline
        return line.seconds * line.rate * context.width * context.height

    def walk(self, *, keyframes: bool) -> Iterator[tuple[float, Any]]:
        """Frames with their times from the beginning on: the keyframes, or all but those no other frame needs."""
        self._stream.codec_context.skip_frame = "NONKEY" if keyframes else "NONREF"
        return self._decode()

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
            self.watch.check()
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


def _too_long(path: Path, seconds: float, config: FeaturesConfig) -> FewcapError:
    return FewcapError(
        f"{path}: lasts {seconds:.0f} s, more than features.max_duration {config.max_duration:g}; raise that limit if "
        "the video is right."
    )


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0][:120]
