"""Files that ship inside the package, and the user's cache for those that do not."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from fewcap.core.errors import FewcapError


def asset(name: str) -> Path:
    """The path of a file shipped with fewcap."""
    path = Path(str(files("fewcap"))) / "assets" / name
    if not path.exists():
        raise FewcapError(f"{path}: this file ships with fewcap but is missing; reinstall fewcap.")
    return path


def shipped(name: str) -> Path:
    """An artefact folder inside the package; its files must be what was shipped."""
    from fewcap.core.store import Manifest

    folder = asset(name)
    if damaged := Manifest.read(folder).damaged(folder):
        raise FewcapError(f"{folder / damaged[0]}: its content is not what was shipped; reinstall fewcap.")
    return folder


def cache_dir() -> Path:
    """Where converted weights are kept: ``FEWCAP_CACHE``, or the platform's cache folder."""
    override = os.environ.get("FEWCAP_CACHE")
    if override:
        return Path(override).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "fewcap"
