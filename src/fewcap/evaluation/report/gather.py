"""What a project folder holds for the report; stages that have not run are simply absent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fewcap.core.errors import FewcapError
from fewcap.core.store import MANIFEST, Manifest, read_json, read_jsonl, stage_seconds
from fewcap.core.types import VideoItem
from fewcap.data.prepare import read_dataset
from fewcap.evaluation.stage import CAPTIONS, ITEMS, SCORES

# Folder of a project -> the verb that makes it.
STAGES = {
    "data": "data",
    "features": "extract",
    "pseudo": "label",
    "model": "train",
    "captions": "caption",
    "scores": "score",
}
CONFIG = "fewcap.yaml"


@dataclass(frozen=True)
class Run:
    """The artefacts of one project."""

    folder: Path
    name: str
    manifests: Mapping[str, Manifest]
    seconds: Mapping[str, float | None]
    videos: Mapping[str, VideoItem] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    items: list[dict[str, Any]] = field(default_factory=list)  # rows of items.jsonl
    captions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # rows of captions.jsonl
    history: list[dict[str, Any]] = field(default_factory=list)  # one row an epoch of the first member
    pseudo: list[dict[str, Any]] = field(default_factory=list)  # rows of pseudo.jsonl
    backbones: Mapping[str, str] = field(default_factory=dict)  # kind -> network
    config: str = ""


def read_run(folder: Path) -> Run:
    """Reads every finished stage of a project."""
    manifests = {name: Manifest.read(folder / name) for name in STAGES if (folder / name / MANIFEST).exists()}
    if not manifests:
        raise FewcapError(f"{folder}: there is no finished stage to report on; run: fewcap run {folder}")

    def rows(stage: str, name: str) -> list[dict[str, Any]]:
        path = folder / stage / name
        return read_jsonl(path) if stage in manifests and path.exists() else []

    items = read_dataset(folder / "data").items if "data" in manifests else ()
    return Run(
        folder=folder,
        name=folder.resolve().name,
        manifests=manifests,
        seconds={name: stage_seconds(folder / name) for name in manifests},
        videos={item.id: item for item in items},
        scores=read_scores(folder / "scores") if "scores" in manifests else {},
        items=rows("scores", ITEMS),
        captions={row["id"]: row for row in rows("captions", CAPTIONS)},
        history=[row for row in rows("model", "metrics.jsonl") if row.get("member", 1) == 1],
        pseudo=rows("pseudo", "pseudo.jsonl"),
        backbones=_backbones(folder / "features") if "features" in manifests else {},
        config=(folder / CONFIG).read_text(encoding="utf-8") if (folder / CONFIG).exists() else "",
    )


def read_scores(folder: Path) -> dict[str, Any]:
    """The scores in a scores folder, or in that of a project."""
    place = folder if (folder / SCORES).exists() else folder / "scores"
    if not (place / SCORES).exists():
        raise FewcapError(f"{folder}: there are no scores here ({SCORES}); score the run first.")
    content = read_json(place / SCORES)
    if not isinstance(content, dict) or "metrics" not in content:
        raise FewcapError(f"{place / SCORES}: not the scores of a run; score the run again.")
    return content


def _backbones(folder: Path) -> dict[str, str]:
    path = folder / "index.json"
    if not path.exists():
        return {}
    return {kind: facts["name"] for kind, facts in read_json(path)["backbones"].items()}
