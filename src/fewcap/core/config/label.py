"""How captions are invented."""

from __future__ import annotations

from fewcap.core.config.base import Section


class LabelConfig(Section):
    """How captions are invented."""
