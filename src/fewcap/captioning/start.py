"""Where training starts: from random weights, or from a captioner that has seen other videos."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fewcap.captioning.folder import TrainedCaptioner, check_features, read_settings
from fewcap.captioning.shipped import TRAINED_ON, shipped_folder
from fewcap.captioning.warmup import WORD_ROWS
from fewcap.core.config.train import TrainConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest
from fewcap.features.store import KindInfo

log = logging.getLogger("fewcap.train")

# settings of a captioner that say which caption it takes
CHOOSING = ("length_penalty", "consensus", "voters", "best_of", "rarity")


@dataclass(frozen=True)
class Start:
    """A captioner to go on from."""

    folder: Path
    digest: str

    def captioner(self) -> TrainedCaptioner:
        return TrainedCaptioner.load(self.folder)


def find_start(config: TrainConfig, kinds: Mapping[str, KindInfo], features: Path, *, data_source: str) -> Start | None:
    """What ``train.start`` means for these features; None is from random weights.

    ``auto`` takes the shipped captioner where it fits, and never lets an experiment with few captions of a corpus
    start from a model that has seen all of them.
    """
    if config.start == "none":
        return None
    if config.start == "auto":
        reason = _against_shipped(config, kinds, data_source)
        if reason is not None:
            log.info("training starts from random weights: %s", reason)
            return None
    folder = shipped_folder() if config.start in ("auto", "shipped") else Path(config.start)
    start = Start(folder, Manifest.read(folder).digest)
    settings, known = read_settings(folder)
    check_features(known, kinds, folder, features)
    if "model" in config.model_fields_set and config.model != settings.model:
        raise FewcapError(
            f"train.model differs from that of {folder}, from which training is to start; "
            "remove train.model, or set train.start: none."
        )
    return start


def _against_shipped(config: TrainConfig, kinds: Mapping[str, KindInfo], data_source: str) -> str | None:
    if "model" in config.model_fields_set or config.warmup.source != "none":
        return "train.model or train.warmup is set"
    if data_source in TRAINED_ON:
        return f"the shipped captioner has seen all captions of {data_source}"
    try:
        check_features(read_settings(shipped_folder())[1], kinds, "shipped captioner", "these features")
    except FewcapError:
        return "the shipped captioner was trained on features of other networks"
    return None


def going_on(config: TrainConfig, captioner: TrainedCaptioner) -> TrainConfig:
    """The settings of a training that starts from a captioner: its network and keywords, and a smaller rate; how it
    chooses its captions as well, where nothing else is asked for."""
    chosen = {name: getattr(captioner.config, name) for name in CHOOSING if name not in config.model_fields_set}
    return config.model_copy(
        update={
            **chosen,
            "model": captioner.config.model,
            "keywords": captioner.config.keywords,
            "videotext": captioner.config.videotext,
            "members": captioner.config.members,
            "learning_rate": config.start_rate,
        }
    )


def mixed(trained: Mapping[str, Tensor], start: Mapping[str, Tensor], share: float, *, words: int) -> dict[str, Tensor]:
    """Weights between those of the start, which have ``share``, and the trained ones.

    The start knows the first ``words`` words only: the rows of the others are the trained ones.
    """
    found = {}
    for name, weight in trained.items():
        found[name] = weight.clone()
        known = slice(words if name in WORD_ROWS else None)
        if weight.is_floating_point():
            found[name][known] = torch.lerp(weight[known], start[name][known], share)
    return found
