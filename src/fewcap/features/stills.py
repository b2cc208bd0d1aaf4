"""Images as video: a folder of images in the order of their names, one photograph, an animated WebP."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features.picture import Picture, too_large

_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF")

Frames = Callable[[], Iterator[Picture | None]]  # None: an image that does not decode


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


def open_pictures(path: Path, config: FeaturesConfig) -> tuple[list[float], Frames]:
    """The times of all pictures, then the end of the last one, and a reader of the pictures.

    Images in a folder carry no times: they follow one another at ``clip_rate``, so that a clip is that many images.
    """
    if path.is_dir():
        names = sorted((entry for entry in path.iterdir() if entry.suffix.lower() in _SUFFIXES), key=_natural)
        if not names:
            raise FewcapError(f"{path}: has no images ({', '.join(sorted(_SUFFIXES))}); name a folder of images.")
        return [i / config.clip_rate for i in range(len(names) + 1)], lambda: (_load(name, config) for name in names)
    durations = _durations(path, config)
    times = [0.0]
    for seconds in durations:
        times.append(times[-1] + seconds)
    return times, lambda: _animation(path, len(durations), config)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Sorts 2.jpg before 10.jpg."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", path.name) if part]


def _load(path: Path, config: FeaturesConfig) -> Picture | None:
    try:
        with Image.open(path, formats=_FORMATS) as image:
            return _picture(path, image, config)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _durations(path: Path, config: FeaturesConfig) -> list[float]:
    """How long each picture of a file is shown; a photograph is shown for one step."""
    try:
        with Image.open(path, formats=_FORMATS) as image:
            count = getattr(image, "n_frames", 1) if image.format == "WEBP" else 1
            if image.width * image.height > config.max_pixels:
                raise too_large(path, image.width, image.height, config.max_pixels)
            found = []
            for index in range(count):
                if count > 1:
                    image.seek(index)
                    image.load()
                shown = float(image.info.get("duration", 0)) / 1000
                found.append(shown if shown > 0 else 1 / config.clip_rate)
            return found
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise FewcapError(f"{path}: not an image that can be read ({error}); replace the file.") from None


def _animation(path: Path, count: int, config: FeaturesConfig) -> Iterator[Picture | None]:
    try:
        with Image.open(path, formats=_FORMATS) as image:
            for index in range(count):
                if count > 1:
                    image.seek(index)
                yield _picture(path, image, config)
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):
        yield None


def _picture(path: Path, image: Image.Image, config: FeaturesConfig) -> Picture:
    if image.width * image.height > config.max_pixels:
        raise too_large(path, image.width, image.height, config.max_pixels)
    upright = ImageOps.exif_transpose(image)
    return Picture.of_array(np.asarray(upright.convert("RGB")))
