"""The captioning stage: a sentence for every video of a split."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fewcap.captioning.captioner import Caption, Captioner
from fewcap.captioning.folder import check_features
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.devices import torch_threads
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest, Stage, Workspace, run_stage
from fewcap.core.types import Split
from fewcap.data.prepare import read_dataset
from fewcap.features.store import FeatureStore

log = logging.getLogger("fewcap.caption")

CAPTIONS = "captions.jsonl"


def caption(
    data: Path, features: Path, model: Path, out: Path, config: CaptionConfig, *, split: Split = "test"
) -> Manifest:
    """Writes captions.jsonl: each video's caption, score, keywords, words' shares and alternatives."""
    inputs = {
        "data": Manifest.read(data).digest,
        "features": Manifest.read(features).digest,
        "model": Manifest.read(model).digest,
    }
    stage = Stage(out, "captions", inputs=inputs, config={**config.model_dump(mode="json"), "split": split})

    def build(workspace: Workspace) -> dict[str, Any]:
        store = FeatureStore(features)
        items = read_dataset(data).split(split)
        ids = [item.id for item in items if item.id in store]
        if not ids:
            raise FewcapError(f"{features}: no video of the split '{split}' has features; caption another split.")
        if missing := len(items) - len(ids):
            log.warning("%d of %d videos of '%s' have no features and get no caption", missing, len(items), split)
        with torch_threads(config.threads):
            captioner = Captioner.load(model, config)
            kinds = {str(kind): info for kind, info in store.kinds.items()}
            check_features(captioner.trained.kinds, kinds, model, features)
            found = captioner.caption([store[video] for video in ids])
        workspace.write_jsonl(CAPTIONS, (caption_row(video, c) for video, c in zip(ids, found, strict=True)))
        return {"videos": len(ids), "without_features": missing, "different": len({c.text for c in found})}

    return run_stage(stage, build)


def caption_row(video: str, caption: Caption) -> dict[str, Any]:
    """A row of captions.jsonl."""
    return {
        "id": video,
        "caption": caption.text,
        "score": caption.score,
        "keywords": [asdict(keyword) for keyword in caption.keywords],
        "words": [asdict(word) for word in caption.words],
        "alternatives": [{"caption": a.text, "score": a.score} for a in caption.alternatives],
    }
