"""The command line through its real entry point: answers, exit codes, and no traceback for a user's mistake."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fewcap import __version__

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def fewcap(tmp_path: Path) -> Run:
    """Runs the installed command in an empty folder."""
    command = str(Path(sys.executable).with_name("fewcap"))

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command, *arguments], cwd=tmp_path, capture_output=True, text=True, input=stdin, timeout=120
        )

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "fewcap.yaml").write_text("seed: 1\n")
    return folder


def test_help_answers_at_once() -> None:
    command = str(Path(sys.executable).with_name("fewcap"))

    def seconds(arguments: list[str]) -> float:
        started = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True)
        return time.perf_counter() - started

    bare = min(seconds([sys.executable, "-c", "pass"]) for _ in range(3))
    help_ = min(seconds([command, "--help"]) for _ in range(5))
    assert help_ < 0.7 + bare, f"fewcap --help takes {help_:.2f} s, python -c pass {bare:.2f} s"


def test_help_names_every_verb(fewcap: Run) -> None:
    answer = fewcap("--help")
    assert answer.returncode == 0
    for verb in ("demo", "init", "extract", "label", "train", "caption", "score", "run", "inspect", "config"):
        assert f"\n  {verb} " in answer.stdout
        assert fewcap(verb, "--help").returncode == 0


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    heavy = "torch", "transformers", "numpy", "scipy", "av", "PIL", "nltk", "pydantic"
    code = f"import sys, fewcap.cli; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_version(fewcap: Run) -> None:
    assert fewcap("--version").stdout == f"fewcap {__version__}\n"
    as_module = subprocess.check_output([sys.executable, "-m", "fewcap", "--version"], text=True)
    assert as_module == f"fewcap {__version__}\n"


def test_config_explains_every_setting(fewcap: Run, project: Path) -> None:
    answer = fewcap("config", "project", "--set", "train.epochs=4")
    assert "train.epochs=4\n" in answer.stdout
    assert "seed=1\n" in answer.stdout
    assert json.loads(fewcap("config", "--json").stdout)["seed"] == 0


def test_docs_list_every_setting(fewcap: Run, repo: Path) -> None:
    page = (repo / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page.endswith(fewcap("config", "--markdown").stdout), "run: fewcap config --markdown"


BAD_COMMANDS = [
    # arguments, exit code, what the sentence must name
    (["frobnicate"], 2, "frobnicate"),
    (["run"], 2, "project"),
    (["run", "nowhere"], 2, "nowhere: not a project folder"),
    (["run", "project", "--until", "trian"], 2, "Did you mean 'train'?"),
    (["run", "project", "--set", "train.epohs=3"], 2, "Did you mean 'epochs'?"),
    (["run", "project", "--set", "train.epochs=three"], 2, "'train.epochs' can not be 'three'"),
    (["run", "project", "--set", "train.epochs"], 2, "section.key=value"),
    (["run", "project", "--frob"], 2, "--frob"),
    (["train", "project", "--set", "data.source=msvdd"], 2, "Did you mean 'msvd'?"),
    (["extract", "project", "--set", "data.source=folder"], 2, "data"),
    (["demo", "--clips", "two"], 2, "--clips"),
    (["demo", "--clips", "1"], 2, "--clips"),
    (["demo", "--seed", "-1"], 2, "--seed"),
    (["init", "new"], 2, "--videos"),
    (["init", "new", "--videos", "none", "--captions", "none.csv"], 1, "none"),
    (["inspect", "nowhere"], 1, "nowhere: there is no such folder"),
    (["inspect", "project/fewcap.yaml"], 1, "is a file"),
    (["inspect", "."], 1, "neither an artefact"),
    (["caption", "a.mp4", "--model", "nowhere"], 1, "nowhere"),
    (["caption", "a.mp4", "--model", "project"], 1, "model"),
    (["score", "a.json", "b.json"], 1, "a.json"),
    (["config", "nowhere"], 2, "nowhere"),
]


@pytest.mark.parametrize(("arguments", "code", "named"), BAD_COMMANDS, ids=[" ".join(bad[0]) for bad in BAD_COMMANDS])
def test_a_mistake_is_a_sentence_and_an_exit_code(
    fewcap: Run, project: Path, arguments: list[str], code: int, named: str
) -> None:
    answer = fewcap(*arguments)
    assert "Traceback" not in answer.stderr
    assert named in answer.stderr
    assert answer.returncode == code


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"train: {epochs: [}", "not valid YAML"),
        (b"- list", "must hold sections"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"sed: 3", "Did you mean 'seed'?"),
    ],
)
def test_a_broken_project_file_is_named(fewcap: Run, project: Path, content: bytes, named: str) -> None:
    (project / "fewcap.yaml").write_bytes(content)
    answer = fewcap("run", "project")
    assert "Traceback" not in answer.stderr
    assert "fewcap.yaml" in answer.stderr
    assert named in answer.stderr
    assert answer.returncode == 2
