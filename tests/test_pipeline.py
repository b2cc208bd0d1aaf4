"""The whole pipeline through the command line: kill it anywhere, run it again, get the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fewcap.pseudo.language import models_digest

FEWCAP = str(Path(sys.executable).with_name("fewcap"))
STAGES = ("data", "features", "pseudo", "model", "captions", "scores")
TINY = """
seed: 3
data:
  source: synthetic
  synthetic: {train: 16, val: 4, test: 5, seconds: 1.5}
train:
  epochs: 3
"""


def artefacts(project: Path) -> dict[str, bytes]:
    """Every file of every stage, the journals (times) and locks aside."""
    return {
        path.relative_to(project).as_posix(): path.read_bytes()
        for stage in STAGES
        for path in sorted((project / stage).rglob("*"))
        if path.is_file() and path.name not in {"journal.jsonl", ".lock"}
    }


def new_project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "fewcap.yaml").write_text(TINY)
    return folder


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that ran without disturbance."""
    project = new_project(tmp_path_factory.mktemp("calm") / "project")
    answer = subprocess.run([FEWCAP, "run", str(project)], capture_output=True, text=True, timeout=280)
    assert answer.returncode == 0, answer.stderr
    return project


@pytest.mark.slow
def test_one_command_fills_every_stage(calm: Path) -> None:
    for stage in STAGES:
        assert (calm / stage / "manifest.json").exists()
    assert (calm / "report.html").stat().st_size > 10_000
    captions = [json.loads(line) for line in (calm / "captions" / "captions.jsonl").read_text().splitlines()]
    assert len(captions) == 5
    assert all(row["caption"] for row in captions)


@pytest.mark.slow
def test_a_second_run_skips_every_stage(calm: Path) -> None:
    before = artefacts(calm)
    answer = subprocess.run([FEWCAP, "run", str(calm)], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0
    assert answer.stderr.count("unchanged, skipped") == len(STAGES)
    assert artefacts(calm) == before


@pytest.mark.slow
def test_inspect_knows_and_verifies_the_stages(calm: Path) -> None:
    answer = subprocess.run([FEWCAP, "inspect", str(calm), "--verify", "--json"], capture_output=True, text=True)
    stages = json.loads(answer.stdout)["stages"]
    assert {facts["state"] for facts in stages.values()} == {"complete"}
    assert all(facts["damaged"] == [] for facts in stages.values())


@pytest.mark.slow
def test_language_models_of_ones_own_are_trained_and_used(calm: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(calm, project)
    (project / "own.txt").write_text(
        "".join(f"a {colour} robot is running\n" for colour in ("red", "blue") for _ in range(60))
    )
    small = {"layers": 1, "width": 16, "heads": 2, "inner": 16, "corpus": "[own.txt]"}
    settings = [f"label.training.{name}={value}" for name, value in small.items()]
    settings += ["label.strategy=edit", "label.adapt.epochs=0", "label.candidates=2", "label.keep=1"]
    command = [FEWCAP, "label", str(project), "--train-models", "--json"]
    for setting in settings:
        command += ["--set", setting]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert answer.returncode == 0, answer.stderr
    models = json.loads((project / "pseudo" / "manifest.json").read_text())["inputs"]["models"]
    assert models == models_digest(str(project / "language-models")) != models_digest("fewcap")


def wait_for(path: Path, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.slow
def test_killed_in_every_stage_the_result_is_the_same(calm: Path, tmp_path: Path) -> None:
    project = new_project(tmp_path / "project")
    kills = 0
    for stage in STAGES:
        process = subprocess.Popen([FEWCAP, "-q", "run", str(project)], start_new_session=True)
        wait_for(project / stage / "partial.json", process)
        time.sleep(0.3)
        if process.poll() is None and not (project / stage / "manifest.json").exists():
            kills += 1
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert kills >= 3, "the kills came too late to disturb anything"
    subprocess.run([FEWCAP, "-q", "run", str(project)], check=True, timeout=280)
    disturbed, undisturbed = artefacts(project), artefacts(calm)
    assert disturbed.keys() == undisturbed.keys()
    assert [name for name in undisturbed if disturbed[name] != undisturbed[name]] == []


@pytest.mark.slow
def test_ctrl_c_is_answered_with_a_sentence(tmp_path: Path) -> None:
    project = new_project(tmp_path / "project")
    process = subprocess.Popen([FEWCAP, "run", str(project)], start_new_session=True, stderr=subprocess.PIPE, text=True)
    wait_for(project / "features" / "partial.json", process)  # type: ignore[arg-type]
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command again" in errors
    assert "Traceback" not in errors
