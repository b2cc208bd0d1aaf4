"""Small media files for tests: a white square that moves over a background, frame by frame."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from fewcap.core.config.features import FeaturesConfig

DENSE = FeaturesConfig(frame_rate=2, min_frames=8, max_frames=20)  # more frames than by default, to have some to count


def picture(index: int, width: int = 64, height: int = 48) -> np.ndarray:
    """Frame ``index`` [H, W, 3]: its brightness tells its number, and a square moves to the right."""
    frame = np.full((height, width, 3), 20 + 4 * (index % 50), dtype=np.uint8)
    side = min(width, height) // 4
    x = (2 * index) % max(width - side, 1)
    frame[:side, x : x + side] = (250, 40, 40)
    return frame


def number_of(frame: np.ndarray) -> int:
    """The number of a frame that went through a codec, by the brightness of its lower half."""
    return round((float(frame[frame.shape[0] // 2 :].mean()) - 20) / 4)


def write_video(
    path: Path,
    *,
    frames: int = 24,
    rate: int = 8,
    width: int = 64,
    height: int = 48,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    times: Sequence[float] | None = None,
    gop: int = 12,
    format: str | None = None,
    options: dict[str, str] | None = None,
) -> Path:
    """Encodes ``frames`` pictures; ``times`` in seconds make the frame rate vary."""
    with av.open(str(path), "w", format=format) as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.width, stream.height, stream.pix_fmt = width, height, pix_fmt
        stream.codec_context.gop_size = gop
        stream.codec_context.time_base = Fraction(1, 1000)
        for index in range(frames):
            frame = av.VideoFrame.from_ndarray(picture(index, width, height), format="rgb24").reformat(format=pix_fmt)
            frame.time_base = Fraction(1, 1000)
            frame.pts = round(1000 * (times[index] if times is not None else index / rate))
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def rotated(path: Path, target: Path) -> Path:
    """The MP4 file with a matrix in its header that turns the picture by 90 degrees."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 4
    one = 1 << 16
    # version 0: flags 4, times 8, track 4, reserved 4, duration 4, reserved 8, layer to reserved 8
    struct.pack_into(">9i", content, at + 40, 0, one, 0, -one, 0, 0, 0, 0, 1 << 30)
    target.write_bytes(content)
    return target
