"""Ranks candidates by how well they fit the video."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from fewcap.core.config.label import LabelConfig
from fewcap.core.types import VideoItem
from fewcap.features.store import FeatureStore
from fewcap.pseudo.videotext import TwoTower, VideoTextModel

log = logging.getLogger("fewcap.pseudo")


class Ranker(Protocol):
    """Scores sentences for videos."""

    def scores(self, texts: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        """Cosine similarity of each video and each of its texts; a video that can not be seen is left out."""
        ...


class FeatureRanker:
    """Ranks by extracted features and a video-text model over them."""

    def __init__(self, model: VideoTextModel, store: FeatureStore) -> None:
        self.model = model
        self.store = store

    @classmethod
    def fit(cls, items: Sequence[VideoItem], store: FeatureStore, config: LabelConfig, *, seed: int) -> FeatureRanker:
        """A two-tower model that learns from the given sentences alone."""
        seen = [item for item in items if item.id in store and item.captions]
        model = TwoTower.fit(
            [store[item.id] for item in seen], [item.captions for item in seen], config.video_text, seed=seed
        )
        return cls(model, store)

    def scores(self, texts: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        seen = [video for video in texts if video in self.store]
        if not seen:
            return {}
        videos = self.model.embed_videos([self.store[video] for video in seen])  # [n, d_s]
        distinct = list(dict.fromkeys(text for video in seen for text in texts[video]))
        rows = dict(zip(distinct, self.model.embed_texts(distinct), strict=True))
        return {
            video: np.array([float(rows[text] @ vector) for text in texts[video]])
            for video, vector in zip(seen, videos, strict=True)
        }


def load_ranker(items: Sequence[VideoItem], store: FeatureStore, config: LabelConfig, *, seed: int) -> Ranker | None:
    """The ranker that the configuration names; None when ranking is off."""
    if not config.rank.enabled:
        return None
    if config.rank.model != "two-tower":
        from fewcap.pseudo.xclip import XClipRanker

        return XClipRanker.load(config.rank.model, items)
    return FeatureRanker.fit(items, store, config, seed=seed)
