"""The stage that invents captions: candidates around the keywords of each given sentence, ranked by the video."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewcap.core.config.label import LabelConfig, ModelsConfig
from fewcap.core.devices import torch_threads
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest, Stage, Workspace, read_jsonl, run_stage
from fewcap.data.prepare import read_dataset
from fewcap.features.store import FeatureStore
from fewcap.pseudo.invent import Found, invent_candidates, read_candidates
from fewcap.pseudo.judge import Judged, judge
from fewcap.pseudo.likeness import sounding_like
from fewcap.pseudo.nearness import near_enough
from fewcap.pseudo.rank import Ranker, load_ranker
from fewcap.pseudo.strategies import settled, strategy_digest
from fewcap.text.closeness import standardised
from fewcap.text.embed import SentenceEncoder
from fewcap.text.tagger import load_tagger
from fewcap.text.tokenise import words

log = logging.getLogger("fewcap.pseudo")

PSEUDO = "pseudo.jsonl"
_MODEL_TRAINING = set(ModelsConfig.model_fields) - {"noise"}  # their outcome is the models' own hash


@dataclass(frozen=True)
class PseudoSentence:
    """An invented sentence of a video."""

    text: str
    keywords: tuple[str, ...]
    source: str
    edits: tuple[dict[str, Any], ...]
    lm_score: float | None
    video_score: float | None


def label(
    data: Path, features: Path, out: Path, config: LabelConfig, *, seed: int, candidates: Path | None = None
) -> Manifest:
    """Writes ``pseudo.jsonl``: for each training video its best invented sentences, and why the others lost.

    ``candidates`` is where candidates are kept, ``OUT-candidates`` by default; runs that differ only in which of them
    they choose may share it.
    """
    inputs = {"data": Manifest.read(data).digest, "features": Manifest.read(features).digest}
    dataset = read_dataset(data)
    items = [item for item in dataset.split("train") if item.captions]
    config = settled(config, dataset.source, [text for item in items for text in item.captions])
    inputs |= strategy_digest(config)
    # How the work is spread does not change its result.
    settings = config.model_dump(
        mode="json",
        exclude={"enabled": True, "engine": True, "workers": True, "batch": True, "training": _MODEL_TRAINING},
    )
    stage = Stage(out, "pseudo", inputs=inputs, config={**settings, "seed": seed})
    kept = candidates or out.with_name(f"{out.name}-candidates")

    def build(workspace: Workspace) -> Mapping[str, Any]:
        if not items:
            raise FewcapError(f"{data}: no training video has a caption, so there is nothing to invent captions from.")
        chains = {name: digest for name, digest in inputs.items() if name != "features"}
        invented = invent_candidates(kept, items, config, inputs=chains, settings=stage.config, seed=seed)
        found = read_candidates(kept)
        tagger = load_tagger(config.tagger)
        keeps_keywords = invented.counts["keeps_keywords"]
        verdicts = {
            item.id: judge(found[item.id], config.edit, tagger, keeps_keywords=keeps_keywords) for item in items
        }
        if config.nearness:
            verdicts = near_enough(verdicts, SentenceEncoder.load(config.video_text.encoder), config.nearness)
        if config.rank.likeness:
            verdicts = sounding_like(verdicts, [" ".join(words(text)) for item in items for text in item.captions])
        rows = select(verdicts, load_ranker(items, FeatureStore(features), config, seed=seed), config)
        workspace.write_jsonl(PSEUDO, rows)
        return {"strategy": config.strategy, **_counts(rows, found)}

    # The networks are small: threads wait for each other longer than they work, most of all on a busy machine.
    with torch_threads(1):
        return run_stage(stage, build)


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
        worth = _worth(group, scores.get(video))
        order = sorted(range(len(group)), key=lambda i: (-worth[i], i))
        kept, beaten = order[: config.keep], order[config.keep :]
        rejected = [{"text": j.text, "why": j.why} for j in judged if j.why]
        fluent_enough = {id(j) for j in group}
        rejected += [
            {"text": j.text, "why": "less fluent than the others"}
            for j in judged
            if not j.why and id(j) not in fluent_enough
        ]
        why = "ranked lower by the video" if video in scores else "more candidates than asked for"
        if any(j.candidate.merit is not None for j in group):
            why = "ranked lower by agreement, meaning, likelihood" + (" and video" if video in scores else "")
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


def _worth(group: Sequence[Judged], video_scores: np.ndarray | None) -> np.ndarray:
    """By what candidates are ranked: the video, beside their merits where they have some; nothing: as they come."""
    merits = [j.candidate.merit for j in group]
    if any(merit is None for merit in merits):
        return np.zeros(len(group)) if video_scores is None else video_scores
    told = np.array(merits, dtype=float)
    return told if video_scores is None else told + standardised(video_scores)


def most_fluent(judged: Sequence[Judged], share: float, fewest: int = 1) -> list[Judged]:
    """The most fluent of those that passed, in their old order; all where fluency is unknown or part of a merit."""
    passed = [j for j in judged if not j.why]
    scored = [j for j in passed if j.candidate.lm_score is not None and j.candidate.merit is None]
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


def _counts(rows: Sequence[Mapping[str, Any]], found: Found) -> dict[str, Any]:
    why = Counter(reason["why"].split(" ")[0] for row in rows for reason in row["rejected"])
    return {
        "videos": len(rows),
        "sentences": sum(len(row["sentences"]) for row in rows),
        "candidates": sum(len(c) for groups in found.values() for _, c in groups),
        "videos_without_sentences": sum(not row["sentences"] for row in rows),
        "rejected": {reason: why[reason] for reason in sorted(why)},
    }
