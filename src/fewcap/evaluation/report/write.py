"""Puts the page together and writes it."""

from __future__ import annotations

import logging
from importlib.resources import files
from pathlib import Path
from typing import Any

from fewcap import __version__
from fewcap.evaluation.report.gather import Run, read_run, read_scores
from fewcap.evaluation.report.parts import clip_part, cost_part, curve_part, score_part
from fewcap.evaluation.report.traces import how_invented, label_part

log = logging.getLogger("fewcap.evaluation")


def write_report(project: Path, out: Path, *, baseline: Path | None = None, clips: int = 60, pseudo: int = 24) -> Path:
    """Writes one HTML file about the finished stages of a project.

    ``baseline`` is another project or scores folder to compare with; a folder ``baseline`` in the project is taken
    without asking. ``clips`` and ``pseudo`` bound how many held-out clips and invented captions are shown.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    run = read_run(project)
    if baseline is None and (project / "baseline" / "scores" / "scores.json").exists():
        baseline = project / "baseline"
    page = _page(run, out, read_scores(baseline) if baseline is not None else None, clips, pseudo)
    here = files("fewcap.evaluation.report")
    environment = Environment(
        loader=FileSystemLoader(str(here)), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    html = environment.get_template("page.html.j2").render(
        page=page,
        style=Markup((here / "page.css").read_text(encoding="utf-8")),
        script=Markup((here / "page.js").read_text(encoding="utf-8")),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.tmp")
    # Captions may hold halves of surrogate pairs, which no encoding can write.
    temporary.write_text(html, encoding="utf-8", errors="replace")
    temporary.replace(out)
    log.info("report: %s (%.1f MB)", out, out.stat().st_size / 1e6)
    return out


def _page(run: Run, out: Path, baseline: dict[str, Any] | None, clips: int, pseudo: int) -> dict[str, Any]:
    scores = score_part(run, baseline)
    cards = clip_part(run, out, clips)
    labels = label_part(run.pseudo, pseudo)
    curves, costs = curve_part(run), cost_part(run)
    sections = [
        ("scores", "Scores", scores),
        ("curves", "Learning curves", curves),
        ("clips", "Clips", cards),
        ("pseudo", "Invented captions", labels),
        ("costs", "Costs", costs),
        ("reproduce", "Reproduce", True),
    ]
    shown = f"{len(cards)} of {len(run.items)} held-out clips: the worst, some of the best, and some in between."
    everything = f"All {len(cards)} held-out clips."
    invented = sum(len(row.get("sentences", [])) for row in run.pseudo)
    return {
        "title": run.name,
        "version": __version__,
        "summary": _summary(run),
        "facts": _facts(run, invented),
        "sections": [(anchor, name) for anchor, name, content in sections if content],
        "warnings": run.scores.get("warnings", []),
        "scores": scores,
        "curves": curves,
        "clips": cards,
        "clips_note": everything if len(cards) == len(run.items) else shown,
        "pseudo": labels,
        "pseudo_note": (
            f"{invented} captions were invented for {len(run.pseudo)} training clips; here are those of {len(labels)}. "
            + how_invented(_strategy(run))
        ),
        "costs": costs,
        "commands": _commands(run),
        "config": run.config.strip(),
        "versions": _versions(run),
        "digests": [(name, manifest.digest) for name, manifest in run.manifests.items()],
    }


def _strategy(run: Run) -> str:
    return str(run.manifests["pseudo"].counts.get("strategy", "edit")) if "pseudo" in run.manifests else "edit"


def _summary(run: Run) -> str:
    if not run.scores:
        done = ", ".join(run.manifests)
        return f"This run has no scores yet; finished so far: {done}."
    metrics, floors = run.scores["metrics"], run.scores.get("floors", {})
    text = f"CIDEr-D {metrics['cider_d']:.1f} on {run.scores['items']} held-out clips"
    interval = run.scores.get("intervals", {}).get("cider_d")
    if interval:
        text += f" ({interval[0]:.1f} to {interval[1]:.1f})"
    names = {"nearest_neighbour": "the nearest training clip's caption", "most_frequent": "one caption for all"}
    known = [f"{names[key]} {floors[key]['metrics']['cider_d']:.1f}" for key in names if key in floors]
    if known:
        text += "; without any model, " + " and ".join(known)
    return text + "."


def _facts(run: Run, invented: int) -> list[dict[str, str]]:
    facts: dict[str, str] = {}
    training = [item for item in run.videos.values() if item.split == "train"]
    if training:
        sentences = sum(len(item.captions) for item in training)
        facts["training clips"] = f"{len(training):,}"
        facts["given captions"] = f"{sentences:,} ({sentences / len(training):.1f} a clip)"
    if run.pseudo:
        facts["invented captions"] = f"{invented:,}"
    for kind, name in run.backbones.items():
        facts[kind] = name
    if "model" in run.manifests and "parameters" in run.manifests["model"].counts:
        facts["parameters"] = f"{run.manifests['model'].counts['parameters'] / 1e6:.1f} M"
    total = sum(seconds or 0 for seconds in run.seconds.values())
    if total:
        facts["time in all"] = f"{total / 60:.1f} min"
    return [{"name": name, "value": value} for name, value in facts.items()]


def _commands(run: Run) -> str:
    lines = [f"pip install fewcap=={__version__}"]
    lines += [f"# put the fewcap.yaml below into {run.name}/, and the data where it says", f"fewcap run {run.name}"]
    return "\n".join(lines)


def _versions(run: Run) -> str:
    newest = list(run.manifests.values())[-1]
    return "Made with " + ", ".join(f"{name} {version}" for name, version in newest.versions.items()) + "."
