"""The captioner and its training."""

from __future__ import annotations

from fewcap.core.config.base import Section


class TrainConfig(Section):
    """The captioner and its training."""
