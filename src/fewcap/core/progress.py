"""Progress with time left: a bar on a terminal, a plain line every ten seconds elsewhere, nothing for short work.

Progress follows the logger ``fewcap``: a program that did not ask for its messages sees no bars either.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

T = TypeVar("T")
log = logging.getLogger("fewcap.progress")

QUIET_SECONDS = 2.0
LINE_SECONDS = 10.0


class Bar:
    """Counts finished items and shows them when the work takes longer than two seconds."""

    def __init__(self, what: str, total: int | None, unit: str = "", *, visible: bool = True) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done, self.note = 0, ""
        self._started = self._shown = time.monotonic()
        self._visible = visible and log.isEnabledFor(logging.INFO)
        self._display: Progress | None = None
        self._task: TaskID | None = None

    def advance(self, count: int = 1, *, note: str = "") -> None:
        """``count`` more items are done; ``note`` replaces the remark at the end of the line."""
        self.done += count
        self.note = note or self.note
        now = time.monotonic()
        if not self._visible or now - self._started < QUIET_SECONDS:
            return
        if sys.stderr.isatty():
            self._draw()
        elif now - self._shown >= LINE_SECONDS:
            self._shown = now
            log.info("%s", self._line(now - self._started))

    def close(self) -> None:
        if self._display is not None:
            self._display.stop()

    def _line(self, elapsed: float) -> str:
        unit = f" {self.unit}" if self.unit else ""
        note = f", {self.note}" if self.note else ""
        if not self.total:
            return f"{self.what}: {self.done}{unit}, {clock(elapsed)} so far{note}"
        so_far = f"{self.what}: {self.done}/{self.total}{unit}, {clock(elapsed)} so far"
        if not self.done:
            return so_far + note
        return f"{so_far}, {clock(elapsed / self.done * max(self.total - self.done, 0))} left{note}"

    def _draw(self) -> None:
        if self._display is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            self._display = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,  # answers go where the user sent them, not to the bar's stream
            )
            self._task = self._display.add_task(self.what, total=self.total, note="")
            self._display.start()
        assert self._task is not None
        self._display.update(self._task, completed=self.done, total=self.total, note=self.note)


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "", *, visible: bool = True) -> Iterator[Bar]:
    """A bar to advance by hand."""
    bar = Bar(what, total, unit, visible=visible)
    try:
        yield bar
    finally:
        bar.close()


def track(items: Iterable[T], what: str, total: int | None = None, unit: str = "") -> Iterator[T]:
    """Iterates and shows how far it is."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(what, total, unit) as bar:
        for item in items:
            yield item
            bar.advance()


def clock(seconds: float) -> str:
    """``75`` → ``1:15``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
