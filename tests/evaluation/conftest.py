"""Real references, and captions to score against them: another caption of the same video, of another, damaged ones."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from evaluation_project import make_project

Corpus = tuple[dict[str, str], dict[str, list[str]]]


def _read_jsonl(path: Path) -> list[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _captions_for(references: dict[str, list[str]], seed: int) -> Corpus:
    """Takes one reference out of each group and turns it into a caption of varying quality."""
    draw = random.Random(seed)
    everything = [caption for group in references.values() for caption in group]
    captions, left = {}, {}
    for key, group in references.items():
        held_out, *rest = group
        words = held_out.split()
        choice = draw.randrange(6)
        if choice == 0:
            words = draw.choice(everything).split()
        elif choice == 1:
            draw.shuffle(words)
        elif choice == 2:
            words = words + words[-2:]
        elif choice == 3:
            words = [*words[: len(words) // 2], "zyxomma"]
        captions[key], left[key] = " ".join(words), rest
    captions[next(iter(captions))] = ""
    return captions, left


@pytest.fixture(scope="session")
def msvd(shared_data: Path) -> Corpus:
    rows = [row for row in _read_jsonl(shared_data / "msvd" / "captions.jsonl.gz") if row["split"] == "test"]
    return _captions_for({str(row["video_id"]): list(row["captions"]) for row in rows}, seed=1)  # type: ignore[call-overload]


@pytest.fixture(scope="session")
def msrvtt(shared_data: Path) -> Corpus:
    with gzip.open(shared_data / "msrvtt" / "test_videodatainfo.json.gz", "rt", encoding="utf-8") as file:
        sentences = json.load(file)["sentences"]
    references: dict[str, list[str]] = {}
    for row in sentences:
        references.setdefault(row["video_id"], []).append(row["caption"])
    chosen = dict(list(references.items())[:500])
    return _captions_for(chosen, seed=2)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished project with scores, without METEOR (its process takes seconds to start)."""
    from fewcap.core.config.score import ScoreConfig
    from fewcap.evaluation.stage import evaluate

    folder = make_project(tmp_path_factory.mktemp("project"))
    config = ScoreConfig(meteor="off", bootstrap=200)
    evaluate(folder / "data", folder / "captions", folder / "scores", config, features=folder / "features")
    return folder
