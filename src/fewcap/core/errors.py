"""Errors that a person reads: one sentence with the file, the value and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class FewcapError(Exception):
    """Work that can not be done as asked; the command line ends with exit code 1."""

    exit_code = 1


class UsageError(FewcapError):
    """A wrong option, key or value; the command line ends with exit code 2."""

    exit_code = 2


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint to append to an error: the valid name closest to ``name``, or nothing."""
    matches = get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return f" Did you mean '{matches[0]}'?" if matches else ""
