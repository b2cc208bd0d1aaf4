"""Backbones by name: one file each, built only when a run asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.types import Kind
from fewcap.features.backbones.base import Appearance, Card, Motion, Objects
from fewcap.features.video import Views

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Backbones:
    """The backbones of one run, ready to compute."""

    appearance: Appearance
    motion: Motion | None
    objects: Objects | None

    @property
    def cards(self) -> dict[Kind, Card]:
        chosen = (self.appearance, self.motion, self.objects)
        return {backbone.card.kind: backbone.card for backbone in chosen if backbone is not None}

    @property
    def views(self) -> Views:
        """The pictures that one pass over a video must give."""
        frames = self.appearance.card.view
        assert frames is not None
        return Views(
            frames=frames,
            clips=self.motion.card.view if self.motion is not None else None,
            objects=self.objects.card.view if self.objects is not None else None,
        )


def build(config: FeaturesConfig) -> Backbones:
    """Loads what ``config`` names; weights that are missing are said here, before any work."""
    import torch

    from fewcap.core.devices import check_bfloat16, pick_device

    device = pick_device(config.device)
    if config.precision == "bfloat16":
        check_bfloat16(device, "features.precision")
    dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    networks = [_network(name, config, dtype, device) for name in config.appearance.split("+")]
    maps = networks[0].card
    return Backbones(
        appearance=_together(networks),
        motion=_motion(config, maps, dtype, device),
        objects=_objects(config, maps, device),
    )


def _together(networks: list[Appearance]) -> Appearance:
    if len(networks) == 1:
        return networks[0]
    from fewcap.features.backbones import together

    return together.Backbone(networks)


def _network(name: str, config: FeaturesConfig, dtype: torch.dtype, device: torch.device) -> Appearance:
    if name == "efficientnet_lite0":
        from fewcap.features.backbones import efficientnet_lite0

        return efficientnet_lite0.load(config.weights.get(name), dtype, device)
    if name == "efficientnet_lite0_captions":
        from fewcap.features.backbones import efficientnet_lite0_captions

        return efficientnet_lite0_captions.load(dtype, device)
    if name == "pplcnet_v2":
        from fewcap.features.backbones import pplcnet_v2

        return pplcnet_v2.load(config.weights.get(name), dtype, device)
    if name == "clip_vit_b16":
        from fewcap.features.backbones import clip_vit_b16

        return clip_vit_b16.load(config.weights.get(name))
    from fewcap.features.backbones import timm_model

    return timm_model.load(name.removeprefix("timm:"), config.weights.get(name), dtype, device)


def _motion(config: FeaturesConfig, appearance: Card, dtype: torch.dtype, device: torch.device) -> Motion | None:
    if config.motion is None:
        return None
    if config.motion == "changes":
        from fewcap.features.backbones import changes

        return changes.Backbone(appearance)
    if config.motion == "i3d":
        from fewcap.features.backbones import i3d

        return i3d.load(config.weights.get("i3d"), dtype, device)
    from fewcap.features.backbones import c3d

    return c3d.load(config.weights.get("c3d"), dtype, device)


def _objects(config: FeaturesConfig, appearance: Card, device: torch.device) -> Objects | None:
    if config.objects is None:
        return None
    if config.objects == "grid":
        from fewcap.features.backbones import grid

        return grid.Backbone(appearance, config.objects_per_frame, config.max_objects)
    from fewcap.features.backbones import faster_rcnn

    return faster_rcnn.load(config.weights.get("faster_rcnn"), config.objects_per_frame, device)
