"""What a hundred clips of a domain gain over the captioner inside: python bench/finetune.py MSRVTT --out FOLDER

MSRVTT is a folder with MSR-VTT's annotations, `clips` and `frames.tar`. Its validation and test videos of one category,
which the captioner inside has not seen, are cut into folds: in each fold the others are a user's folder with one
caption a video (by the hash of its id; every ninth is for validation), and the fold is captioned. The captions of all
folds are scored together, against all captions of the videos; of several seeds the mean and the standard deviation are
shown. A second call goes on where the first one was.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import statistics
from pathlib import Path
from typing import Any

import yaml

from fewcap import Captioner
from fewcap.core.config.data import DataConfig
from fewcap.core.config.score import ScoreConfig
from fewcap.core.store import read_jsonl
from fewcap.core.types import VideoItem
from fewcap.data.choose import choose_sentences
from fewcap.data.prepare import prepare, read_dataset
from fewcap.evaluation.score import open_meteor, score_captions
from fewcap.features.store import FeatureStore
from fewcap.pipeline import Project, run

ANNOTATIONS = ("train_val_videodatainfo.json.gz", "test_videodatainfo.json.gz")
VARIANTS: dict[str, dict[str, Any]] = {
    "from random weights": {"label": {"enabled": False}, "train": {"start": "none"}},
    "fine-tuned": {"label": {"enabled": False}},
    "fine-tuned, told sentences": {"label": {"enabled": True}},
    "the same, start_share 0": {"label": {"enabled": True}, "train": {"start_share": 0.0}},
}


def unseen(msrvtt: Path, category: int, folder: Path) -> list[VideoItem]:
    """Videos of the category that have pictures and did not train the captioner inside, in a fixed random order."""
    known: dict[str, int] = {}
    for name in ANNOTATIONS:
        with gzip.open(msrvtt / name, "rt", encoding="utf-8") as file:
            known |= {video["video_id"]: video["category"] for video in json.load(file)["videos"]}
    captions, videos = tuple(msrvtt / name for name in ANNOTATIONS), (msrvtt / "clips", msrvtt / "frames.tar")
    prepare(folder, DataConfig(source="msrvtt", captions=captions, videos=videos, sentences="all"), seed=0)
    items = [i for i in read_dataset(folder).items if i.split != "train" and i.path and known[i.id] == category]
    items.sort(key=lambda item: item.id)
    random.Random(7).shuffle(items)
    return items


def make_project(
    folder: Path, msrvtt: Path, users: list[VideoItem], held: list[VideoItem], more: Any, seed: int
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, item in enumerate(users):
        [chosen] = choose_sentences(item.id, item.captions, 1)
        split = "val" if number % 9 == 8 else "train"
        rows.append({"video": item.id, "captions": [item.captions[chosen]], "split": split})
    rows += [{"video": item.id, "captions": item.captions, "split": "test"} for item in held]
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    videos = [str((msrvtt / name).resolve()) for name in ("clips", "frames.tar")]
    data = {"source": "folder", "captions": "captions.jsonl", "videos": videos}
    (folder / "fewcap.yaml").write_text(yaml.safe_dump({"seed": seed, "data": data, **more}), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("msrvtt", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--category", type=int, default=3, help="3 is sports")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    args = parser.parse_args()
    items = unseen(args.msrvtt, args.category, args.out / "data")
    folds = [items[fold :: args.folds] for fold in range(args.folds)]
    said: dict[tuple[str, int], dict[str, str]] = {}  # captions by variant and seed
    alone: dict[str, str] = {}
    inside = Captioner.default()
    for variant, seed in itertools.product(args.variants, args.seeds):
        said[variant, seed] = {}
        for fold, held in enumerate(folds):
            folder = args.out / f"{seed} {fold} {variant}"
            users = [item for item in items if item not in held]
            make_project(folder, args.msrvtt, users, held, VARIANTS[variant], seed)
            run(Project.open(folder, []))
            rows = read_jsonl(folder / "captions" / "captions.jsonl")
            said[variant, seed] |= {row["id"]: row["caption"] for row in rows}
            if held[0].id not in alone:
                store = FeatureStore(folder / "features")
                captions = inside.caption([store[item.id] for item in held])
                alone |= {item.id: caption.text for item, caption in zip(held, captions, strict=True)}
    references = {item.id: item.captions for item in items}
    with open_meteor(ScoreConfig()) as (meteor, _):

        def show(name: str, runs: list[dict[str, str]]) -> None:
            scores = [score_captions(each, references, ScoreConfig(), meteor=meteor).metrics for each in runs]
            shown = []
            for metric in ("cider_d", "bleu4", "meteor", "rouge_l"):
                values = [each[metric] for each in scores]
                spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
                shown.append(f"{metric} {statistics.mean(values):.1f}{spread}")
            print(f"{name}, {len(items)} videos: {', '.join(shown)}")

        show("the captioner inside, alone", [alone])
        for variant in args.variants:
            show(variant, [said[variant, seed] for seed in args.seeds])


if __name__ == "__main__":
    main()
