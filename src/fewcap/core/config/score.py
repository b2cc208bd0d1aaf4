"""What is measured."""

from __future__ import annotations

from fewcap.core.config.base import Section


class ScoreConfig(Section):
    """What is measured."""
