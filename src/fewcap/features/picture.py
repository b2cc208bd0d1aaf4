"""One decoded picture, and the arrays that backbones ask for."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter

from fewcap.core.errors import FewcapError


@dataclass(frozen=True)
class View:
    """A size to bring pictures to: both sides, or only the shorter one with the shape kept."""

    width: int
    height: int
    keep_shape: bool = False  # width is then the shorter side and height the limit of the longer one


@dataclass(frozen=True)
class Crop:
    """A part of the upright picture, in shares of its width and height, and whether it is mirrored."""

    left: float
    top: float
    width: float
    height: float
    mirrored: bool

    @classmethod
    def drawn(cls, name: str) -> Crop:
        """A random part, a half to nearly all of the picture; the same for the same name."""
        random = np.random.default_rng(list(sha256(name.encode()).digest()))
        side, shape = random.uniform(0.55, 0.95) ** 0.5, np.exp(random.uniform(-0.2, 0.2))
        width, height = min(side * shape, 1.0), min(side / shape, 1.0)
        left, top = random.uniform(0, 1 - width), random.uniform(0, 1 - height)
        return cls(left, top, width, height, bool(random.random() < 0.5))


WHOLE = Crop(0.0, 0.0, 1.0, 1.0, mirrored=False)


@dataclass(frozen=True)
class Picture:
    """A frame in the decoder's own format, and how often it must be turned by 90° (counter-clockwise) to stand up."""

    frame: Any
    turns: int = 0

    @classmethod
    def of_frame(cls, frame: Any) -> Picture:
        """A decoded frame with the rotation that its file asks for."""
        return cls(frame, round((getattr(frame, "rotation", 0) or 0) / 90) % 4)

    @classmethod
    def of_array(cls, rgb: np.ndarray) -> Picture:
        """An image [H, W, 3] that is upright already."""
        return cls(av.VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24"))


class Resizer:
    """Brings the pictures of one video to one view; what ffmpeg prepares for a size is kept for the next picture."""

    def __init__(self, view: View, crop: Crop = WHOLE) -> None:
        self._view, self._crop = view, crop
        self._reformatter = VideoReformatter()

    def array(self, picture: Picture) -> np.ndarray:
        """The picture as uint8 [H, W, 3], upright, in the size of the view."""
        frame, turns = picture.frame, picture.turns
        upright = (frame.height, frame.width) if turns % 2 else (frame.width, frame.height)
        crop = self._crop
        size = self._size(upright[0] * crop.width, upright[1] * crop.height)
        width, height = round(size[0] / crop.width), round(size[1] / crop.height)  # of the whole picture
        left, top = min(round(crop.left * width), width - size[0]), min(round(crop.top * height), height - size[1])
        if turns % 2:
            width, height = height, width
        # Averaging over areas keeps small things visible when a large frame shrinks; growing needs a curve.
        shrinks = width < frame.width and height < frame.height
        resized = self._reformatter.reformat(
            frame,
            width=width,
            height=height,
            format="rgb24",
            interpolation=Interpolation.AREA if shrinks else Interpolation.BICUBIC,
            threads=1,
        )
        part = np.rot90(resized.to_ndarray(), turns)[top : top + size[1], left : left + size[0]]
        return np.ascontiguousarray(part[:, ::-1] if crop.mirrored else part)

    def _size(self, width: float, height: float) -> tuple[int, int]:
        if not self._view.keep_shape:
            return self._view.width, self._view.height
        scale = min(self._view.width / min(width, height), self._view.height / max(width, height))
        return max(round(width * scale), 1), max(round(height * scale), 1)


def too_large(path: Path, width: int, height: int, limit: int) -> FewcapError:
    """The sentence for a picture beyond the limit."""
    return FewcapError(
        f"{path}: has frames of {width}×{height} pixels, more than features.max_pixels {limit}; raise that limit if "
        "the file is right."
    )
