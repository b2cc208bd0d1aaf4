"""Writes a trained captioner into the package, a byte a weight: python tools/ship_captioner.py PROJECT"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from shipping import ship

from fewcap.captioning.folder import METRICS, TrainedCaptioner
from fewcap.captioning.shipped import ASSET
from fewcap.core.store import Manifest, Workspace, read_jsonl

SENTENCES = 12_000  # all models inside the package together take less than 60 MB


def main() -> None:
    model = Path(sys.argv[1]) / "model"
    trained = Manifest.read(model)

    def build(workspace: Workspace) -> dict[str, Any]:
        captioner = TrainedCaptioner.load(model)
        replace(captioner, bank=captioner.bank.compact(SENTENCES)).save(workspace, compact=True)
        workspace.write_jsonl(METRICS, read_jsonl(model / METRICS))
        return trained.counts

    ship(ASSET, "model", {"model": trained.digest}, build)


if __name__ == "__main__":
    main()
