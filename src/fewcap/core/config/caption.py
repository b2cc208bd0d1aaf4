"""How captions are decoded."""

from __future__ import annotations

from fewcap.core.config.base import Section


class CaptionConfig(Section):
    """How captions are decoded."""
