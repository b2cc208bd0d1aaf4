"""The paper's tables: recipes, cells, planning, resuming and what is written."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from fewcap.core.config import Config, load_config
from fewcap.core.errors import FewcapError, UsageError
from fewcap.evaluation.cells import Cell, make_cells
from fewcap.evaluation.planning import plan
from fewcap.evaluation.recipes import DATA_SETS, TABLES, paper_settings, read_table, recipes_folder
from fewcap.evaluation.tables import reproduce

PAPER = {  # the paper's section 4.3
    "msvd": {"words": 4, "frames": 20, "objects": 20, "few": (1, 2, 4), "full": (1, 1, 8)},
    "msrvtt": {"words": 5, "frames": 30, "objects": 40, "few": (3, 3, 6), "full": (3, 2, 6)},
    "vatex": {"words": 7, "frames": 30, "objects": 30, "few": (2, 3, 6), "full": (2, 3, 4)},
}


@pytest.mark.parametrize("supervision", ["few", "full"])
@pytest.mark.parametrize("data_set", DATA_SETS)
def test_recipes_carry_the_papers_settings(data_set: str, supervision: str) -> None:
    path = recipes_folder() / f"{data_set}-{supervision}.yaml"
    config = load_config(path)
    paper, train, model = PAPER[data_set], config.train, config.train.model
    assert config.data.source == data_set
    assert config.data.sentences == ("all" if supervision == "full" else 1)
    assert (model.video_blocks, model.keyword_blocks, model.decoder_blocks) == paper[supervision]
    assert (model.width, model.heads, model.max_words) == (768, 8, 20)
    assert (model.frames, model.objects) == (paper["frames"], paper["objects"])
    assert train.keywords.count == config.label.words == paper["words"]
    assert (train.optimizer, train.learning_rate, train.weight_decay) == ("adam", 1e-4, 0.5)
    assert (train.epochs, train.batch, train.patience) == (35, 128, 5)
    assert (model.object_joint, model.keyword_refiner, model.fusion) == (True, True, "gated")
    assert (config.label.enabled, train.word_loss != "off") == ((supervision == "few"),) * 2
    assert (config.label.candidates, config.label.edit.penalty) == (10, 1.2)
    head = path.read_text(encoding="utf-8").partition("data:")[0]
    assert all(f"# {word}:" in head for word in ("Command", "Cost", "Expected"))


def test_the_release_is_laid_over_the_paper() -> None:
    assert load_config(recipes_folder() / "release.yaml").caption.beam == 5
    release = paper_settings("msvd", "few", "release")["train"]
    assert (release["weight_decay"], release["label_smoothing"], release["model"]["width"]) == (0.0, 0.1, 768)
    assert paper_settings("msvd", "few", "own") == paper_settings(None, "few", "paper") == {}


def write_project(folder: Path, source: str) -> Path:
    folder.mkdir(parents=True)
    data: dict[str, Any] = {"source": source}
    if source != "synthetic":
        (folder / "captions.jsonl").write_text("")
        data |= {"captions": "captions.jsonl", "videos": "videos"}
    (folder / "fewcap.yaml").write_text(yaml.safe_dump({"data": data}))
    return folder


@pytest.mark.parametrize("number", TABLES)
@pytest.mark.parametrize("source", [*DATA_SETS, "synthetic"])
def test_every_recipe_gives_valid_cells(number: int, source: str, tmp_path: Path) -> None:
    recipe = read_table(number)
    assert recipe.table == number
    project = write_project(tmp_path / "p", source)
    arguments: dict[str, Any] = {"seeds": (0, 1), "settings": "paper", "overrides": {}}
    if source in DATA_SETS and not any(source in row.published for row in recipe.rows):
        with pytest.raises(FewcapError, match="is about"):
            make_cells(recipe, project, tmp_path, **arguments)
        return
    cells = make_cells(recipe, project, tmp_path, **arguments)
    rows = [row for row in recipe.measurable if source == "synthetic" or source in row.published]
    assert len(cells) == 2 * len(rows)
    for cell in cells:
        assert isinstance(cell.config, Config)
        row = recipe.rows[cell.row]
        assert cell.config.label.enabled == (row.pseudo > 0)
        assert cell.config.data.sentences == row.sentences_for(source)
    # Every row of a table is another run, but the settings of the paper may be a row of their own (tables 11, 12).
    assert len({cell.key for cell in cells}) >= len(cells) - 4


def test_components_are_switched_as_the_table_says(tmp_path: Path) -> None:
    project = write_project(tmp_path / "p", "msvd")
    cells = make_cells(read_table(8), project, tmp_path, seeds=[0], settings="paper", overrides={})
    switches = [
        (model.object_joint, model.keyword_refiner, model.fusion, cell.config.train.word_loss)
        for cell in cells
        for model in [cell.config.train.model]
    ]
    assert switches == [
        (False, False, "none", "off"),
        (True, False, "none", "off"),
        (True, True, "concatenation", "off"),
        (True, True, "gated", "off"),
        (True, True, "gated", "pseudo"),
    ]


def test_published_numbers_are_the_papers(repo: Path) -> None:
    paper = repo.parent / "shared" / "paper" / "pkg.tex"
    if not paper.exists():
        pytest.skip("the paper (../shared/paper/pkg.tex) is not on this machine")
    text = re.sub(r"\\(?:textbf|underline)\{([^{}]*)\}", r"\1", paper.read_text(encoding="utf-8"))
    known = set(re.findall(r"\d+\.\d", text))
    for number in TABLES:
        for row in read_table(number).rows:
            values = [value for numbers in row.published.values() for value in numbers if value is not None]
            assert {f"{value:.1f}" for value in values} <= known
    # The last row of table 4 and one of table 12, read from the paper by eye.
    assert read_table(4).rows[-1].published["msvd"] == [31.3, 31.0, 64.4, 52.8]
    assert read_table(12).rows[-3].published["msrvtt"] == [41.9, 27.5, 58.4, 51.2]


class FakeRuns:
    """Runs cells in no time, and may be told to stop."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.cells: list[Cell] = []
        self.stop_after = stop_after

    def __call__(self, cell: Cell) -> dict[str, Any]:
        if self.stop_after is not None and len(self.cells) == self.stop_after:
            raise KeyboardInterrupt
        self.cells.append(cell)
        score = 20.0 + cell.row + cell.seed
        metrics = dict.fromkeys(("bleu1", "bleu4", "meteor", "rouge_l", "cider_d"), score)
        return {"metrics": metrics, "items": 100, "features": "efficientnet_lite0 + grid"}


def test_a_table_is_resumed_and_written(tmp_path: Path) -> None:
    project, out = write_project(tmp_path / "p", "msvd"), tmp_path / "out"
    first = FakeRuns(stop_after=3)
    with pytest.raises(KeyboardInterrupt):
        reproduce(8, project, out, seeds=[0, 1], run=first)
    second = FakeRuns()
    found = reproduce(8, project, out, seeds=[0, 1], run=second)
    assert len(first.cells) == 3
    assert len(second.cells) == 7
    assert found.finished == 10
    third = FakeRuns()
    again = reproduce(8, project, out, seeds=[0, 1], run=third)
    assert third.cells == []
    assert again.rows == found.rows

    markdown = (out / "table08.md").read_text()
    assert "| baseline | 3 | 3 | IRv2 + C3D + FR | 39.5 | 29.8 | 64.5 | 71.2 | efficientnet_lite0 + grid |" in markdown
    assert "20.5 ± 0.7" in markdown
    rows = list(csv.DictReader((out / "table08.csv").open()))
    assert [row["features"] for row in rows] == ["efficientnet_lite0 + grid"] * 5
    assert float(rows[0]["cider_d_mean"]) == 20.5
    latex = (out / "table08.tex").read_text()
    assert latex.count("\\\\") == 7
    assert "20.5 $\\pm$ 0.7" in latex
    assert "efficientnet\\_lite0" in latex
    for path in found.files:
        if path.suffix == ".svg":
            ElementTree.parse(path)
    assert sum(path.suffix == ".svg" for path in found.files) == 4


def test_other_settings_are_other_cells(tmp_path: Path) -> None:
    project, out = write_project(tmp_path / "p", "msvd"), tmp_path / "out"
    reproduce(4, project, out, run=FakeRuns())
    runs = FakeRuns()
    reproduce(4, project, out, run=runs, overrides={"train.epochs": 3})
    assert [cell.config.train.epochs for cell in runs.cells] == [3, 3]
    assert {cell.folders["features"] for cell in runs.cells} == {project / "features"}
    others = FakeRuns()
    reproduce(4, project, out, run=others, overrides={"features.motion": None})
    assert {cell.folders["features"].parent for cell in others.cells} == {out / "work" / "features"}
    (project / "captions.jsonl").write_text("changed")
    runs = FakeRuns()
    reproduce(4, project, out, run=runs)
    assert len(runs.cells) == 2


def test_without_pseudo_labels_their_settings_do_not_matter(tmp_path: Path) -> None:
    project, out = write_project(tmp_path / "p", "msvd"), tmp_path / "out"
    reproduce(4, project, out, run=FakeRuns())
    runs = FakeRuns()
    reproduce(4, project, out, run=runs, overrides={"label.candidates": 20})
    assert [cell.config.label.enabled for cell in runs.cells] == [True]


def test_rivals_stand_beside_the_measured_rows(tmp_path: Path) -> None:
    found = reproduce(4, write_project(tmp_path / "p", "vatex"), tmp_path / "out", run=FakeRuns())
    assert [row.name for row in found.rows].count("HMN") == 2
    assert [row.wanted for row in found.rows].count(1) == 2
    assert all(row.published_features for row in found.rows)
    own = reproduce(4, write_project(tmp_path / "q", "synthetic"), tmp_path / "other", run=FakeRuns())
    assert [row.name for row in own.rows] == ["PKG", "PKG"]
    assert own.rows[0].published == [None] * 4


@pytest.mark.parametrize(("number", "lines"), [(10, 2), (11, 6), (12, 3)])
def test_tables_with_an_axis_are_plotted(number: int, lines: int, tmp_path: Path) -> None:
    reproduce(number, write_project(tmp_path / "p", "msvd"), tmp_path / "out", run=FakeRuns())
    picture = ElementTree.parse(tmp_path / "out" / f"table{number}-cider_d.svg")
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}polyline")) == lines


def test_a_failing_row_does_not_cost_the_others(tmp_path: Path) -> None:
    def run(cell: Cell) -> dict[str, Any]:
        if cell.config.label.strategy == "llm":
            raise FewcapError("no language model is installed")
        return FakeRuns()(cell)

    found = reproduce(9, write_project(tmp_path / "p", "msvd"), tmp_path / "out", run=run)
    assert found.finished == 6
    assert list(found.failed.values()) == ["no language model is installed"]


def cells_of(tmp_path: Path, number: int = 10) -> list[Cell]:
    project = write_project(tmp_path / "p", "msvd")
    return make_cells(read_table(number), project, tmp_path, seeds=[0], settings="paper", overrides={})


def test_planning(tmp_path: Path) -> None:
    cells = cells_of(tmp_path)
    assert plan(cells, [], None).chosen == cells
    unknown = plan(cells, [], 10)
    assert unknown.chosen == cells[:1]
    assert "not known yet" in " ".join(unknown.sentences())
    # The first cell took ten minutes; those with pseudo-labels weigh twice as much.
    known = plan(cells[1:], [(cells[0], 600.0)], 45)
    assert known.chosen == cells[1:3]
    assert [cell.name for cell in known.left_out] == [f"PKG (2 GT, {n} pseudo)" for n in (6, 8, 10)]
    assert sum("left out: table 10, PKG" in line for line in known.sentences()) == 3


def test_a_budget_leaves_cells_out_and_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fewcap.evaluation import tables

    monkeypatch.setattr(tables, "seconds_spent", lambda cell: 60.0 * cell.weight / 1000)
    run: Callable[[Cell], dict[str, Any]] = FakeRuns()
    found = reproduce(10, write_project(tmp_path / "p", "msvd"), tmp_path / "out", run=run, budget=2.0)
    assert found.finished + len(found.left_out) == 6
    assert found.left_out
    assert found.to_json()["left_out"] == found.left_out
    assert "seed 0" in found.left_out[0]


def test_wrong_names_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no recipe for table '1'"):
        read_table(1)
    with pytest.raises(UsageError, match="there is no recipe for table 'four'"):
        read_table("four")
    with pytest.raises(UsageError, match="not a project folder"):
        reproduce(4, tmp_path, tmp_path / "out")
    project = write_project(tmp_path / "p", "msvd")
    with pytest.raises(UsageError, match=r"train\.epoch"):
        reproduce(4, project, tmp_path / "out", overrides={"train.epoch": 3})
