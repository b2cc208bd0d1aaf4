"""The stage that invents captions: candidates around the keywords of each given sentence, ranked by the video."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewcap.core.config.label import LabelConfig, ModelsConfig
from fewcap.core.devices import torch_threads
from fewcap.core.errors import FewcapError
from fewcap.core.progress import progress
from fewcap.core.store import Manifest, Stage, Workspace, read_jsonl, run_stage
from fewcap.core.types import VideoItem
from fewcap.data.prepare import read_dataset
from fewcap.features.store import FeatureStore
from fewcap.pseudo.adapt import adapt_models
from fewcap.pseudo.candidates import Candidate, Source, Strategy
from fewcap.pseudo.engines import run_here, run_ray
from fewcap.pseudo.judge import Judged, judge
from fewcap.pseudo.rank import Ranker, load_ranker
from fewcap.pseudo.strategies import load_strategy, strategy_digest
from fewcap.text.keywords import keywords
from fewcap.text.tagger import load_tagger

log = logging.getLogger("fewcap.pseudo")

PSEUDO = "pseudo.jsonl"
_MODEL_TRAINING = set(ModelsConfig.model_fields) - {"noise"}  # their outcome is the models' own hash
VIDEOS_A_PART = 200  # a run that was stopped loses at most this many videos' candidates


@dataclass(frozen=True)
class PseudoSentence:
    """An invented sentence of a video."""

    text: str
    keywords: tuple[str, ...]
    source: str
    edits: tuple[dict[str, Any], ...]
    lm_score: float | None
    video_score: float | None


def label(data: Path, features: Path, out: Path, config: LabelConfig, *, seed: int) -> Manifest:
    """Writes ``pseudo.jsonl``: for each training video its best invented sentences, and why the others lost."""
    inputs = {"data": Manifest.read(data).digest, "features": Manifest.read(features).digest}
    inputs |= strategy_digest(config)
    # How the work is spread does not change its result.
    settings = config.model_dump(
        mode="json",
        exclude={"enabled": True, "engine": True, "workers": True, "batch": True, "training": _MODEL_TRAINING},
    )
    stage = Stage(out, "pseudo", inputs=inputs, config={**settings, "seed": seed})
    # The networks are small: threads wait for each other longer than they work, most of all on a busy machine.
    with torch_threads(1):
        return run_stage(stage, lambda workspace: _build(workspace, data, features, config, seed))


def read_pseudo(folder: Path) -> dict[str, list[PseudoSentence]]:
    """What ``label`` wrote, the best sentence of each video first."""
    manifest = Manifest.read(folder)
    if manifest.kind != "pseudo":
        raise FewcapError(
            f"{folder}: holds '{manifest.kind}', not pseudo-labels; name the pseudo folder of the project."
        )
    return {
        row["id"]: [
            PseudoSentence(**{**s, "keywords": tuple(s["keywords"]), "edits": tuple(s["edits"])})
            for s in row["sentences"]
        ]
        for row in read_jsonl(folder / PSEUDO)
    }


def _build(workspace: Workspace, data: Path, features: Path, config: LabelConfig, seed: int) -> Mapping[str, Any]:
    items = [item for item in read_dataset(data).split("train") if item.captions]
    if not items:
        raise FewcapError(f"{data}: no training video has a caption, so there is nothing to invent captions from.")
    config = _with_adapted_models(workspace, items, config, seed)
    strategy = load_strategy(config, seed=seed)
    found = _candidates(workspace, items, strategy, config, seed)
    tagger = load_tagger(config.tagger)
    verdicts = {
        item.id: judge(found[item.id], config.edit, tagger, keeps_keywords=strategy.keeps_keywords) for item in items
    }
    ranker = load_ranker(items, FeatureStore(features), config, seed=seed)
    rows = select(verdicts, ranker, config)
    workspace.write_jsonl(PSEUDO, rows)
    return _counts(rows, found)


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


Found = list[tuple[Source, list[Candidate]]]


def _candidates(
    workspace: Workspace, items: Sequence[VideoItem], strategy: Strategy, config: LabelConfig, seed: int
) -> dict[str, Found]:
    """Candidates of each video by source; parts that an earlier run finished are read back."""
    parts = {
        f"scratch/candidates-{start:06d}.jsonl": sources_of(items[start : start + VIDEOS_A_PART], config)
        for start in range(0, len(items), VIDEOS_A_PART)
    }
    missing = {name: sources for name, sources in parts.items() if not workspace.exists(name)}
    done = run_ray(config, missing, seed=seed) if config.engine == "ray" else run_here(strategy, missing)
    with progress("invent captions", sum(map(len, parts.values())), "sentences") as bar:
        bar.advance(sum(len(sources) for name, sources in parts.items() if name not in missing))
        for name, rows in done if missing else ():
            workspace.write_jsonl(name, rows)
            bar.advance(len(parts[name]))
    found: dict[str, Found] = {item.id: [] for item in items}
    for name in parts:
        for row in workspace.read_jsonl(name):
            source = Source(row["video"], row["number"], row["text"], tuple(row["keywords"]))
            candidates = [
                Candidate(tuple(c["words"]), tuple(c["edits"]), c["lm_score"], c["problem"]) for c in row["candidates"]
            ]
            found[source.video].append((source, candidates))
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


def select(
    verdicts: Mapping[str, Sequence[Judged]], ranker: Ranker | None, config: LabelConfig
) -> list[dict[str, Any]]:
    """The rows of ``pseudo.jsonl``."""
    passed = {video: most_fluent(judged, config.rank.fluent, config.keep) for video, judged in verdicts.items()}
    texts = {video: [judged.text for judged in group] for video, group in passed.items()}
    scores = ranker.scores(texts) if ranker is not None else {}
    rows = []
    for video, judged in verdicts.items():
        group = passed[video]
        video_scores: list[float | None] = (
            [round(float(s), 4) for s in scores[video]] if video in scores else [None] * len(group)
        )
        order = list(range(len(group)))
        if video in scores:
            order.sort(key=lambda i: (-scores[video][i], i))
        kept, beaten = order[: config.keep], order[config.keep :]
        rejected = [{"text": j.text, "why": j.why} for j in judged if j.why]
        fluent_enough = {id(j) for j in group}
        rejected += [
            {"text": j.text, "why": "less fluent than the others"}
            for j in judged
            if not j.why and id(j) not in fluent_enough
        ]
        why = "ranked lower by the video" if video in scores else "more candidates than asked for"
        rejected += [{"text": group[i].text, "why": why} for i in beaten]
        if not judged:
            rejected = [{"text": "", "why": "no candidates: the given sentences have no nouns or verbs"}]
        rows.append(
            {
                "id": video,
                "sentences": [_sentence(group[i], video_scores[i]) for i in kept],
                "rejected": rejected,
            }
        )
    return rows


def most_fluent(judged: Sequence[Judged], share: float, fewest: int = 1) -> list[Judged]:
    """The most fluent of those that passed, in their old order; strategies without a language model keep all."""
    passed = [j for j in judged if not j.why]
    scored = [j for j in passed if j.candidate.lm_score is not None]
    if len(scored) < len(passed):
        return passed
    most = max(fewest, round(share * len(passed)))
    best = sorted(range(len(passed)), key=lambda i: (-(passed[i].candidate.lm_score or 0.0), i))[:most]
    return [passed[i] for i in sorted(best)]


def _sentence(judged: Judged, video_score: float | None) -> dict[str, Any]:
    score = judged.candidate.lm_score
    return {
        "text": judged.text,
        "keywords": judged.source.keywords,
        "source": judged.source.text,
        "edits": judged.candidate.edits,
        "lm_score": round(score, 3) if score is not None else None,
        "video_score": video_score,
    }


def _counts(rows: Sequence[Mapping[str, Any]], found: Mapping[str, Found]) -> dict[str, Any]:
    why = Counter(reason["why"].split(" ")[0] for row in rows for reason in row["rejected"])
    return {
        "videos": len(rows),
        "sentences": sum(len(row["sentences"]) for row in rows),
        "candidates": sum(len(c) for groups in found.values() for _, c in groups),
        "videos_without_sentences": sum(not row["sentences"] for row in rows),
        "rejected": {reason: why[reason] for reason in sorted(why)},
    }
