"""Charts as inline SVG: no script, no font and no colour of their own, so they follow the page's theme and print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape


@dataclass(frozen=True)
class Series:
    """A line; points without a value leave a gap."""

    name: str
    points: Sequence[tuple[float, float | None]]
    style: str  # a CSS class of the page: "line-a", "line-b", ...


@dataclass(frozen=True)
class Mark:
    """A score on a scale."""

    name: str
    value: float
    style: str
    low: float | None = None
    high: float | None = None


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers that cover low to high."""
    span = (high - low) or 1.0
    raw = span / about
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    return [round(step * place, 10) for place in range(first, last + 1)]


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    best: float | None = None,
    best_label: str = "",
    whole_numbers: bool = True,
    legend: bool = False,
) -> Markup:
    """Lines over a common x axis; ``best`` marks one x, ``legend`` puts title and names of the lines above."""
    width, height, left, right, top, bottom = 460, 250, 46, 14, 16, 40
    if legend:
        top += 18 * (len(series) + 1)
        height += 18 * (len(series) + 1)
    points = [(x, y) for one in series for x, y in one.points if y is not None]
    if not points:
        return Markup("")
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    x_high = x_high if x_high > x_low else x_low + 1
    y_ticks = ticks(min(y for _, y in points), max(y for _, y in points))
    y_low, y_high = y_ticks[0], y_ticks[-1]

    def across(x: float) -> float:
        return left + (x - x_low) / (x_high - x_low) * (width - left - right)

    def down(y: float) -> float:
        return top + (y_high - y) / (y_high - y_low) * (height - top - bottom)

    parts = [f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">']
    for y in y_ticks:
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{down(y):.1f}" y2="{down(y):.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 7}" y="{down(y) + 4:.1f}" text-anchor="end">{number(y)}</text>')
    for x in (t for t in ticks(x_low, x_high, 6) if x_low <= t <= x_high and (not whole_numbers or t == int(t))):
        label = (
            f'<text class="tick" x="{across(x):.1f}" y="{height - bottom + 18}" text-anchor="middle">{number(x)}</text>'
        )
        parts.append(label)
    parts.append(
        f'<text class="axis" x="{(left + width - right) / 2:.0f}" y="{height - 5}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
    )
    if best is not None:
        x = across(best)
        side = "end" if best > (x_low + x_high) / 2 else "start"
        shift = -6 if side == "end" else 6
        parts.append(f'<line class="best" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - bottom}"/>')
        parts.append(
            f'<text class="tick" x="{x + shift:.1f}" y="{height - bottom - 8}" text-anchor="{side}">'
            f"{escape(best_label)}</text>"
        )
    if legend:
        parts.append(f'<text class="axis" x="{left}" y="16">{escape(title)}</text>')
    for place, one in enumerate(series, start=1):
        if legend:
            parts.append(f'<circle class="{one.style}" cx="{left + 5}" cy="{12 + 18 * place}" r="4"/>')
            parts.append(f'<text class="tick" x="{left + 16}" y="{16 + 18 * place}">{escape(one.name)}</text>')
        for run in _runs(one.points):
            path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in run)
            parts.append(f'<polyline class="{one.style}" points="{path}"/>')
            for x, y in run:
                about = escape(f"{one.name}, {x_label} {number(x)}: {y:.4g}")
                parts.append(
                    f'<circle class="{one.style}" cx="{across(x):.1f}" cy="{down(y):.1f}" r="2.6">'
                    f"<title>{about}</title></circle>"
                )
    return Markup("".join(parts) + "</svg>")


def scale_chart(title: str, marks: Sequence[Mark], *, named: bool = False) -> Markup:
    """Scores below each other on one horizontal scale; ``named`` adds the title and the name of every score."""
    width, left, right, lane, top = (640, 250, 16, 17, 24) if named else (460, 12, 16, 17, 6)
    bottom = top + 4 + lane * len(marks)
    height = bottom + 20
    low = 0.0
    high = max([mark.high if mark.high is not None else mark.value for mark in marks] + [1.0])
    steps = ticks(low, high, 5)
    high = steps[-1]

    def across(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - right)

    parts = [f'<svg class="chart scale" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">']
    if named:
        parts.append(f'<text class="axis" x="{left}" y="15">{escape(title)}</text>')
    for step in steps:
        parts.append(f'<line class="grid" x1="{across(step):.1f}" x2="{across(step):.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(
            f'<text class="tick" x="{across(step):.1f}" y="{bottom + 16}" text-anchor="middle">{number(step)}</text>'
        )
    for number_of_mark, mark in enumerate(marks):
        line = top + lane * (number_of_mark + 0.5)
        about = escape(f"{mark.name}: {mark.value:.1f}")
        if named:
            place = f'x="{left - 14}" y="{line + 4:.1f}"'
            parts.append(f'<text class="tick" {place} text-anchor="end">{escape(mark.name)}</text>')
        if mark.low is not None and mark.high is not None:
            about = escape(f"{mark.name}: {mark.value:.1f} ({mark.low:.1f} to {mark.high:.1f})")
            parts.append(
                f'<line class="interval {mark.style}" x1="{across(mark.low):.1f}" x2="{across(mark.high):.1f}" '
                f'y1="{line:.1f}" y2="{line:.1f}"/>'
            )
        parts.append(
            f'<circle class="{mark.style}" cx="{across(mark.value):.1f}" cy="{line:.1f}" r="5.5">'
            f"<title>{about}</title></circle>"
        )
    return Markup("".join(parts) + "</svg>")


def number(value: float) -> str:
    """As short as it can be read."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:.4g}"


def _runs(points: Sequence[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if y is None:
            runs.append([])
        else:
            runs[-1].append((x, y))
    return [run for run in runs if run]
