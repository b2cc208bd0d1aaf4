"""The demo: the whole job on made-up clips, and a table of what came out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewcap.core.config import load_config, write_config
from fewcap.core.errors import FewcapError
from fewcap.core.store import read_json, read_jsonl, readable_os_errors, stage_seconds
from fewcap.pipeline import CONFIG_FILE, Project, run

if TYPE_CHECKING:
    from rich.console import Group

# Drawings move and are cheap to see: a small network looks at many frames of them. A small network and small batches:
# 300 clips with one caption each are soon learnt by heart.
SETTINGS = (
    "features.appearance=efficientnet_lite0",
    "features.frame_rate=2",
    "features.min_frames=8",
    "features.max_frames=20",
    "train.model.width=256",
    "train.model.decoder_blocks=2",
    "train.batch=16",
    "train.learning_rate=1e-3",
    "train.epochs=30",
    "train.validate_from=15",
    "train.threads=1",  # on a busy machine two were far slower
    "caption.threads=1",
    "label.strategy=edit",  # the paper's, whose edits the report shows
    "label.keep=2",
    "train.word_loss=pseudo",
    "train.pseudo_per_video=1",
    "train.pseudo_weight=0.2",  # a language model of photographs invents colours that the clips do not have
    "train.vocabulary.count_pseudo=false",  # nor do they need its words
)
COLUMNS = {"bleu4": "BLEU-4", "meteor": "METEOR", "rouge_l": "ROUGE-L", "cider_d": "CIDEr-D"}
ROWS = {"most_frequent": "most frequent caption", "nearest_neighbour": "nearest training clip's caption"}


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows at its end."""

    scores: dict[str, Any]
    samples: list[dict[str, Any]]
    seconds: dict[str, float | None]
    report: Path

    def to_json(self) -> dict[str, Any]:
        return {"scores": self.scores, "seconds": self.seconds, "report": str(self.report)}

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        from fewcap.display import table

        metrics = [name for name in COLUMNS if name in self.scores["metrics"]]
        lines = [
            (label, self.scores["floors"][name]["metrics"])
            for name, label in ROWS.items()
            if name in self.scores["floors"]
        ]
        lines.append(("fewcap", self.scores["metrics"]))
        scores = table(
            f"{self.scores['items']} held-out clips",
            ["", *(COLUMNS[name] for name in metrics)],
            [[label, *(f"{values[name]:.1f}" for name in metrics)] for label, values in lines],
        )
        spoken = table("", ["clip", "says", "one of the references"], [])
        for sample in self.samples:
            spoken.add_row(sample["id"], sample["caption"], sample["references"][0])
        for column in spoken.columns:
            column.justify = "left"
        cost = ", ".join(f"{name} {value:.0f} s" for name, value in self.seconds.items() if value is not None)
        return Group(scores, spoken, Text(f"\ncost: {cost}\nreport: {self.report}"))


def run_demo(folder: Path, *, clips: int = 300, seed: int = 0, overrides: Iterable[str] = ()) -> DemoResult:
    """Renders clips with one caption each, runs all stages on them and returns scores beside their floors."""
    settings = [
        f"seed={seed}",
        "data.source=synthetic",
        f"data.synthetic.train={clips}",
        f"data.synthetic.val={max(10, clips // 5)}",
        f"data.synthetic.test={max(10, clips // 3)}",
        *SETTINGS,
        *overrides,
    ]
    config = load_config(None, settings)
    if folder.is_file():
        raise FewcapError(f"{folder}: is a file; name a folder for the demo.")
    if folder.exists() and any(folder.iterdir()) and not (folder / CONFIG_FILE).exists():
        raise FewcapError(f"{folder}: is not empty and no project; name another folder for the demo.")
    with readable_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_config(config, folder / CONFIG_FILE)
    project = Project(folder, config)
    started = time.monotonic()
    run(project)
    places = {
        "clips": project.data,
        "features": project.features,
        "pseudo-labels": project.pseudo,
        "training": project.model,
        "captions": project.captions,
        "scores": project.scores,
    }
    seconds = {name: stage_seconds(place) for name, place in places.items()}
    return DemoResult(
        scores=read_json(project.scores / "scores.json"),
        samples=read_jsonl(project.scores / "items.jsonl")[:8],
        seconds={**seconds, "this run": round(time.monotonic() - started, 1)},
        report=project.report,
    )
