"""Comparing two runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evaluation_project import make_project
from rich.console import Console

from fewcap.core.config.score import ScoreConfig
from fewcap.core.errors import FewcapError
from fewcap.evaluation.compare import compare
from fewcap.evaluation.stage import evaluate

CONFIG = ScoreConfig(meteor="off", bootstrap=300)


@pytest.fixture(scope="module")
def better(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the session, its captions all right."""
    folder = make_project(tmp_path_factory.mktemp("better"), accuracy=1.0, clips=False)
    evaluate(project / "data", folder / "captions", folder / "scores", CONFIG)
    return folder


def test_difference_and_clips(project: Path, better: Path) -> None:
    found = compare(project, better, CONFIG, clips=3)
    assert found.items == 18
    assert found.differences["cider_d"].difference > 100
    assert found.differences["cider_d"].p_value < 0.05
    assert len(found.clips) == 3
    assert 0 < found.same_captions < 18
    sizes = [abs(clip.difference) for clip in found.clips]
    assert sizes == sorted(sizes, reverse=True)
    assert found.clips[0].first != found.clips[0].second
    # The other way round it is the same difference with the other sign.
    turned = compare(better, project / "scores", CONFIG)
    assert turned.differences["cider_d"].difference == -found.differences["cider_d"].difference
    assert json.loads(json.dumps(found.to_json()))["items"] == 18
    console = Console(record=True, width=100)
    console.print(found)
    assert "where they differ most" in console.export_text()


def test_a_run_equals_itself(project: Path) -> None:
    found = compare(project, project, CONFIG)
    assert found.clips == []
    assert found.same_captions == 18
    assert all(difference.p_value == 1.0 for difference in found.differences.values())


def test_runs_that_can_not_be_compared(project: Path, tmp_path: Path) -> None:
    with pytest.raises(FewcapError, match="there is no such run"):
        compare(project, tmp_path / "none", CONFIG)
    unscored = make_project(tmp_path / "unscored", clips=False)
    with pytest.raises(FewcapError, match="has no scores yet"):
        compare(project, unscored, CONFIG)
    evaluate(unscored / "data", unscored / "captions", unscored / "scores", CONFIG)
    items = unscored / "scores" / "items.jsonl"
    rows = [json.loads(line) for line in items.read_text().splitlines()]
    items.write_text("".join(json.dumps({**row, "references": ["x"]}) + "\n" for row in rows))
    with pytest.raises(FewcapError, match="different references"):
        compare(project, unscored, CONFIG)
    items.write_text("".join(json.dumps(row) + "\n" for row in rows[:5]))
    assert "5 are shared" in " ".join(compare(project, unscored, CONFIG).warnings)
    items.write_text("".join(json.dumps({**row, "id": "x" + row["id"]}) + "\n" for row in rows))
    with pytest.raises(FewcapError, match="no clip in common"):
        compare(project, unscored, CONFIG)
