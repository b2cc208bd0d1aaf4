"""The actors' pictures: drawn four times too large and reduced, so that edges are smooth."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fewcap.data.scene import Actor, Colour, Kind

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

RGB = tuple[int, int, int]
FILL: dict[Colour, RGB] = {
    "red": (222, 52, 48),
    "blue": (44, 104, 222),
    "green": (30, 138, 70),
    "yellow": (250, 205, 40),
    "purple": (146, 62, 182),
    "white": (245, 245, 242),
}
INK: RGB = (38, 36, 44)
GLASS: RGB = (196, 226, 240)
_OVERSAMPLING = 4
_MARGIN = 0.06  # room for outlines around the unit square


def sprite(actor: Actor, pixels: int) -> Image:
    """The actor looking to the right on a transparent square with sides of ``pixels`` and a small margin."""
    from PIL import Image, ImageDraw

    side = pixels * _OVERSAMPLING
    picture = Image.new("RGBA", (side, side), (*FILL[actor.colour], 0))
    pen = Pen(ImageDraw.Draw(picture), side, FILL[actor.colour])
    _DRAW[actor.kind](pen)
    return picture.resize((pixels, pixels), Image.Resampling.LANCZOS)


class Pen:
    """Draws outlined shapes in coordinates from 0 to 1, x to the right and y downwards."""

    def __init__(self, draw: ImageDraw, side: int, fill: RGB) -> None:
        self.draw = draw
        self.side = side
        self.fill = fill
        self.dark = mix(fill, INK, 0.35)
        # Stripes and sides must be seen on a white actor too.
        self.light = mix(fill, (255, 255, 255), 0.5) if min(fill) < 200 else (176, 178, 188)
        self.line = max(2, round(side * 0.022))

    def at(self, *numbers: float) -> list[float]:
        inner = self.side * (1 - 2 * _MARGIN)
        return [self.side * _MARGIN + number * inner for number in numbers]

    def ellipse(self, x0: float, y0: float, x1: float, y1: float, fill: RGB, *, ink: bool = True) -> None:
        self.draw.ellipse(self.at(x0, y0, x1, y1), fill=fill, outline=INK if ink else None, width=self.line)

    def box(
        self, x0: float, y0: float, x1: float, y1: float, fill: RGB, *, round_by: float = 0.03, ink: bool = True
    ) -> None:
        self.draw.rounded_rectangle(
            self.at(x0, y0, x1, y1), self.side * round_by, fill=fill, outline=INK if ink else None, width=self.line
        )

    def shape(self, points: list[tuple[float, float]], fill: RGB) -> None:
        corners = [tuple(self.at(*point)) for point in points]
        self.draw.polygon(corners, fill=fill)
        self.draw.line([*corners, corners[0], corners[1]], fill=INK, width=self.line, joint="curve")

    def stroke(self, points: list[tuple[float, float]], fill: RGB = INK, width: float = 1.0) -> None:
        corners = [tuple(self.at(*point)) for point in points]
        self.draw.line(corners, fill=fill, width=round(self.line * width), joint="curve")

    def eye(self, x: float, y: float, r: float = 0.05) -> None:
        self.ellipse(x - r, y - r, x + r, y + r, (255, 255, 255))
        self.ellipse(x, y - r * 0.45, x + r * 0.8, y + r * 0.45, INK, ink=False)


def mix(a: RGB, b: RGB, share: float) -> RGB:
    """``share`` of colour b in colour a."""
    r, g, b_ = (round(x * (1 - share) + y * share) for x, y in zip(a, b, strict=True))
    return r, g, b_


def _ball(pen: Pen) -> None:
    pen.ellipse(0, 0, 1, 1, pen.fill)
    # A stripe shows that a ball turns.
    pen.stroke([(0.5, 0.02), (0.42, 0.25), (0.4, 0.5), (0.42, 0.75), (0.5, 0.98)], pen.light, 3.4)
    pen.stroke([(0.02, 0.5), (0.25, 0.56), (0.5, 0.58), (0.75, 0.56), (0.98, 0.5)], pen.light, 3.4)
    pen.ellipse(0, 0, 1, 1, None)  # type: ignore[arg-type]
    pen.ellipse(0.62, 0.14, 0.8, 0.3, (255, 255, 255), ink=False)


def _box(pen: Pen) -> None:
    pen.shape([(0.0, 0.25), (0.22, 0.0), (1.0, 0.0), (0.78, 0.25)], pen.light)
    pen.shape([(0.78, 0.25), (1.0, 0.0), (1.0, 0.75), (0.78, 1.0)], pen.dark)
    pen.shape([(0.0, 0.25), (0.78, 0.25), (0.78, 1.0), (0.0, 1.0)], pen.fill)
    pen.stroke([(0.31, 0.25), (0.31, 1.0)], pen.dark, 1.2)
    pen.stroke([(0.47, 0.25), (0.47, 1.0)], pen.dark, 1.2)
    pen.stroke([(0.31, 0.25), (0.53, 0.0)], pen.dark, 1.2)
    pen.stroke([(0.47, 0.25), (0.69, 0.0)], pen.dark, 1.2)


def _robot(pen: Pen) -> None:
    pen.stroke([(0.5, 0.12), (0.5, 0.02)], width=1.6)
    pen.ellipse(0.45, 0.0, 0.55, 0.08, pen.light)
    pen.box(0.28, 0.86, 0.44, 1.0, pen.dark)
    pen.box(0.56, 0.86, 0.72, 1.0, pen.dark)
    pen.box(0.33, 0.76, 0.41, 0.9, (150, 152, 160), round_by=0.01)
    pen.box(0.59, 0.76, 0.67, 0.9, (150, 152, 160), round_by=0.01)
    pen.box(0.06, 0.46, 0.22, 0.74, (150, 152, 160))
    pen.box(0.78, 0.46, 0.94, 0.74, (150, 152, 160))
    pen.box(0.2, 0.43, 0.8, 0.8, pen.fill, round_by=0.06)
    pen.box(0.33, 0.53, 0.67, 0.7, GLASS)
    pen.stroke([(0.37, 0.62), (0.44, 0.62), (0.48, 0.56), (0.53, 0.67), (0.57, 0.62), (0.63, 0.62)], pen.dark)
    pen.box(0.24, 0.1, 0.76, 0.42, pen.fill, round_by=0.06)
    pen.box(0.31, 0.17, 0.73, 0.31, GLASS)
    pen.ellipse(0.4, 0.19, 0.49, 0.29, INK, ink=False)
    pen.ellipse(0.58, 0.19, 0.67, 0.29, INK, ink=False)


def _cat(pen: Pen) -> None:
    pen.stroke([(0.12, 0.72), (0.03, 0.58), (0.05, 0.38), (0.14, 0.3)], width=4.6)
    pen.stroke([(0.12, 0.72), (0.03, 0.58), (0.05, 0.38), (0.14, 0.3)], pen.fill, 2.6)
    for x in (0.14, 0.3, 0.52, 0.66):
        pen.box(x, 0.7, x + 0.11, 1.0, pen.dark if x in (0.3, 0.66) else pen.fill, round_by=0.05)
    pen.ellipse(0.08, 0.48, 0.78, 0.88, pen.fill)
    for x in (0.26, 0.38, 0.5):
        pen.stroke([(x, 0.51), (x + 0.02, 0.64)], pen.dark, 2.0)
    pen.shape([(0.52, 0.26), (0.54, 0.0), (0.7, 0.14)], pen.fill)
    pen.shape([(0.8, 0.14), (0.95, 0.0), (0.98, 0.26)], pen.fill)
    pen.ellipse(0.48, 0.1, 1.0, 0.6, pen.fill)
    pen.eye(0.66, 0.31, 0.06)
    pen.eye(0.86, 0.31, 0.06)
    pen.shape([(0.75, 0.41), (0.81, 0.41), (0.78, 0.45)], (240, 140, 150))
    for y in (0.44, 0.5):
        pen.stroke([(0.5, y - 0.02), (0.68, y)], width=0.6)
        pen.stroke([(0.88, y), (1.02, y - 0.02)], width=0.6)


def _fish(pen: Pen) -> None:
    pen.shape([(0.26, 0.5), (0.0, 0.2), (0.06, 0.5), (0.0, 0.8)], pen.dark)
    pen.shape([(0.42, 0.28), (0.52, 0.06), (0.72, 0.26)], pen.dark)
    pen.shape([(0.48, 0.74), (0.5, 0.94), (0.66, 0.76)], pen.dark)
    pen.ellipse(0.16, 0.2, 1.0, 0.8, pen.fill)
    for x in (0.34, 0.46, 0.58):
        pen.draw.arc(pen.at(x - 0.1, 0.34, x + 0.1, 0.66), -70, 70, fill=pen.dark, width=pen.line)
    pen.eye(0.82, 0.42, 0.07)
    pen.stroke([(0.98, 0.56), (0.9, 0.6), (0.86, 0.58)], width=1.0)


def _car(pen: Pen) -> None:
    pen.shape([(0.2, 0.5), (0.3, 0.22), (0.68, 0.22), (0.82, 0.5)], pen.fill)
    pen.shape([(0.27, 0.5), (0.34, 0.29), (0.48, 0.29), (0.48, 0.5)], GLASS)
    pen.shape([(0.53, 0.5), (0.53, 0.29), (0.65, 0.29), (0.74, 0.5)], GLASS)
    pen.box(0.0, 0.48, 1.0, 0.82, pen.fill, round_by=0.08)
    pen.stroke([(0.03, 0.68), (0.97, 0.68)], pen.dark, 1.4)
    pen.ellipse(0.91, 0.53, 0.99, 0.63, (255, 244, 190))
    for x in (0.25, 0.75):
        pen.ellipse(x - 0.15, 0.7, x + 0.15, 1.0, INK)
        pen.ellipse(x - 0.07, 0.78, x + 0.07, 0.92, (190, 192, 198))
        pen.stroke([(x - 0.06, 0.85), (x + 0.06, 0.85)], width=1.0)


_DRAW: dict[Kind, Callable[[Pen], None]] = {
    "ball": _ball,
    "box": _box,
    "robot": _robot,
    "cat": _cat,
    "fish": _fish,
    "car": _car,
}
