"""Where a synthetic clip takes place: a meadow, a beach, a room, a street at night, and the wall to hide behind."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from fewcap.data.scene import GROUND, Place
from fewcap.data.sprites import INK, RGB, mix

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

_OVERSAMPLING = 2
WALL_WIDTH, WALL_TOP = 0.36, 0.36  # wide and high enough for the largest actor
_HORIZON = GROUND - 0.13


def backdrop(place: Place, size: tuple[int, int], margin: tuple[int, int], decor: int) -> Image:
    """The place seen with ``margin`` more pixels on each side, for the camera to drift over."""
    from PIL import Image, ImageDraw

    width, height = (n + 2 * m for n, m in zip(size, margin, strict=True))
    picture = Image.new("RGB", (width * _OVERSAMPLING, height * _OVERSAMPLING))
    canvas = Canvas(ImageDraw.Draw(picture), size, margin)
    _PAINT[place](canvas, random.Random(decor))
    return picture.resize((width, height), Image.Resampling.BOX)


def wall(size: tuple[int, int]) -> Image:
    """A brick wall as high as the frame from ``WALL_TOP`` down to the ground."""
    from PIL import Image, ImageDraw

    width, height = round(size[0] * WALL_WIDTH), round(size[1] * (GROUND + 0.03 - WALL_TOP))
    scale = _OVERSAMPLING
    picture = Image.new("RGB", (width * scale, height * scale), (120, 72, 58))
    draw = ImageDraw.Draw(picture)
    rows = 7
    brick_height, brick_width = height * scale / rows, width * scale / 3.5
    for row in range(rows):
        for column in range(-1, 4):
            x = (column + (row % 2) * 0.5) * brick_width
            tint = mix((186, 104, 78), (206, 130, 98), ((row * 5 + column * 3) % 4) / 3)
            draw.rectangle(
                (x + 2, row * brick_height + 2, x + brick_width - 3, (row + 1) * brick_height - 3), fill=tint
            )
    draw.rectangle((0, 0, width * scale - 1, height * scale - 1), outline=INK, width=2 * scale)
    return picture.resize((width, height), Image.Resampling.BOX)


class Canvas:
    """Paints in fractions of the frame; the margin lies outside 0 to 1."""

    def __init__(self, draw: ImageDraw, size: tuple[int, int], margin: tuple[int, int]) -> None:
        self.draw = draw
        self.size = size
        self.margin = margin

    def at(self, x: float, y: float) -> tuple[float, float]:
        return (
            (x * self.size[0] + self.margin[0]) * _OVERSAMPLING,
            (y * self.size[1] + self.margin[1]) * _OVERSAMPLING,
        )

    def band(self, y0: float, y1: float, top: RGB, bottom: RGB) -> None:
        steps = 24
        for step in range(steps):
            begin, end = (y0 + (y1 - y0) * (step + n) / steps for n in (0, 1))
            self.draw.rectangle((self.at(-1, begin), self.at(2, end)), fill=mix(top, bottom, step / (steps - 1)))

    def disc(self, x: float, y: float, r: float, fill: RGB) -> None:
        centre = self.at(x, y)
        radius = r * self.size[1] * _OVERSAMPLING
        self.draw.ellipse((centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius), fill=fill)

    def rectangle(self, x0: float, y0: float, x1: float, y1: float, fill: RGB) -> None:
        self.draw.rectangle((self.at(x0, y0), self.at(x1, y1)), fill=fill)

    def polygon(self, points: list[tuple[float, float]], fill: RGB) -> None:
        self.draw.polygon([self.at(*point) for point in points], fill=fill)


def _clouds(canvas: Canvas, dice: random.Random) -> None:
    for _ in range(dice.randint(2, 3)):
        x, y = dice.uniform(0, 1), dice.uniform(0.06, 0.26)
        for dx, r in ((-0.06, 0.035), (0.0, 0.055), (0.06, 0.04)):
            canvas.disc(x + dx, y, r, (250, 252, 255))


def _meadow(canvas: Canvas, dice: random.Random) -> None:
    canvas.band(-0.3, _HORIZON, (150, 205, 245), (216, 238, 250))
    _clouds(canvas, dice)
    for x in (dice.uniform(0.0, 0.3), dice.uniform(0.7, 1.0)):
        canvas.disc(x, _HORIZON + 0.16, 0.3, (150, 200, 120))
    tree = dice.uniform(0.1, 0.9)
    canvas.rectangle(tree - 0.012, _HORIZON - 0.2, tree + 0.012, _HORIZON, (130, 94, 62))
    canvas.disc(tree, _HORIZON - 0.25, 0.1, (104, 164, 92))
    canvas.band(_HORIZON, 1.3, (158, 208, 110), (122, 180, 84))
    for _ in range(40):
        x, y = dice.uniform(-0.1, 1.1), dice.uniform(_HORIZON + 0.03, 1.1)
        canvas.polygon([(x, y), (x + 0.004, y - 0.03), (x + 0.008, y)], (96, 156, 66))
    for _ in range(12):
        canvas.disc(
            dice.uniform(0, 1),
            dice.uniform(_HORIZON + 0.05, 1.0),
            0.01,
            dice.choice([(255, 250, 240), (250, 220, 230)]),
        )


def _beach(canvas: Canvas, dice: random.Random) -> None:
    canvas.band(-0.3, 0.5, (120, 200, 240), (222, 242, 250))
    _clouds(canvas, dice)
    canvas.disc(dice.uniform(0.15, 0.85), 0.14, 0.07, (255, 240, 170))
    canvas.band(0.5, _HORIZON, (34, 138, 178), (92, 194, 208))
    for _ in range(14):
        x, y = dice.uniform(-0.1, 1.1), dice.uniform(0.53, _HORIZON - 0.03)
        canvas.rectangle(x, y, x + 0.07, y + 0.006, (190, 232, 236))
    canvas.band(_HORIZON, 1.3, (244, 222, 170), (228, 196, 134))
    canvas.rectangle(-1, _HORIZON - 0.008, 2, _HORIZON + 0.008, (250, 250, 246))
    for _ in range(50):
        canvas.disc(dice.uniform(-0.1, 1.1), dice.uniform(_HORIZON + 0.04, 1.1), 0.005, (206, 172, 112))


def _room(canvas: Canvas, dice: random.Random) -> None:
    canvas.band(-0.3, _HORIZON, (238, 226, 214), (226, 208, 194))
    for x in range(-2, 14):
        canvas.rectangle(x / 10, -0.3, x / 10 + 0.008, _HORIZON, (218, 200, 186))
    window = dice.choice((0.12, 0.6))
    canvas.rectangle(window, 0.1, window + 0.26, 0.44, (250, 250, 248))
    canvas.rectangle(window + 0.02, 0.13, window + 0.24, 0.41, (170, 212, 240))
    canvas.rectangle(window + 0.12, 0.13, window + 0.135, 0.41, (250, 250, 248))
    picture = 0.72 - window
    canvas.rectangle(picture, 0.16, picture + 0.16, 0.38, (120, 84, 56))
    canvas.rectangle(picture + 0.015, 0.18, picture + 0.145, 0.36, (226, 216, 180))
    canvas.band(_HORIZON, 1.3, (176, 124, 82), (142, 96, 62))
    for y in (0.78, 0.87, 0.98):
        canvas.rectangle(-1, y, 2, y + 0.006, (118, 78, 50))
    canvas.rectangle(-1, _HORIZON - 0.025, 2, _HORIZON, (250, 246, 238))


def _night(canvas: Canvas, dice: random.Random) -> None:
    canvas.band(-0.3, _HORIZON, (18, 22, 54), (62, 58, 108))
    for _ in range(40):
        canvas.disc(dice.uniform(-0.1, 1.1), dice.uniform(-0.1, 0.5), dice.choice((0.004, 0.007)), (235, 235, 250))
    moon = dice.uniform(0.15, 0.85)
    canvas.disc(moon, 0.16, 0.08, (250, 244, 214))
    canvas.disc(moon + 0.025, 0.145, 0.07, (27, 29, 66))
    x = -0.1
    while x < 1.1:
        width, top = dice.uniform(0.1, 0.18), dice.uniform(0.34, 0.56)
        canvas.rectangle(x, top, x + width, _HORIZON, (30, 32, 58))
        for row in range(int((_HORIZON - top) / 0.08)):
            for column in range(3):
                if dice.random() < 0.5:
                    left, up = x + width * (0.18 + 0.26 * column), top + 0.03 + 0.08 * row
                    canvas.rectangle(left, up, left + width * 0.13, up + 0.035, (240, 208, 120))
        x += width + 0.01
    canvas.band(_HORIZON, 1.3, (92, 94, 112), (70, 72, 90))
    for step in range(-1, 6):
        canvas.rectangle(step * 0.24, 0.93, step * 0.24 + 0.12, 0.945, (222, 218, 190))


_PAINT: dict[Place, Callable[[Canvas, random.Random], None]] = {
    "meadow": _meadow,
    "beach": _beach,
    "room": _room,
    "night": _night,
}
