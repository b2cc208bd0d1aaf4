"""Images as video: a folder of images in the order of their names, one photograph, an animated WebP."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features.picture import Picture, too_large

_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")

Load = Callable[[int], Picture | None]  # None: an image that does not decode


def is_picture(path: Path) -> bool:
    """Whether a file is an image by its first bytes, whatever its name says."""
    try:
        with open(path, "rb") as handle:
            head = handle.read(12)
    except OSError:
        return False
    return head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"II*\0", b"MM\0*")) or (
        head[:4] == b"RIFF" and head[8:12] == b"WEBP"
    )


def open_pictures(path: Path, config: FeaturesConfig) -> tuple[list[float], Load]:
    """The times of all pictures, then the end of the last one, and a function that reads one of them.

    Images in a folder carry no times: they follow one another at ``clip_rate``, so that a clip is that many images.
    """
    if path.is_dir():
        names = sorted((entry for entry in path.iterdir() if entry.suffix.lower() in _SUFFIXES), key=_natural)
        if not names:
            raise FewcapError(f"{path}: has no images ({', '.join(sorted(_SUFFIXES))}); name a folder of images.")
        times = [i / config.clip_rate for i in range(len(names) + 1)]
        return times, lambda index: _load(names[index], 0, config)
    times = [0.0]
    for seconds in webp_durations(path) or [0.0]:
        times.append(times[-1] + (seconds if seconds > 0 else 1 / config.clip_rate))
    return times, lambda index: _load(path, index, config)


def webp_durations(path: Path) -> list[float]:
    """How long each frame of an animated WebP is shown, from its headers; nothing for any other image."""
    found = []
    with open(path, "rb") as handle:
        head = handle.read(12)
        while head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            chunk = handle.read(8)
            if len(chunk) < 8:
                break
            size = int.from_bytes(chunk[4:], "little")
            if chunk[:4] == b"ANMF":
                frame = handle.read(16)  # place and size 12, duration 3 (milliseconds), flags 1
                found.append(int.from_bytes(frame[12:15], "little") / 1000)
                size -= len(frame)
            handle.seek(max(size + size % 2, 0), 1)
    return found


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Sorts 2.jpg before 10.jpg."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", path.name) if part]


def _load(path: Path, index: int, config: FeaturesConfig) -> Picture | None:
    try:
        with Image.open(path, formats=_FORMATS) as image:
            if image.width * image.height > config.max_pixels:
                raise too_large(path, image.width, image.height, config.max_pixels)
            if index:
                image.seek(index)
            upright = ImageOps.exif_transpose(image)
            return Picture.of_array(np.asarray(upright.convert("RGB")))
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):
        return None
