"""The design's rule: a stage imports only core, text and the stages to its left."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ORDER = ("data", "features", "pseudo", "captioning", "evaluation")
ALLOWED = {
    "core": {"core"},
    "text": {"core", "text"},
    **{stage: {"core", "text", *ORDER[: place + 1]} for place, stage in enumerate(ORDER)},
}
SOURCE = Path(__file__).resolve().parent.parent / "src" / "fewcap"


def imported_packages(path: Path) -> set[str]:
    packages = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "fewcap":
            names = [f"fewcap.{alias.name}" for alias in node.names if alias.name != "__version__"]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            assert not isinstance(node, ast.ImportFrom), f"{path}: relative import"
            continue
        packages |= {name.split(".")[1] for name in names if name.startswith("fewcap.")}
    return packages


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_is_to_its_left(package: str) -> None:
    offences = {
        f"{path.relative_to(SOURCE)} imports {wrong}"
        for path in (SOURCE / package).rglob("*.py")
        for wrong in imported_packages(path) - ALLOWED[package]
    }
    assert offences == set()
