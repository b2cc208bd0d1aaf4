"""Documentation that can be wrong is checked: options exist, links lead somewhere, the README's commands run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
FEWCAP = str(Path(sys.executable).with_name("fewcap"))
PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted((REPO / "docs").rglob("*.md"))]


def page_ids(page: Path) -> str:
    return page.relative_to(REPO).as_posix()


def commands(text: str) -> list[str]:
    """Lines of shell examples, continuations joined, and commands quoted in running text."""
    blocks = re.findall(r"```(?:bash|sh|console)\n(.*?)```", text, re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    quoted = re.findall(r"`(fewcap [^`\n]+)`", text)
    return [line.split("#")[0].strip().removeprefix("$ ") for line in [*lines, *quoted]]


@pytest.fixture(scope="module")
def verbs() -> dict[str, set[str]]:
    """Verb -> the options that its help names."""
    top = subprocess.run([FEWCAP, "--help"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  (\w[\w-]*) ", top.split("Commands:")[1], re.M)
    return {
        name: set(
            re.findall(
                r"(?<![\w-])(--?[a-z][\w-]*)",
                subprocess.run([FEWCAP, name, "--help"], capture_output=True, text=True, check=True).stdout,
            )
        )
        for name in names
    }


@pytest.mark.parametrize("page", PAGES, ids=page_ids)
def test_every_verb_and_option_named_in_docs_exists(page: Path, verbs: dict[str, set[str]]) -> None:
    for command in commands(page.read_text(encoding="utf-8")):
        words = command.split()
        if not words or words[0] != "fewcap":
            continue
        verb = next((word for word in words[1:] if not word.startswith("-")), None)
        if verb is None or not re.fullmatch(r"[a-z-]+", verb):
            continue
        assert verb in verbs, f"{page.name}: there is no verb '{verb}' ({command})"
        for option in re.findall(r"(?<=\s)(--[a-z][\w-]*)", command):
            assert option in verbs[verb] | {"--quiet", "--version"}, f"{page.name}: {verb} has no {option} ({command})"


@pytest.mark.parametrize("page", PAGES, ids=page_ids)
def test_every_setting_named_in_docs_exists(page: Path) -> None:
    from fewcap.core.config.describe import settings

    known = {setting.key for setting in settings()}
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:--set|-s) ([a-z_]+\.[a-z_0-9.]+)=", text))
    named |= set(re.findall(r"`((?:data|features|label|train|caption|score)\.[a-z_0-9.]+)=[^`]*`", text))
    open_ended = {name for name in named if name.rpartition(".")[0] in known}  # features.weights.c3d
    assert named - known - open_ended - {"section.key"} == set()


@pytest.mark.parametrize("page", PAGES, ids=page_ids)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r'(?:src|href)="([^"#]+)"', text):
        if not target.startswith(("http", "mailto")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}, which is not there"


@pytest.mark.parametrize("page", PAGES, ids=page_ids)
def test_docs_name_no_path_of_one_machine(page: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:root|home|work|tmp)/\w+", page.read_text(encoding="utf-8")) == []
