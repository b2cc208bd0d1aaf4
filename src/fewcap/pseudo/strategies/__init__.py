"""Ways of inventing sentences, one a file, behind one interface."""

from __future__ import annotations

from fewcap.core.config.label import LabelConfig
from fewcap.pseudo.candidates import Strategy


def load_strategy(config: LabelConfig, *, seed: int) -> Strategy:
    """The strategy that the configuration names, ready to work."""
    if config.strategy == "edit":
        from fewcap.pseudo.strategies.edit import Edit

        return Edit.load(config, seed=seed)
    raise NotImplementedError(config.strategy)


def strategy_digest(config: LabelConfig) -> dict[str, str]:
    """Hashes of the weights that the strategy reads, by name."""
    from fewcap.pseudo.language import models_digest

    return {"models": models_digest(config.models)}
