"""The whole configuration of a project: ``fewcap.yaml``."""

from __future__ import annotations

from pydantic import Field

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
