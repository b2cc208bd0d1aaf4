"""The README's commands, run as they stand on a folder such as a user would have."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fewcap.core.config.data import SyntheticConfig
from fewcap.data.synthetic import write_folder

REPO = Path(__file__).resolve().parent.parent
FEWCAP = Path(sys.executable).with_name("fewcap")
# The README trains for as long as it takes; two epochs show that the commands work.
QUICK = ["--set", "train.epochs=2", "--set", "label.candidates=3"]


def blocks(language: str) -> list[list[str]]:
    text = (REPO / "README.md").read_text(encoding="utf-8")
    found = re.findall(rf"```{language}\n(.*?)```", text, re.S)
    return [[line.split("  #")[0].strip() for line in block.splitlines() if line.strip()] for block in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``clips``, ``captions.csv``, ``new.mp4`` and ``film.mp4``."""
    place = tmp_path_factory.mktemp("user")
    write_folder(place, SyntheticConfig(train=14, val=3, test=4, captions=3, seconds=1.5), 5)
    (place / "videos").rename(place / "clips")
    first, second, *_ = sorted((place / "clips").glob("*.mp4"))
    shutil.copy(first, place / "new.mp4")
    shutil.copy(second, place / "film.mp4")
    return place


@pytest.mark.slow
def test_the_commands_of_the_readme_run(folder: Path) -> None:
    lines = [line for block in blocks("bash") for line in block if line.startswith("fewcap")]
    assert len(lines) >= 6
    for line in sorted(
        lines, key=lambda line: ["init", "run"].index(line.split()[1]) if " caption " not in line else 9
    ):
        arguments = line.split()[1:] + (QUICK if line.split()[1] == "run" else [])
        answer = subprocess.run([FEWCAP, *arguments], cwd=folder, capture_output=True, text=True, timeout=280)
        assert answer.returncode == 0, f"{line}: {answer.stderr}"
    assert (folder / "my-project" / "report.html").exists()
    for code in ("\n".join(block) for block in blocks("python")):
        answer = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.strip()


def test_the_make_targets_of_the_readme_exist() -> None:
    for line in (line for block in blocks("bash") for line in block if line.startswith("make")):
        subprocess.run([*line.split(), "--dry-run"], cwd=REPO, check=True, capture_output=True)
