"""Ranks candidates by X-CLIP, the paper's video-text model, which looks at the videos themselves."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.core.loading import without_bars
from fewcap.core.progress import track
from fewcap.core.types import VideoItem
from fewcap.features.picture import View
from fewcap.features.video import Views, sample_video

log = logging.getLogger("fewcap.pseudo")

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP's


class XClipRanker:
    """Cosine similarity of X-CLIP's video and text features."""

    def __init__(self, network: Any, tokenizer: Any, items: Sequence[VideoItem]) -> None:
        self.network = network
        self.tokenizer = tokenizer
        self.paths = {item.id: item.path for item in items}

    @classmethod
    def load(cls, name: str, items: Sequence[VideoItem]) -> XClipRanker:
        from transformers import AutoTokenizer, XCLIPModel

        if all(item.path is None for item in items):
            raise FewcapError(
                f"label.rank.model {name} looks at videos, but this data has features only; use two-tower."
            )
        try:
            with without_bars():
                return cls(XCLIPModel.from_pretrained(name).eval(), AutoTokenizer.from_pretrained(name), items)
        except (OSError, ValueError) as error:
            raise FewcapError(
                f"label.rank.model {name}: no X-CLIP can be had under this name ({str(error).splitlines()[0]}); "
                "name a folder, or use two-tower."
            ) from None

    @torch.inference_mode()
    def scores(self, texts: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        found = {}
        for video in track(list(texts), "rank by X-CLIP", unit="videos"):
            path = self.paths.get(video)
            if path is None or not texts[video]:
                continue
            try:
                pixels = self._pixels(path)
            except FewcapError as error:
                log.warning("%s; its candidates are not ranked", error)
                continue
            seen = F.normalize(self.network.get_video_features(pixel_values=pixels).pooler_output, dim=-1)  # [1, d]
            batch = self.tokenizer(list(texts[video]), return_tensors="pt", padding=True, truncation=True)
            said = F.normalize(self.network.get_text_features(**batch).pooler_output, dim=-1)  # [m, d]
            found[video] = (said @ seen[0]).numpy()
        return found

    def _pixels(self, path: Any) -> Tensor:
        """[1, frames, 3, H, W], evenly spaced frames; a short video repeats some."""
        settings = self.network.config.vision_config
        count, size = settings.num_frames, settings.image_size
        sampling = FeaturesConfig(min_frames=count, max_frames=count)
        frames = sample_video(path, sampling, Views(View(size, size))).frames  # [n, H, W, 3]
        rows = np.linspace(0, len(frames) - 1, count).round().astype(int)
        pixels = torch.from_numpy(frames[rows]).float() / 255
        return ((pixels - torch.tensor(MEAN)) / torch.tensor(STD)).permute(0, 3, 1, 2)[None]
