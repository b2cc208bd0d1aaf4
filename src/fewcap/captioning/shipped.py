"""The captioner that ships with fewcap: trained on real videos, ready for a video of any kind."""

from __future__ import annotations

from pathlib import Path

from fewcap.core.assets import shipped

ASSET = "captioner"
TRAINED_ON = ("msrvtt",)  # sources whose captions it has seen: experiments with few of them must not start from it


def shipped_folder() -> Path:
    """Its model folder."""
    return shipped(ASSET)
