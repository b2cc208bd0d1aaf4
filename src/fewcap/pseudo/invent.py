"""Candidates of every given sentence, kept: to choose more of them or to rank them otherwise needs no new ones."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fewcap.core.config.label import LabelConfig
from fewcap.core.errors import FewcapError
from fewcap.core.progress import progress
from fewcap.core.store import Manifest, Stage, Workspace, run_stage
from fewcap.core.types import VideoItem
from fewcap.pseudo.adapt import adapt_models
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.engines import Rows, run_here, run_ray
from fewcap.pseudo.strategies import load_strategy
from fewcap.text.keywords import keywords
from fewcap.text.tagger import load_tagger

VIDEOS_A_PART = 200  # a run that was stopped loses at most this many videos' candidates
CHOICE = frozenset(("keep", "rank"))  # settings of what happens to candidates afterwards

Found = dict[str, list[tuple[Source, list[Candidate]]]]  # of each video


def invent_candidates(
    out: Path,
    items: Sequence[VideoItem],
    config: LabelConfig,
    *,
    inputs: Mapping[str, str],
    settings: Mapping[str, Any],
    seed: int,
) -> Manifest:
    """Writes the candidates of all videos; ``inputs`` and ``settings`` are those of the label stage."""
    kept = {name: value for name, value in settings.items() if name not in CHOICE}
    stage = Stage(out, "candidates", inputs=inputs, config=kept)
    return run_stage(stage, lambda workspace: _build(workspace, items, config, seed))


def read_candidates(folder: Path) -> Found:
    """What ``invent_candidates`` wrote, videos and sentences in their old order."""
    found: Found = {}
    for name in sorted(Manifest.read(folder).files):
        for row in _unpacked(folder / name):
            source = Source(row["video"], row["number"], row["text"], tuple(row["keywords"]))
            candidates = [
                Candidate(tuple(c["words"]), tuple(c["edits"]), c["lm_score"], c["problem"], c.get("merit"))
                for c in row["candidates"]
            ]
            found.setdefault(source.video, []).append((source, candidates))
    return found


def sources_of(items: Sequence[VideoItem], config: LabelConfig) -> list[Source]:
    """The given sentences with their keywords."""
    tagger = load_tagger(config.tagger)
    most = min(config.words or config.edit.longest, config.edit.longest)
    return [
        Source(item.id, number, text, tuple(keywords(text, most, tagger=tagger)))
        for item in items
        for number, text in enumerate(item.captions)
    ]


def _build(workspace: Workspace, items: Sequence[VideoItem], config: LabelConfig, seed: int) -> dict[str, Any]:
    config = _with_adapted_models(workspace, items, config, seed)
    strategy = load_strategy(config, seed=seed)
    parts = {
        f"candidates-{start:06d}.jsonl.gz": sources_of(items[start : start + VIDEOS_A_PART], config)
        for start in range(0, len(items), VIDEOS_A_PART)
    }
    missing = {name: sources for name, sources in parts.items() if not workspace.exists(name)}
    sentences = sum(map(len, parts.values()))
    with progress("invent captions", sentences, "sentences") as bar:
        bar.advance(sentences - sum(map(len, missing.values())))
        done = run_ray(config, missing, seed=seed) if config.engine == "ray" else run_here(strategy, missing)
        for name, rows in done if missing else ():
            workspace.write_bytes(name, _packed(rows))
            bar.advance(len(parts[name]))
    return {"videos": len(items), "sentences": sentences, "keeps_keywords": strategy.keeps_keywords}


def _with_adapted_models(
    workspace: Workspace, items: Sequence[VideoItem], config: LabelConfig, seed: int
) -> LabelConfig:
    """The configuration with models that have learned from the given sentences; a stopped run finds them again."""
    if config.strategy != "edit":
        return config
    folder, done = workspace.path("scratch/models"), "scratch/adapted.json"
    if not workspace.exists(done):
        given = [caption for item in items for caption in item.captions]
        noise, scratch = config.training.noise, workspace.path("scratch/adapt")
        learned = adapt_models(config.models, given, config.adapt, noise, folder, scratch=scratch, seed=seed)
        workspace.write_json(done, learned)
    return config.model_copy(update={"models": str(folder)}) if workspace.read_json(done) else config


def _packed(rows: Rows) -> bytes:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return gzip.compress(lines.encode("utf-8"), mtime=0)


def _unpacked(path: Path) -> Rows:
    try:
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")
        return [json.loads(line) for line in lines if line]
    except (OSError, EOFError, zlib.error, ValueError):
        raise FewcapError(f"{path}: missing or damaged; delete the folder {path.parent} and run again.") from None
