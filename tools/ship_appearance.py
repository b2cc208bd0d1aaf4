"""Writes tuned stages of the appearance network into the package: python tools/ship_appearance.py WEIGHTS

WEIGHTS is what tools/tune_appearance.py has written. A byte a weight; what is shipped is what features are made of, so
extract features, and train the captioner inside, after this.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fewcap.core import weights
from fewcap.core.eightbit import eight_bit
from fewcap.core.store import Stage, Workspace, run_stage, sha256_file
from fewcap.features.backbones.efficientnet_lite0 import EfficientNetLite0
from fewcap.features.backbones.efficientnet_lite0_captions import ASSET, LATE

FOLDER = Path(__file__).parent.parent / "src" / "fewcap" / "assets" / ASSET


def main() -> None:
    source = Path(sys.argv[1])
    published = EfficientNetLite0.load(weights.resolve("efficientnet_lite0")).state_dict()
    tuned = EfficientNetLite0.load(source).state_dict()
    changed = {name: tensor for name, tensor in tuned.items() if not tensor.equal(published[name])}
    card = FOLDER / "README.md"
    text = card.read_text() if card.exists() else ""

    def build(workspace: Workspace) -> dict[str, Any]:
        workspace.write_tensors(LATE, eight_bit(changed))
        return {"tensors": len(changed), "weights": sum(tensor.numel() for tensor in changed.values())}

    inputs = {"weights": sha256_file(source)}
    run_stage(Stage(FOLDER, "appearance", inputs=inputs, config={"form": "eight bits"}), build)
    card.write_text(text)  # a new artefact replaces all files of the folder
    for left in (".lock", "journal.jsonl"):
        (FOLDER / left).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
