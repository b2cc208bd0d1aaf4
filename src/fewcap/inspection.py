"""What is in a folder: an artefact, an unfinished one, or a project with its stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewcap.core.errors import FewcapError
from fewcap.core.store import MANIFEST, Manifest, is_unfinished, stage_seconds
from fewcap.pipeline import CONFIG_FILE

STAGE_FOLDERS = ("data", "features", "pseudo", "model", "captions", "scores")


def inspect(folder: Path, *, verify: bool = False) -> dict[str, Any]:
    """Facts about an artefact folder, or about each stage of a project folder."""
    if not folder.exists():
        raise FewcapError(f"{folder}: there is no such folder.")
    if not folder.is_dir():
        raise FewcapError(f"{folder}: is a file; name an artefact folder or a project folder.")
    if (folder / CONFIG_FILE).exists():
        return {
            "folder": str(folder),
            "kind": "project",
            "stages": {name: _artefact(folder / name, verify=verify) for name in STAGE_FOLDERS},
        }
    facts = _artefact(folder, verify=verify)
    if facts["state"] in {"missing", "foreign"}:
        raise FewcapError(f"{folder}: neither an artefact of fewcap (no {MANIFEST}) nor a project (no {CONFIG_FILE}).")
    return facts


def _artefact(folder: Path, *, verify: bool) -> dict[str, Any]:
    if not folder.is_dir():
        return {"folder": str(folder), "state": "missing"}
    if is_unfinished(folder):
        return {"folder": str(folder), "state": "unfinished"}
    if not (folder / MANIFEST).exists():
        return {"folder": str(folder), "state": "foreign"}
    manifest = Manifest.read(folder)
    facts: dict[str, Any] = {
        "folder": str(folder),
        "state": "complete",
        "kind": manifest.kind,
        "counts": manifest.counts,
        "seconds": stage_seconds(folder),
        "versions": manifest.versions,
        "config": manifest.config,
        "files": len(manifest.files),
        "bytes": sum((folder / name).stat().st_size for name in manifest.files if (folder / name).exists()),
    }
    if verify:
        facts["damaged"] = manifest.damaged(folder)
    return facts
