"""The folder of a trained captioner: everything that captioning needs, and nothing else.

model.safetensors      weights of the captioner; model-2.safetensors, … of its further members
config.json            its configuration, the features' names, sizes and hashes, what it has learnt about choosing,
                       captions that it has ready for any video
vocabulary.json        words in the order of their numbers
bank.jsonl             sentences for retrieving keywords: {"text", "video", "keywords"}
bank.safetensors       their embeddings, half precision
videotext.safetensors  the video side of the two-tower model
metrics.jsonl          one row an epoch of each member
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from fewcap.captioning.choice import Choice
from fewcap.captioning.model import CaptionModel, Dims
from fewcap.captioning.retrieval import SentenceBank
from fewcap.core.config.train import TrainConfig
from fewcap.core.eightbit import eight_bit, restored
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest, Workspace, read_json, read_jsonl
from fewcap.features.store import KindInfo
from fewcap.pseudo.videotext import Tower
from fewcap.text.vocabulary import SPECIALS, Vocabulary

CONFIG, VOCABULARY = "config.json", "vocabulary.json"
BANK, BANK_EMBEDDINGS, VIDEOTEXT, METRICS = (
    "bank.jsonl",
    "bank.safetensors",
    "videotext.safetensors",
    "metrics.jsonl",
)


def member_file(number: int) -> str:
    """The weights of one member, counted from 0."""
    return "model.safetensors" if number == 0 else f"model-{number + 1}.safetensors"


@dataclass(frozen=True)
class Limits:
    """What tells a caption that deserves little confidence; None: not known."""

    score: float | None = None  # a lower one is doubtful
    distance: float | None = None  # of a video from the centre of the training videos; a larger one is strange


@dataclass(frozen=True)
class TrainedCaptioner:
    """The parts of a model folder."""

    models: Sequence[CaptionModel]  # its members, which speak together
    config: TrainConfig
    vocabulary: Vocabulary
    bank: SentenceBank
    tower: Tower
    kinds: Mapping[str, KindInfo]
    extraction: Mapping[str, Any]  # configuration of the features, for captioning a file
    limits: Limits = Limits()
    choice: Choice | None = None  # None: captions are chosen by the plain vote
    common: Mapping[str, float] = field(default_factory=dict)  # captions that it has ready for any video

    def save(self, workspace: Workspace, *, compact: bool = False) -> None:
        """Writes all files but the metrics; ``compact``: with a byte for each number of a matrix."""
        form = eight_bit if compact else dict
        for number, model in enumerate(self.models):
            weights = model.state_dict()
            if self.config.model.tie_words:
                weights.pop("classifier.weight")
            tensors = {name: weight.cpu().contiguous() for name, weight in weights.items()}
            workspace.write_tensors(member_file(number), form(tensors))
        workspace.write_json(
            CONFIG,
            {
                "train": self.config.model_dump(mode="json"),
                "features": {kind: asdict(info) for kind, info in self.kinds.items()},
                "extraction": dict(self.extraction),
                "sentence_dim": self.models[0].dims.sentence,
                "limits": asdict(self.limits),
                "choice": asdict(self.choice) if self.choice is not None else None,
                "common": dict(self.common),
            },
        )
        workspace.write_json(VOCABULARY, list(self.vocabulary.words[len(SPECIALS) :]))
        workspace.write_jsonl(
            BANK,
            (
                {"text": text, "video": owner, "keywords": list(keywords)}
                for text, owner, keywords in zip(self.bank.texts, self.bank.owners, self.bank.keywords, strict=True)
            ),
        )
        embeddings = torch.from_numpy(self.bank.embeddings)
        workspace.write_tensors(BANK_EMBEDDINGS, form({"embeddings": embeddings if compact else embeddings.half()}))
        tower = {name: torch.from_numpy(value).contiguous() for name, value in vars(self.tower).items()}
        workspace.write_tensors(VIDEOTEXT, form(tower))

    @classmethod
    def load(cls, folder: Path) -> TrainedCaptioner:
        """Reads a complete model folder."""
        Manifest.read(folder)  # says so when training has not finished
        config, kinds = read_settings(folder)
        content = read_json(folder / CONFIG)
        vocabulary = Vocabulary(read_json(folder / VOCABULARY))
        rows = read_jsonl(folder / BANK)
        bank = SentenceBank(
            tuple(row["text"] for row in rows),
            tuple(row["video"] for row in rows),
            tuple(tuple(row["keywords"]) for row in rows),
            restored(load_file(folder / BANK_EMBEDDINGS))["embeddings"].numpy(),
        )
        tower = Tower(**{name: np.array(value) for name, value in restored(load_file(folder / VIDEOTEXT)).items()})
        dims = Dims(
            {kind: info.dim for kind, info in kinds.items()},
            len(vocabulary),
            content["sentence_dim"],
            config.keywords.count,
        )
        models = [_read_model(folder / member_file(number), config, dims) for number in range(config.members)]
        limits = Limits(**content.get("limits", {}))
        choice = Choice(**content["choice"]) if content.get("choice") else None
        common = content.get("common", {})
        return cls(models, config, vocabulary, bank, tower, kinds, content["extraction"], limits, choice, common)


def _read_model(path: Path, config: TrainConfig, dims: Dims) -> CaptionModel:
    model = CaptionModel(config.model, dims)
    weights = restored(load_file(path))
    if config.model.tie_words:
        weights["classifier.weight"] = weights["word_embedding.weight"]
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise FewcapError(f"{path}: does not fit {CONFIG} ({reason}); train again.") from None
    return model.eval()


def read_settings(folder: Path) -> tuple[TrainConfig, dict[str, KindInfo]]:
    """The configuration of a model folder, and the features that the model knows."""
    content = read_json(folder / CONFIG)
    kinds = {kind: KindInfo(**facts) for kind, facts in content["features"].items()}
    return TrainConfig.model_validate(content["train"]), kinds


def check_features(
    expected: Mapping[str, KindInfo], found: Mapping[str, KindInfo], model: Path | str, source: Path | str
) -> None:
    """Refuses features of other backbones than the model has learnt from, and names both."""
    for kind, info in expected.items():
        other = found.get(kind)
        if other is None:
            raise FewcapError(
                f"{source}: has no {kind} features, but the model {model} was trained on {kind} by '{info.name}'; "
                f"extract the features with {kind}."
            )
        if (other.name, other.dim, other.hash) != (info.name, info.dim, info.hash):
            raise FewcapError(
                f"{source}: {kind} features come from '{other.name}' ({other.dim}-d, {other.hash[:12]}), but the model "
                f"{model} was trained on '{info.name}' ({info.dim}-d, {info.hash[:12]}); extract with that one."
            )
