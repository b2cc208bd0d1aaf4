"""Typed configuration: one file a section, every field explained."""

from fewcap.core.config.base import Section
from fewcap.core.config.load import load_config, write_config
from fewcap.core.config.root import Config

__all__ = ["Config", "Section", "load_config", "write_config"]
