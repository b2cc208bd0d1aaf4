"""What the tools that write models into the package have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fewcap.core.store import Stage, Workspace, run_stage

ASSETS = Path(__file__).parent.parent / "src" / "fewcap" / "assets"


def ship(asset: str, kind: str, inputs: Mapping[str, str], build: Callable[[Workspace], dict[str, Any]]) -> None:
    """Replaces the files of an asset by what ``build`` writes, a byte a weight; its card stays."""
    folder = ASSETS / asset
    card = folder / "README.md"
    text = card.read_text() if card.exists() else ""
    run_stage(Stage(folder, kind, inputs=inputs, config={"form": "eight bits"}), build)
    card.write_text(text)  # a new artefact replaces all files of the folder
    for left in (".lock", "journal.jsonl"):
        (folder / left).unlink(missing_ok=True)
