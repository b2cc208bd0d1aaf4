"""Answers for people: tables on a terminal, plain aligned lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def show(facts: Any) -> None:
    """Prints an answer: its own table when it has one, otherwise names and values."""
    width = None if sys.stdout.isatty() else 160  # a pipe has no width of its own: tables must not be cut to 80
    console = Console(soft_wrap=True, highlight=False, width=width)
    if hasattr(facts, "__rich__"):
        console.print(facts)
        return
    for line in _lines(facts):
        console.print(line, markup=False)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose first column is text and whose others are figures."""
    built = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        built.add_column(column, justify="left" if place == 0 else "right")
    for row in rows:
        built.add_row(*row)
    return built


def _lines(facts: Any, indent: str = "") -> list[str]:
    if not isinstance(facts, Mapping):
        return [f"{indent}{facts}"]
    width = max((len(str(key)) for key in facts), default=0)
    lines: list[str] = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}", *_lines(value, indent + "  ")]
        elif isinstance(value, list):
            lines += [f"{indent}{key!s:<{width}}  {', '.join(map(str, value)) or '-'}"]
        else:
            lines.append(f"{indent}{key!s:<{width}}  {'-' if value is None else value}")
    return lines
