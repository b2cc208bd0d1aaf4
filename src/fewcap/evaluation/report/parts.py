"""The parts of the page as plain values: what is shown, in which words and in which order."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fewcap.core.progress import track
from fewcap.evaluation.measure import HEADLINE, NAMES
from fewcap.evaluation.report.charts import Mark, Series, line_chart, scale_chart
from fewcap.evaluation.report.gather import STAGES, Run
from fewcap.evaluation.report.posters import poster

GLOSSES = {
    "bleu4": "runs of up to four words shared with a reference",
    "meteor": "words, stems, synonyms and their order",
    "rouge_l": "longest common subsequence",
    "cider_d": "words that set this clip apart, as references have them",
}


def score_part(run: Run, baseline: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """This run, what needs no model, and a baseline, by metric."""
    if not run.scores:
        return None
    floors = run.scores.get("floors", {})
    runs: list[dict[str, Any]] = [{"name": "this run", "style": "run", "detail": "", **_values(run.scores)}]
    if baseline is not None:
        runs.append({"name": "baseline", "style": "baseline", "detail": "", **_values(baseline)})
    if "nearest_neighbour" in floors:
        detail = "the caption of the training clip that looks most alike"
        runs.append({"name": "nearest neighbour", "style": "nearest", "detail": detail})
        runs[-1] |= _values(floors["nearest_neighbour"])
    if "most_frequent" in floors:
        detail = f"“{floors['most_frequent']['caption']}” for every clip"
        runs.append({"name": "most frequent caption", "style": "frequent", "detail": detail})
        runs[-1] |= _values(floors["most_frequent"])
    # The metric that decides comes first: on a phone the others are out of sight.
    columns = sorted((name for name in NAMES if name in run.scores["metrics"]), key=_prominence)
    charts = []
    for name in (name for name in columns if name in HEADLINE):
        marks = []
        for one in runs:
            if name in one["metrics"]:
                low, high = one["intervals"].get(name, (None, None))
                marks.append(Mark(one["name"], one["metrics"][name], one["style"], low, high))
        charts.append({"name": NAMES[name], "gloss": GLOSSES[name], "chart": scale_chart(NAMES[name], marks)})
    for one in runs:
        one["cells"] = [_cell(one, name) for name in columns]
    intervals = bool(run.scores.get("intervals"))
    note = f"{run.scores['items']} held-out clips; all values × 100, larger is better."
    if intervals:
        note += " Small figures and pale bars are 95 % bootstrap intervals: differences inside them may be chance."
    return {
        "note": note,
        "charts": charts,
        "runs": runs,
        "columns": [NAMES[name] for name in columns],
        "more": _more(run.scores),
    }


def _prominence(metric: str) -> int:
    order = ("cider_d", "bleu4", "meteor", "rouge_l")
    return order.index(metric) if metric in order else len(order)


def _values(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {"metrics": scores["metrics"], "intervals": scores.get("intervals", {})}


def _cell(run: Mapping[str, Any], name: str) -> dict[str, str] | None:
    if name not in run["metrics"]:
        return None
    low, high = run["intervals"].get(name, (None, None))
    return {
        "value": f"{run['metrics'][name]:.1f}",
        "interval": f"{low:.1f} – {high:.1f}" if low is not None else "",
    }


def _more(scores: Mapping[str, Any]) -> list[dict[str, str]]:
    found = []
    keywords, diversity = scores.get("keywords", {}), scores.get("diversity", {})
    for name, label in (("precision", "keyword precision"), ("recall", "keyword recall")):
        if name in keywords:
            found.append({"name": label, "value": f"{keywords[name]:.1f}"})
    for name, label in (("different_captions", "different captions"), ("new_sentences", "new sentences")):
        if name in diversity:
            found.append({"name": label, "value": f"{100 * diversity[name]:.0f} %"})
    for name, label in (("distinct_1", "distinct-1"), ("distinct_2", "distinct-2")):
        if name in diversity:
            found.append({"name": label, "value": f"{diversity[name]:.3f}"})
    if "vocabulary" in diversity:
        found.append({"name": "vocabulary", "value": f"{diversity['vocabulary']:,} words"})
        found.append({"name": "mean length", "value": f"{diversity['mean_length']:.1f} words"})
    return found


def curve_part(run: Run) -> list[dict[str, Any]]:
    """Loss and validation score by epoch."""
    history = run.history
    if not history:
        return []
    losses = [("sentence_loss", "sentence loss", "line-a"), ("word_loss", "word loss", "line-c")]
    series = [
        Series(label, [(row["epoch"], row.get(key)) for row in history], style)
        for key, label, style in losses
        if any(row.get(key) is not None for row in history)
    ]
    curves = []
    if series:
        gloss = " and ".join(one.name for one in series) + " in training"
        curves.append({"name": "Loss", "gloss": gloss, "chart": line_chart("Loss", series, x_label="epoch")})
    scored = [(row["epoch"], row.get("score")) for row in history]
    if any(value is not None for _, value in scored):
        lines = [Series("CIDEr-D", scored, "line-b")]
        smoothed = [(row["epoch"], row.get("smoothed")) for row in history]
        if any(value is not None for _, value in smoothed):
            lines.append(Series("smoothed", smoothed, "line-d"))
        decides = lines[-1].points
        best = max((point for point in decides if point[1] is not None), key=lambda point: point[1] or 0)
        chart = line_chart(
            "CIDEr-D on validation", lines, x_label="epoch", best=best[0], best_label=f"kept: {best[1]:.1f}"
        )
        curves.append({"name": "CIDEr-D", "gloss": "on validation clips", "chart": chart})
    return curves


def choose_clips(items: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """The worst half, some of the best, and some drawn by their names; worst first."""
    ordered = sorted(items, key=lambda row: (row["cider_d"], row["id"]))
    if len(ordered) <= limit:
        return ordered
    worst, best = ordered[: limit // 2], ordered[len(ordered) - limit // 4 :]
    between = sorted(ordered[limit // 2 : len(ordered) - limit // 4], key=lambda row: _lot(row["id"]))
    drawn = between[: limit - len(worst) - len(best)]
    return sorted([*worst, *drawn, *best], key=lambda row: (row["cider_d"], row["id"]))


def _lot(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8")).hexdigest()


def clip_part(run: Run, out: Path, limit: int) -> list[dict[str, Any]]:
    """Cards of held-out clips."""
    cards = []
    for row in track(choose_clips(run.items, limit), "stills for the report", unit="clips"):
        caption = run.captions.get(row["id"], {})
        video = run.videos.get(row["id"])
        path = video.path if video is not None else None
        words = [
            {"word": word["word"], "video": round(100 * share), "keywords": 100 - round(100 * share)}
            for word in caption.get("words", [])
            if (share := word.get("video_share")) is not None
        ]
        references, text = row.get("references", []), row.get("caption", "")
        playable = path is not None and path.is_file()
        cards.append(
            {
                "id": row["id"],
                "caption": text,
                "score": round(row["cider_d"], 3),
                "badge": f"{row['cider_d']:.0f}",
                "grade": _grade(row["cider_d"]),
                "video_share": round(sum(word["video"] for word in words) / len(words), 1) if words else 0,
                "words": words,
                "keywords": _weighted(caption.get("keywords", [])),
                "alternatives": [
                    {"caption": other["caption"], "score": f"{other['score']:.2f}"}
                    for other in caption.get("alternatives", [])
                    if other["caption"] != text
                ],
                "references": references,
                "poster": poster(path),
                "source": _link(path, out) if playable and path is not None else None,
                "text": " ".join([row["id"], text, *references]).lower(),
            }
        )
    return cards


def _grade(score: float) -> str:
    """A colour for a clip: 100 is about what the better published captioners reach on MSVD."""
    return "poor" if score < 40 else "fair" if score < 100 else "good"


def _weighted(keywords: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    largest = max((keyword["weight"] for keyword in keywords), default=0) or 1
    ordered = sorted(keywords, key=lambda keyword: -keyword["weight"])
    return [
        {
            "word": keyword["word"],
            "weight": f"{keyword['weight']:.2f}",
            "width": max(0, round(100 * keyword["weight"] / largest)),
        }
        for keyword in ordered
    ]


def _link(path: Path, out: Path) -> str:
    """The clip's address relative to the page."""
    return quote(Path(os.path.relpath(path, out.resolve().parent)).as_posix())


def cost_part(run: Run) -> list[dict[str, Any]]:
    largest = max((seconds or 0 for seconds in run.seconds.values()), default=0) or 1
    return [
        {
            "stage": STAGES[name],
            "time": _clock(seconds) if seconds is not None else "–",
            "width": round(100 * (seconds or 0) / largest, 1),
            "result": ", ".join(
                _count(key, value)
                for key, value in run.manifests[name].counts.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            ),
        }
        for name, seconds in run.seconds.items()
    ]


def _count(name: str, value: float) -> str:
    label = NAMES.get(name, name.replace("_", " "))
    return f"{value:,} {label}" if isinstance(value, int) else f"{label} {value:,.4g}"


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02d} min"
