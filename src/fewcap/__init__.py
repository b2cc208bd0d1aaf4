"""fewcap: video captioning from one to three captions a video."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fewcap.captioning.captioner import Captioner

__all__ = ["Captioner", "__version__"]


def __getattr__(name: str) -> Any:
    # Captioner pulls in torch: only those who ask for it wait for it.
    if name == "Captioner":
        from fewcap.captioning.captioner import Captioner

        return Captioner
    raise AttributeError(f"module 'fewcap' has no attribute {name!r}")
