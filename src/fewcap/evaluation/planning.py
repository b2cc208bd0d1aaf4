"""Which cells fit into a number of minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fewcap.evaluation.cells import Cell


@dataclass(frozen=True)
class Plan:
    """Cells in the order in which they run, and those for which there is no time."""

    chosen: list[Cell]
    left_out: list[Cell]
    minutes: dict[str, float | None]  # cell key -> estimate, None before anything was measured

    def sentences(self) -> list[str]:
        """The plan in words."""
        known = [self.minutes[cell.key] for cell in self.chosen]
        total = sum(minutes for minutes in known if minutes is not None)
        lines = [f"{len(self.chosen)} cells to run" + (f", about {total:.0f} min" if total else "")]
        if any(minutes is None for minutes in known):
            first = f"how long a cell takes is not known yet: {self.chosen[0].label} tells"
            return [first, f"{len(self.left_out)} cells wait for it"] if self.left_out else [*lines, first]
        for cell in self.left_out:
            minutes = self.minutes[cell.key]
            lines.append(f"left out: {cell.label}" + (f" (about {minutes:.0f} min)" if minutes is not None else ""))
        return lines


def plan(cells: Sequence[Cell], measured: Sequence[tuple[Cell, float]], budget: float | None) -> Plan:
    """Takes cells in their order as long as they fit into ``budget`` minutes (None: all of them).

    A cell is expected to take what measured ones took for their weight. While nothing is measured, one cell is taken
    to learn it.
    """
    rates = [seconds / cell.weight for cell, seconds in measured if seconds > 0]
    rate = median(rates) if rates else None
    minutes = {cell.key: rate * cell.weight / 60 if rate is not None else None for cell in cells}
    if budget is None:
        return Plan(list(cells), [], minutes)
    chosen: list[Cell] = []
    left_out: list[Cell] = []
    spent = 0.0
    for cell in cells:
        estimate = minutes[cell.key]
        fits = spent + estimate <= budget if estimate is not None else not chosen
        (chosen if fits else left_out).append(cell)
        spent += (estimate or 0.0) if fits else 0.0
    return Plan(chosen, left_out, minutes)
