"""The command line: a thin table over importable functions. Heavy libraries load inside the verbs."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from fewcap import __version__
from fewcap.core.errors import FewcapError, UsageError

app = typer.Typer(
    help="Video captioning from one to three captions a video.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ProjectFolder = Annotated[Path, typer.Argument(help="A project folder (see: fewcap init).", show_default=False)]
Overrides = Annotated[
    list[str], typer.Option("--set", "-s", metavar="KEY=VALUE", help="Override a setting, e.g. train.epochs=3.")
]
FromScratch = Annotated[
    bool, typer.Option("--from-scratch", help="Start from random weights, not from the shipped captioner.")
]
EngineName = Annotated[
    Literal["local", "ray"] | None, typer.Option("--engine", help="Who runs the workers: local processes, or Ray.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON on standard output.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"fewcap {__version__}")
        raise typer.Exit


@app.callback()
def options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Video captioning from one to three captions a video."""
    logger = logging.getLogger("fewcap")
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter())
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.WARNING if quiet else logging.INFO)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where the demo works.")] = Path("fewcap-demo"),
    clips: Annotated[int, typer.Option(min=20, help="Training clips to make.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Seeds everything.")] = 0,
    overrides: Overrides = [],  # noqa: B006 - typer reads the default, nothing writes to it
    as_json: AsJson = False,
) -> None:
    """The whole job on made-up clips: render, invent captions, train, caption, score, report."""
    from fewcap.demo import run_demo

    _answer(run_demo(folder, clips=clips, seed=seed, overrides=overrides), as_json)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="The project folder to make.", show_default=False)],
    videos: Annotated[Path, typer.Option(help="Folder of videos.", show_default=False)],
    captions: Annotated[Path, typer.Option(help="CSV, TSV or JSONL of captions.", show_default=False)],
    sentences: Annotated[int, typer.Option(min=1, help="Captions used of each training video.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seeds the split and everything after it.")] = 0,
    video_column: Annotated[str | None, typer.Option(help="Column that names the video, if not obvious.")] = None,
    caption_column: Annotated[str | None, typer.Option(help="Column with the caption, if not obvious.")] = None,
    split_column: Annotated[str | None, typer.Option(help="Column with the split, if not obvious.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a project folder from a folder of videos and a captions file."""
    from fewcap.data.init import init_project

    found = init_project(
        folder,
        videos,
        captions,
        sentences=sentences,
        seed=seed,
        video_column=video_column,
        caption_column=caption_column,
        split_column=split_column,
    )
    _answer(found, as_json)


@app.command()
def extract(
    project: ProjectFolder,
    engine: EngineName = None,
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Take appearance, motion and object features from the videos."""
    _stage("extract", project, [*overrides, *_engine("features", engine)], as_json)


@app.command()
def label(
    project: ProjectFolder,
    train_models: Annotated[
        bool, typer.Option("--train-models", help="First train language models on label.training.corpus.")
    ] = False,
    engine: EngineName = None,
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Invent captions around the keywords of the given ones, ranked by the video."""
    overrides = [*overrides, *_engine("label", engine)]
    if train_models:
        from fewcap import pipeline

        folder = pipeline.train_language_models(pipeline.Project.open(project, overrides))
        overrides = [*overrides, f"label.models={folder}"]
    _stage("label", project, overrides, as_json)


@app.command()
def train(
    project: ProjectFolder,
    from_scratch: FromScratch = False,
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Train the captioner on given and invented captions."""
    _stage("train", project, [*overrides, *_start(from_scratch)], as_json)


@app.command()
def run(
    project: ProjectFolder,
    until: Annotated[str, typer.Option(help="Last stage: data, extract, label, train, caption or score.")] = "score",
    from_scratch: FromScratch = False,
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """All stages of a project, left to right; what has not changed is skipped."""
    _stage(until, project, [*overrides, *_start(from_scratch)], as_json)


@app.command()
def caption(
    videos: Annotated[
        list[str], typer.Argument(help="Videos, folders, patterns; '-' reads a list of them.", show_default=False)
    ],
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="A trained project or a model folder; without it fewcap's own.")
    ] = None,
    format: Annotated[
        Literal["text", "jsonl", "csv", "srt", "vtt"], typer.Option("--format", "-f", help="How captions are written.")
    ] = "text",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file, for subtitles a folder; one that is there is gone on with."),
    ] = None,
    shots: Annotated[
        bool | None,
        typer.Option(
            "--shots/--no-shots",
            help="Cut every video at its shot changes, or none; without it those of more than 30 s.",
            show_default=False,
        ),
    ] = None,
    n_best: Annotated[int, typer.Option(min=1, max=50, help="How many captions a video.")] = 1,
    explain: Annotated[bool, typer.Option(help="Show keywords and, for each word, the share of the video.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
) -> None:
    """Caption videos with fewcap's own model or one that you have trained."""
    if as_json and format not in ("text", "jsonl"):
        raise UsageError(f"--json and --format {format} exclude each other; choose one.")
    from fewcap.captioning.files import find_videos, load_captioner
    from fewcap.captioning.formats import Style
    from fewcap.captioning.outputs import caption_to, cut_limit, open_output

    written_as = "jsonl" if as_json else format
    cut_above = cut_limit(written_as, shots)
    paths = find_videos(videos, sys.stdin if "-" in videos else ())
    output = open_output(written_as, out, paths, Style(n_best, explain))
    try:
        written = caption_to(output, paths, lambda: load_captioner(model, n_best), cut_above=cut_above, tell=_tell)
    except BrokenPipeError:  # the reader has seen enough: fewcap caption clips | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    except _Stopped:
        if out is not None:
            raise
        _fail("stopped; with --out a second run goes on where it was.", 130)
    if written.failed:
        _fail(str(written), 1)


@app.command()
def score(
    predictions: Annotated[Path, typer.Argument(help="Captions: COCO JSON, JSONL or CSV.", show_default=False)],
    references: Annotated[Path, typer.Argument(help="References: COCO JSON, JSONL or CSV.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Score captions against references: BLEU, METEOR, ROUGE-L, CIDEr-D. Needs no project."""
    from fewcap.core.config.score import ScoreConfig
    from fewcap.evaluation.score import score as score_files

    _answer(score_files(predictions, references, ScoreConfig()), as_json)


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="A scored project or scores folder.", show_default=False)],
    second: Annotated[Path, typer.Argument(help="The run to compare it with.", show_default=False)],
    clips: Annotated[int, typer.Option(min=0, help="Clips to show where the two differ most.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Compare two runs: score differences with significance, and the clips where they differ most."""
    from fewcap.core.config.score import ScoreConfig
    from fewcap.evaluation.compare import compare as compare_runs

    _answer(compare_runs(first, second, ScoreConfig(), clips=clips), as_json)


@app.command()
def reproduce(
    table: Annotated[int, typer.Argument(min=2, max=12, help="A table of the paper.", show_default=False)],
    project: ProjectFolder,
    out: Annotated[Path | None, typer.Option(help="Where tables go; PROJECT/tables without it.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each row, with seeds 0, 1, ...")] = 1,
    budget: Annotated[float | None, typer.Option(min=0, help="Minutes; rows that do not fit are named.")] = None,
    settings: Annotated[
        Literal["paper", "release", "own"],
        typer.Option(help="As the paper states them, as its release has them, or the project's own."),
    ] = "paper",
    overrides: Overrides = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Measure the rows of one of the paper's tables on a project, beside the published numbers."""
    from fewcap.pipeline import reproduce_table

    place = out if out is not None else project / "tables"
    done = reproduce_table(
        table, project, place, seeds=range(seeds), budget=budget, settings=settings, overrides=overrides
    )
    _answer(done, as_json)


@app.command()
def report(
    project: ProjectFolder,
    baseline: Annotated[Path | None, typer.Option(help="Another scored run to show beside it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write report.html anew from what the stages left."""
    from fewcap import pipeline

    _answer({"report": str(pipeline.report(project, baseline))}, as_json)


@app.command()
def weights(
    name: Annotated[str | None, typer.Argument(help="A model of the list.")] = None,
    get: Annotated[bool, typer.Option("--get", help="Download and convert it.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare it with its hash.")] = False,
    as_json: AsJson = False,
) -> None:
    """List every model: role, source, licence, size, present or not; get or verify one."""
    from fewcap.core import weights as catalogue

    if (get or verify) and name is None:
        raise UsageError("--get and --verify need the name of a model: fewcap weights NAME --get")
    if name is not None and (get or verify):
        path = catalogue.get(name) if get else catalogue.verify(name)
        _answer({"model": name, "file": str(path), "state": "ready" if get else "verified"}, as_json)
        return
    chosen = [catalogue.status(name)] if name is not None else catalogue.list_models()
    _answer({status.model.name: status.to_json() for status in chosen}, as_json)


@app.command()
def inspect(
    folder: Annotated[Path, typer.Argument(help="An artefact folder or a project folder.", show_default=False)],
    verify: Annotated[bool, typer.Option(help="Compare every file with its hash.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is in an artefact folder or a project."""
    from fewcap.inspection import inspect as inspect_folder

    _answer(inspect_folder(folder, verify=verify), as_json)


@app.command()
def config(
    project: Annotated[Path | None, typer.Argument(help="A project folder; the defaults without one.")] = None,
    overrides: Overrides = [],  # noqa: B006
    markdown: Annotated[bool, typer.Option(help="As Markdown tables (docs/configuration.md).")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every setting with its value and its explanation."""
    from fewcap.core.config import load_config
    from fewcap.core.config.describe import as_markdown, settings
    from fewcap.pipeline import Project

    loaded = Project.open(project, overrides).config if project is not None else load_config(None, overrides)
    if markdown:
        print(as_markdown(loaded), end="")
    elif as_json:
        print(json.dumps(loaded.model_dump(mode="json"), indent=1))
    else:
        for setting in settings(loaded):
            print(f"{setting.key}={setting.value}\n    {setting.explanation}")


class _Stopped(BaseException):
    """Ctrl-C or a polite kill. Not an Exception: nothing that copes with one bad video may swallow it."""


def _stop(signal_number: int, frame: Any) -> NoReturn:
    raise _Stopped


def main() -> NoReturn:
    """The entry point: a user's mistake is a sentence and an exit code, never a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        app()
    except FewcapError as error:
        _fail(str(error), error.exit_code)
    except _Stopped:
        _fail("stopped; run the same command again to go on where it was.", 130)
    except MemoryError:
        _fail("out of memory; lower train.batch, caption.batch or label.batch, or use a machine with more memory.", 1)
    sys.exit(0)


def _tell(sentence: str) -> None:
    print(f"fewcap: {sentence}", file=sys.stderr)


def _fail(message: str, code: int) -> NoReturn:
    _tell(message)
    sys.exit(code)


def _stage(name: str, folder: Path, overrides: list[str], as_json: bool) -> None:
    from fewcap import pipeline

    project = pipeline.Project.open(folder, overrides)
    manifest = pipeline.run(project, until=name)
    _answer({"stage": manifest.kind, "counts": manifest.counts}, as_json)


def _start(from_scratch: bool) -> list[str]:
    return ["train.start=none"] if from_scratch else []


def _engine(section: str, engine: str | None) -> list[str]:
    return [] if engine is None else [f"{section}.engine={engine}"]


def _answer(facts: Any, as_json: bool) -> None:
    if hasattr(facts, "to_json"):
        facts = facts.to_json() if as_json else facts
    if as_json:
        print(json.dumps(facts, ensure_ascii=False, indent=1))
        return
    from fewcap.display import show

    show(facts)


class _LineFormatter(logging.Formatter):
    """Plain lines; warnings and errors say what they are."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        return prefix + record.getMessage()
