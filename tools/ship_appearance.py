"""Writes tuned stages of the appearance network into the package: python tools/ship_appearance.py WEIGHTS

WEIGHTS is what tools/tune_appearance.py has written. A byte a weight; what is shipped is what features are made of, so
extract features, and train the captioner inside, after this.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from shipping import ship

from fewcap.core import weights
from fewcap.core.eightbit import eight_bit
from fewcap.core.store import Workspace, sha256_file
from fewcap.features.backbones.efficientnet_lite0 import EfficientNetLite0
from fewcap.features.backbones.efficientnet_lite0_captions import ASSET, LATE


def main() -> None:
    source = Path(sys.argv[1])
    published = EfficientNetLite0.load(weights.resolve("efficientnet_lite0")).state_dict()
    tuned = EfficientNetLite0.load(source).state_dict()
    changed = {name: tensor for name, tensor in tuned.items() if not tensor.equal(published[name])}

    def build(workspace: Workspace) -> dict[str, Any]:
        workspace.write_tensors(LATE, eight_bit(changed))
        return {"tensors": len(changed), "weights": sum(tensor.numel() for tensor in changed.values())}

    ship(ASSET, "appearance", {"weights": sha256_file(source)}, build)


if __name__ == "__main__":
    main()
