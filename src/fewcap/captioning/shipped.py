"""The captioner that ships with fewcap: trained on real videos, ready for a video of any kind."""

from __future__ import annotations

from pathlib import Path

from fewcap.core.assets import asset
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest

ASSET = "captioner"
TRAINED_ON = ("msrvtt",)  # sources whose captions it has seen: experiments with few of them must not start from it


def shipped_folder() -> Path:
    """Its model folder; the files must be what was shipped."""
    folder = asset(ASSET)
    if damaged := Manifest.read(folder).damaged(folder):
        raise FewcapError(f"{folder / damaged[0]}: its content is not what was shipped; reinstall fewcap.")
    return folder
