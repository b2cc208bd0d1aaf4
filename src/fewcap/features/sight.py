"""Whether there is anything to see in the frames of a video."""

from __future__ import annotations

from typing import Literal

import numpy as np

Sight = Literal["black", "white", "plain", "noise"]

_CELL = 8  # pixels; means of such cells show things but no noise
_PLAIN = 3.0  # spread of the cells of a frame, of 255 steps, below which it shows nothing
_DARK, _BRIGHT = 32, 224
_SPECKLED = 20.0  # spread of the pixels of noise
_SMOOTH = 0.55  # spread of cells / spread of pixels: at least 0.65 in what a camera sees; small print has less ...
_ALIKE = 0.3  # ... but stays, while the frames of noise have nothing to do with one another


def sight(frames: np.ndarray) -> Sight | None:
    """One colour or noise, if all frames [n, H, W, 3] show nothing else; None when there are things to see."""
    grey = frames[..., 1].astype(np.float32)  # [n, H, W]; green is near enough to brightness
    n, height, width = grey.shape
    rows, columns = height // _CELL, width // _CELL
    cells = grey[:, : rows * _CELL, : columns * _CELL].reshape(n, rows, _CELL, columns, _CELL).mean((2, 4))
    fine, coarse = grey.std((1, 2)), cells.std((1, 2))  # [n]
    if (coarse < _PLAIN).all() and (fine < _SPECKLED).all():
        brightness = float(cells.mean())
        return "black" if brightness < _DARK else "white" if brightness > _BRIGHT else "plain"
    rough = (fine > _SPECKLED).all() and (coarse < _SMOOTH * fine).all()
    return "noise" if rough and n > 1 and _kinship(grey).max() < _ALIKE else None


def _kinship(grey: np.ndarray) -> np.ndarray:
    """[n, H, W] → correlation of each frame with the next [n - 1]."""
    standard = (grey - grey.mean((1, 2), keepdims=True)) / grey.std((1, 2), keepdims=True)
    return (standard[1:] * standard[:-1]).mean((1, 2))
