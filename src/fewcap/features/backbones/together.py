"""Several appearance networks side by side: what one misses, another may see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fewcap.core.errors import UsageError
from fewcap.core.store import fingerprint
from fewcap.features.backbones.base import Appearance, Card


class Backbone:
    """The vectors of all networks in one, each of length one; the maps are those of the first."""

    def __init__(self, networks: Sequence[Appearance]) -> None:
        first, *others = networks
        for other in others:
            if other.card.view != first.card.view:
                raise UsageError(
                    f"features.appearance: {first.card.name} and {other.card.name} look at pictures of other sizes; "
                    "take networks that look at the same ones."
                )
        cards = [network.card for network in networks]
        self.card = Card(
            name="+".join(card.name for card in cards),
            kind="appearance",
            dim=sum(card.dim for card in cards),
            view=first.card.view,
            licence=", ".join(dict.fromkeys(card.licence for card in cards)),
            source="; ".join(card.source for card in cards),
            weights=fingerprint([card.hash for card in cards]),
        )
        self.batch = max(network.batch for network in networks)
        self._networks = networks

    def __call__(self, frames: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        seen = [network(frames) for network in self._networks]
        vectors = [torch.nn.functional.normalize(vectors, dim=1) for vectors, _ in seen]
        return torch.cat(vectors, 1), seen[0][1]
