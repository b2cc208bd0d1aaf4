"""What is taken from a video."""

from __future__ import annotations

from fewcap.core.config.base import Section


class FeaturesConfig(Section):
    """What is taken from a video."""
