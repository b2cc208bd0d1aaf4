"""The whole configuration of a project: ``fewcap.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from fewcap.core.config.base import Section
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.config.data import DataConfig
from fewcap.core.config.features import FeaturesConfig
from fewcap.core.config.label import LabelConfig
from fewcap.core.config.score import ScoreConfig
from fewcap.core.config.train import TrainConfig


class Config(Section):
    """One section a stage, in the order in which the stages run."""

    seed: int = Field(0, ge=0, description="Seeds every random choice of every stage.")
    data: DataConfig = Field(default_factory=DataConfig, description="Which videos and captions.")
    features: FeaturesConfig = Field(default_factory=FeaturesConfig, description="What is taken from a video.")
    label: LabelConfig = Field(default_factory=LabelConfig, description="How captions are invented.")
    train: TrainConfig = Field(default_factory=TrainConfig, description="The captioner and its training.")
    caption: CaptionConfig = Field(default_factory=CaptionConfig, description="How captions are decoded.")
    score: ScoreConfig = Field(default_factory=ScoreConfig, description="What is measured.")

    @model_validator(mode="before")
    @classmethod
    def _unread(cls, content: Any) -> Any:
        """By default no experiment with a corpus sees its videos through a network that has read their captions."""
        if not isinstance(content, Mapping):
            return content
        data, features = content.get("data"), content.get("features") or {}
        source = data.get("source") if isinstance(data, Mapping) else getattr(data, "source", None)
        if source == "msrvtt" and isinstance(features, Mapping) and "appearance" not in features:
            return {**content, "features": {**features, "appearance": "efficientnet_lite0"}}
        return content
