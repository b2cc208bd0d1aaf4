"""Writes a trained captioner into the package, a byte a weight: python tools/ship_captioner.py PROJECT"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewcap.captioning.folder import METRICS, TrainedCaptioner
from fewcap.captioning.shipped import ASSET
from fewcap.core.store import Manifest, Stage, Workspace, read_jsonl, run_stage

SENTENCES = 12_000  # all models inside the package together take less than 60 MB
ASSETS = Path(__file__).parent.parent / "src" / "fewcap" / "assets"


def main() -> None:
    model = Path(sys.argv[1]) / "model"
    trained = Manifest.read(model)
    card = ASSETS / ASSET / "README.md"
    text = card.read_text()

    def build(workspace: Workspace) -> dict[str, Any]:
        captioner = TrainedCaptioner.load(model)
        replace(captioner, bank=captioner.bank.compact(SENTENCES)).save(workspace, compact=True)
        workspace.write_jsonl(METRICS, read_jsonl(model / METRICS))
        return trained.counts

    run_stage(Stage(ASSETS / ASSET, "model", inputs={"model": trained.digest}, config={"form": "eight bits"}), build)
    card.write_text(text)  # a new artefact replaces all files of the folder
    for left in (".lock", "journal.jsonl"):
        (ASSETS / ASSET / left).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
