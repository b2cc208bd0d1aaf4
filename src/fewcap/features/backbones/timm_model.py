"""Any image network of timm: Inception-ResNet-v2 of the paper (1536 numbers, 299 px), or another by its name."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from fewcap.core.errors import FewcapError, nearest
from fewcap.core.store import sha256_file
from fewcap.features.backbones.base import Card
from fewcap.features.picture import View

_INSTALL = (
    "run 'pip install \"fewcap[features]\"' with a torchvision that matches your torch, or set features.appearance to "
    "efficientnet_lite0"
)


class Backbone:
    """A timm network without its classifier."""

    batch = 4

    def __init__(self, name: str, model: Any, settings: dict[str, Any], origin: str, dtype: torch.dtype, device: Any):
        _, height, width = settings["input_size"]
        self.card = Card(
            name=name,
            kind="appearance",
            dim=model.num_features,
            view=View(width, height),
            licence=str(model.pretrained_cfg.get("license") or "see the model's page on the hub"),
            source=f"timm {model.pretrained_cfg.get('hf_hub_id') or name}",
            weights=origin,
        )
        self._dtype, self._device = dtype, device
        self._mean = torch.tensor(settings["mean"], device=device) * 255
        self._std = torch.tensor(settings["std"], device=device) * 255
        self._model = model.eval().to(device, dtype).to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def __call__(self, frames: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        x = (torch.from_numpy(frames).to(self._device).float() - self._mean) / self._std  # [B, H, W, 3]
        x = x.permute(0, 3, 1, 2).to(self._dtype).contiguous(memory_format=torch.channels_last)
        found = self._model.forward_features(x)
        vectors = self._model.forward_head(found, pre_logits=True)  # [B, d]
        maps = as_maps(found, self.card.dim, getattr(self._model, "num_prefix_tokens", 0))
        return vectors.float().cpu(), maps.float().cpu().contiguous()


def as_maps(found: torch.Tensor, channels: int, prefix: int) -> torch.Tensor:
    """What networks call their last map, [B, c, h, w], [B, h, w, c] or tokens [B, n, c], as [B, c, h, w]."""
    if found.ndim == 4:
        return found if found.shape[1] == channels else found.permute(0, 3, 1, 2)
    tokens = found[:, prefix:]  # class tokens have no place
    side = math.isqrt(tokens.shape[1])
    return tokens[:, : side * side].transpose(1, 2).unflatten(2, (side, side))


def load(name: str, path: str | None, dtype: torch.dtype, device: torch.device) -> Backbone:
    """Weights from the hub, or from a local file in timm's layout."""
    timm = _import_timm(name)
    if not timm.is_model(name):
        raise FewcapError(f"timm has no model '{name}'.{nearest(name, timm.list_models())}")
    try:
        model = timm.create_model(name, pretrained=path is None, checkpoint_path=path or "")
    except Exception as error:
        reason = str(error).splitlines()[0][:160]
        raise FewcapError(
            f"the weights of {name} can not be had ({reason}); connect to the hub, or set features.weights.{name} to a "
            "local file."
        ) from None
    settings = timm.data.resolve_model_data_config(model)
    origin = sha256_file(Path(path)) if path is not None else f"timm {model.pretrained_cfg.get('hf_hub_id') or name}"
    return Backbone(name, model, settings, origin, dtype, device)


def _import_timm(name: str) -> ModuleType:
    try:
        import timm
        import timm.data
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision built for another torch
        raise FewcapError(
            f"{name} needs timm, which does not load ({str(error).splitlines()[0]}); {_INSTALL}."
        ) from None
    return timm
