"""Which videos and captions."""

from __future__ import annotations

from fewcap.core.config.base import Section


class DataConfig(Section):
    """Which videos and captions."""
