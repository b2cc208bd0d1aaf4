"""What is measured."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fewcap.core.config.base import Section


class ScoreConfig(Section):
    """What is measured."""

    meteor: Literal["auto", "on", "off"] = Field(
        "auto", description="METEOR by its Java jar: 'auto' goes on without it and says why, 'on' makes that an error."
    )
    missing: Literal["skip", "empty", "error"] = Field(
        "skip", description="Videos with references but no caption: left out, scored as empty captions, or an error."
    )
    bootstrap: int = Field(1000, ge=0, description="Samples for confidence intervals and significance; 0 for none.")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="Share of samples inside a confidence interval.")
    bootstrap_seed: int = Field(0, ge=0, description="Seeds the samples.")
    keywords: bool = Field(True, description="Precision and recall of nouns and verbs.")
    floors: bool = Field(
        True, description="Also score what needs no model: the most frequent caption and the nearest training video's."
    )
