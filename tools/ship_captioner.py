"""Writes a trained captioner into the package, a byte a weight: python tools/ship_captioner.py PROJECT"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from fewcap.captioning.captioner import Captioner
from fewcap.captioning.confidence import limits_of_project
from fewcap.captioning.folder import METRICS, Limits
from fewcap.captioning.shipped import ASSET
from fewcap.core.store import Manifest, Stage, Workspace, read_jsonl, run_stage

SENTENCES = 18_000  # all models inside the package together take less than 60 MB
ASSETS = Path(__file__).parent.parent / "src" / "fewcap" / "assets"


def main() -> None:
    project = Path(sys.argv[1])
    model = project / "model"
    trained = Manifest.read(model)

    def build(workspace: Workspace) -> dict[str, Any]:
        captioner = Captioner.load(model)
        limits = captioner.trained.limits
        if limits == Limits():  # a model of before captions were marked
            limits = limits_of_project(captioner, project / "data", project / "features")
        bank = captioner.trained.bank.compact(SENTENCES)
        replace(captioner.trained, limits=limits, bank=bank).save(workspace, compact=True)
        workspace.write_jsonl(METRICS, read_jsonl(model / METRICS))
        return trained.counts

    run_stage(Stage(ASSETS / ASSET, "model", inputs={"model": trained.digest}, config={"form": "eight bits"}), build)
    for left in (".lock", "journal.jsonl"):
        (ASSETS / ASSET / left).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
