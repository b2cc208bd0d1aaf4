"""The paper's tables, measured: every row on a project's data, over seeds, beside the published numbers."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from fewcap.core.errors import FewcapError
from fewcap.core.store import read_json, readable_os_errors
from fewcap.evaluation.cells import (
    Cell,
    data_set_of,
    features_planned,
    make_cells,
    read_project,
    run_cell,
    seconds_spent,
)
from fewcap.evaluation.planning import plan
from fewcap.evaluation.recipes import DATA_SETS, METRICS, Row, Settings, read_table
from fewcap.evaluation.table_output import TableRow, write_outputs

if TYPE_CHECKING:
    from rich.console import Group

log = logging.getLogger("fewcap.evaluation")


@dataclass(frozen=True)
class Reproduction:
    """A table as far as it is measured."""

    table: int
    title: str
    data: str
    rows: list[TableRow]
    files: list[Path]
    finished: int
    left_out: list[str]
    failed: dict[str, str] = field(default_factory=dict)  # cell -> why

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "title": self.title,
            "data": self.data,
            "rows": [row.to_json() for row in self.rows],
            "files": [str(path) for path in self.files],
            "finished": self.finished,
            "left_out": self.left_out,
            "failed": self.failed,
        }

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        from fewcap.evaluation.table_output import as_rich

        notes = [f"left out for lack of time: {label}" for label in self.left_out]
        notes += [f"failed: {label}: {why}" for label, why in self.failed.items()]
        notes.append("written: " + ", ".join(str(path) for path in self.files))
        return Group(as_rich(self.rows, f"table {self.table}: {self.title}, {self.data}"), *map(Text, notes))


def reproduce(
    table: int | str,
    project: Path,
    out: Path,
    *,
    seeds: Sequence[int] = (0,),
    budget: float | None = None,
    settings: Settings = "paper",
    overrides: Mapping[str, Any] | None = None,
    run: Callable[[Cell], Mapping[str, Any]] = run_cell,
) -> Reproduction:
    """Measures the rows of a table of the paper on a project's data and writes Markdown, CSV, LaTeX and plots.

    Finished cells are skipped, a killed run goes on where it was. ``budget`` is in minutes; what does not fit is left
    out and named. ``overrides`` (``{"train.epochs": 3}``) apply to every cell.
    """
    recipe = read_table(table)
    data_set = data_set_of(read_project(project))
    cells = make_cells(recipe, project, out / "work", seeds=seeds, settings=settings, overrides=dict(overrides or {}))
    results = _Results(out / "cells")
    started = time.monotonic()
    failed: dict[str, str] = {}
    open_cells = _unfinished(cells, results)
    already = len(cells) - len(open_cells)
    if already:
        log.info("table %d: %d of %d cells are finished already", recipe.table, already, len(cells))
    announced: list[str] = []
    while open_cells:
        left = None if budget is None else budget - (time.monotonic() - started) / 60
        todo = plan(open_cells, results.measured(cells), left)
        if todo.sentences() != announced and (not announced or todo.left_out):
            announced = todo.sentences()
            for line in announced:
                log.info("%s", line)
        if not todo.chosen or (left is not None and left <= 0):
            break
        cell = todo.chosen[0]
        log.info("%s", cell.label)
        open_cells.remove(cell)
        try:
            results.write(cell, run(cell))
        except FewcapError as error:  # a rival that needs what is not installed must not cost the other rows
            log.warning("%s: %s", cell.label, error)
            failed[cell.label] = str(error)
        # Cells of other seeds or rows may be the same run: those are finished now, too.
        open_cells = [other for other in open_cells if results.read(other) is None]
    rows = [
        _row(number, row, cells, results, data_set) for number, row in enumerate(recipe.rows) if _shown(row, data_set)
    ]
    name = DATA_SETS.get(data_set or "", project.resolve().name)
    files = write_outputs(out, recipe, rows, name)
    return Reproduction(
        recipe.table,
        recipe.title,
        name,
        rows,
        files,
        finished=len(cells) - len(open_cells) - len(failed),
        left_out=[cell.label for cell in open_cells],
        failed=failed,
    )


class _Results:
    """One JSON file a finished cell."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, cell: Cell) -> Path:
        return self._folder / f"{cell.key[:16]}.json"

    def read(self, cell: Cell) -> dict[str, Any] | None:
        path = self._path(cell)
        if not path.exists():
            return None
        content = read_json(path)
        return content if content.get("key") == cell.key else None

    def write(self, cell: Cell, result: Mapping[str, Any]) -> None:
        content = {"key": cell.key, "cell": cell.label, "seconds": round(seconds_spent(cell), 1), **result}
        path = self._path(cell)
        with readable_os_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            temporary.replace(path)

    def measured(self, cells: Sequence[Cell]) -> list[tuple[Cell, float]]:
        found = [(cell, self.read(cell)) for cell in cells]
        return [(cell, result["seconds"]) for cell, result in found if result is not None]


def _unfinished(cells: Sequence[Cell], results: _Results) -> list[Cell]:
    """Cells to run, each key once: two rows may ask for the same run."""
    open_cells: dict[str, Cell] = {}
    for cell in cells:
        if results.read(cell) is None:
            open_cells.setdefault(cell.key, cell)
    return list(open_cells.values())


def _shown(row: Row, data_set: str | None) -> bool:
    """On data that no table knows, published rows of rivals say nothing."""
    return data_set in row.published or (data_set is None and row.settings is not None)


def _row(number: int, row: Row, cells: Sequence[Cell], results: _Results, data_set: str | None) -> TableRow:
    own = [cell for cell in cells if cell.row == number]
    found = [result for cell in own if (result := results.read(cell)) is not None]
    measured: list[tuple[float, float] | None] = []
    for name in METRICS:
        values = [result["metrics"][name] for result in found if name in result["metrics"]]
        spread = stdev(values) if len(values) > 1 else 0.0
        measured.append((mean(values), spread) if values else None)
    features = found[0]["features"] if found else features_planned(own[0].config) if own else ""
    return TableRow(
        name=row.name,
        venue=row.venue,
        series=row.series,
        x=row.place(data_set),
        sentences=str(row.sentences_for(data_set)),
        pseudo=row.pseudo,
        published_features=row.features,
        published=list(row.published.get(data_set or "", [None] * len(METRICS))),
        features=features,
        measured=measured,
        seeds=len(found),
        wanted=len(own),
    )
