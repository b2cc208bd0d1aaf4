"""The scoring stage: captions of held-out videos against their references, beside what needs no model."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fewcap.core.config.score import ScoreConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest, Stage, Workspace, read_jsonl, run_stage
from fewcap.core.types import Split
from fewcap.data.prepare import Dataset, read_dataset
from fewcap.evaluation.floors import most_frequent_caption, nearest_neighbours
from fewcap.evaluation.measure import Measurement, PreparedReferences, measure
from fewcap.evaluation.meteor import Meteor
from fewcap.evaluation.score import open_meteor, score_captions

log = logging.getLogger("fewcap.evaluation")

SCORES, ITEMS = "scores.json", "items.jsonl"
CAPTIONS = "captions.jsonl"


def evaluate(
    data: Path,
    captions: Path,
    out: Path,
    config: ScoreConfig,
    *,
    split: Split = "test",
    features: Path | None = None,
) -> Manifest:
    """Writes ``scores.json`` and ``items.jsonl``. With features also the nearest neighbour's captions are scored."""
    inputs = {"data": Manifest.read(data).digest, "captions": Manifest.read(captions).digest}
    if features is not None and config.floors:
        inputs["features"] = Manifest.read(features).digest
    # Whether METEOR can run belongs to the key: after installing Java the scores are not up to date.
    with open_meteor(config) as (meteor, notes):
        settings = {**config.model_dump(mode="json"), "split": split, "meteor_runs": meteor is not None}
        stage = Stage(out, "scores", inputs=inputs, config=settings)
        return run_stage(
            stage, lambda workspace: _build(workspace, data, captions, features, config, split, meteor, notes)
        )


def _build(
    workspace: Workspace,
    data: Path,
    captions_folder: Path,
    features: Path | None,
    config: ScoreConfig,
    split: Split,
    meteor: Meteor | None,
    notes: Sequence[str],
) -> Mapping[str, Any]:
    dataset = read_dataset(data)
    captions = {row["id"]: row["caption"] for row in read_jsonl(captions_folder / CAPTIONS)}
    references = {item.id: list(item.captions) for item in dataset.split(split) if item.captions}
    if not references:
        raise FewcapError(f"{data}: the split '{split}' has no captions to score against.")
    training = [caption for item in dataset.split("train") for caption in item.captions]
    scores = score_captions(captions, references, config, meteor=meteor, notes=notes, training=training)
    for warning in scores.warnings:
        log.warning("%s", warning)
    floors = _floors(dataset, split, scores.measurement, features, meteor) if config.floors else {}
    workspace.write_json(SCORES, {"split": split, **scores.to_json(), "floors": floors})
    rows = [
        {**row, "caption": captions.get(row["id"], ""), "references": references[row["id"]]}
        for row in scores.measurement.rows()
    ]
    workspace.write_jsonl(ITEMS, rows)
    return {"captions": scores.items, **{name: round(value, 2) for name, value in scores.metrics.items()}}


def _floors(
    dataset: Dataset, split: Split, run: Measurement, features: Path | None, meteor: Meteor | None
) -> dict[str, Any]:
    """Metrics of captions that need no model, on the items of the run."""
    training = dataset.split("train")
    videos = [dataset.by_id[identifier] for identifier in run.ids]
    references = PreparedReferences({item.id: item.captions for item in videos})
    meteor = meteor if run.has_meteor else None
    floors: dict[str, Any] = {}
    if (sentence := most_frequent_caption(training)) is not None:
        same = measure(dict.fromkeys(run.ids, sentence), references, meteor)
        floors["most_frequent"] = {"caption": sentence, "metrics": same.corpus()}
    if features is not None:
        nearest = nearest_neighbours(training, videos, features)
        if nearest:
            captions = {identifier: nearest.get(identifier, ("", ""))[1] for identifier in run.ids}
            floors["nearest_neighbour"] = {
                "videos": len(nearest),
                "metrics": measure(captions, references, meteor).corpus(),
            }
    return floors


def read_measurement(folder: Path) -> tuple[Measurement, list[dict[str, Any]]]:
    """What ``evaluate`` measured, and the rows it wrote, one an item."""
    Manifest.read(folder)
    rows = read_jsonl(folder / ITEMS)
    return Measurement.from_rows(rows), rows
