"""The scoring stage: what it writes, its floors, intervals and diversity."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fewcap.core.config.score import ScoreConfig
from fewcap.core.store import Manifest, read_jsonl
from fewcap.core.types import VideoItem
from fewcap.evaluation.confidence import bootstrap_intervals, differences
from fewcap.evaluation.diversity import diversity, keyword_scores
from fewcap.evaluation.floors import most_frequent_caption
from fewcap.evaluation.measure import Measurement, PreparedReferences, measure
from fewcap.evaluation.stage import evaluate, read_measurement


def test_scores_and_floors(project: Path) -> None:
    scores = json.loads((project / "scores" / "scores.json").read_text())
    assert scores["items"] == 18
    floors = scores["floors"]
    assert set(floors) == {"most_frequent", "nearest_neighbour"}
    # Features tell the six nouns apart, so the nearest neighbour's caption is far better than one for all.
    assert floors["nearest_neighbour"]["metrics"]["cider_d"] > floors["most_frequent"]["metrics"]["cider_d"]
    assert scores["diversity"]["new_sentences"] == 1.0  # no training video shows the same
    low, high = scores["intervals"]["cider_d"]
    assert low < scores["metrics"]["cider_d"] < high
    measurement, rows = read_measurement(project / "scores")
    assert measurement.corpus() == pytest.approx(scores["metrics"])
    assert {"id", "caption", "references", "cider_d", "bleu4", "rouge_l"} <= set(rows[0])


def test_unchanged_scores_are_skipped_and_repeated_ones_equal(project: Path, tmp_path: Path) -> None:
    config = ScoreConfig(meteor="off", bootstrap=200)
    arguments = project / "data", project / "captions"
    written = (project / "scores" / "manifest.json").stat().st_mtime_ns
    evaluate(*arguments, project / "scores", config, features=project / "features")
    assert (project / "scores" / "manifest.json").stat().st_mtime_ns == written
    again = evaluate(*arguments, tmp_path / "again", config, features=project / "features")
    assert again.files == Manifest.read(project / "scores").files


def test_most_frequent_caption() -> None:
    def item(name: str, *captions: str) -> VideoItem:
        return VideoItem(name, "train", None, captions)

    assert most_frequent_caption([item("a", "A dog."), item("b", "a dog"), item("c", "a cat", "a cat")]) == "a dog"
    assert most_frequent_caption([item("a", "x y"), item("b", "a man"), item("c", "a man runs")]) == "a man"
    assert most_frequent_caption([]) is None


@pytest.fixture(scope="module")
def runs() -> tuple[Measurement, Measurement]:
    """Two runs of 80 items, the second right more often."""
    generator = np.random.default_rng(0)
    words = np.array(["a", "man", "dog", "cat", "is", "runs", "sleeps", "cooks", "in", "the", "park", "red", "big"])
    references = {str(n): [" ".join(generator.choice(words, 6)) for _ in range(3)] for n in range(80)}
    prepared = PreparedReferences(references)

    def run(right: float) -> Measurement:
        captions = {
            key: group[0] if generator.random() < right else " ".join(generator.choice(words, 6))
            for key, group in references.items()
        }
        return measure(captions, prepared, None)

    return run(0.3), run(0.6)


def test_bootstrap_equals_a_literal_resampling(runs: tuple[Measurement, Measurement]) -> None:
    run = runs[0]
    intervals = bootstrap_intervals(run, samples=400, confidence=0.9, seed=3)
    generator = np.random.default_rng(9)
    values = []
    for _ in range(400):
        drawn = generator.integers(0, len(run.ids), len(run.ids))
        values.append(Measurement(run.ids, run.columns[drawn]).corpus())
    for name, (low, high) in intervals.items():
        literal = np.percentile([value[name] for value in values], [5, 95])
        spread = literal[1] - literal[0]
        assert abs(low - literal[0]) < 0.25 * spread, name
        assert abs(high - literal[1]) < 0.25 * spread, name
    assert bootstrap_intervals(run, samples=400, confidence=0.9, seed=3) == intervals


def test_significance_of_differences(runs: tuple[Measurement, Measurement]) -> None:
    first, second = runs
    found = differences(first, second, samples=500, confidence=0.95, seed=0)
    for name, difference in found.items():
        assert difference.difference == pytest.approx(second.corpus()[name] - first.corpus()[name])
    assert found["cider_d"].p_value < 0.01
    assert found["cider_d"].low > 0
    same = differences(first, first, samples=500, confidence=0.95, seed=0)
    assert all(difference.p_value == 1.0 and difference.difference == 0 for difference in same.values())


def test_p_values_are_calibrated() -> None:
    """Two runs of equal quality rarely differ significantly."""
    generator = np.random.default_rng(1)
    significant = 0
    for trial in range(60):
        columns = np.zeros((40, 13))
        columns[:, 0] = 1
        a, b = columns.copy(), columns.copy()
        a[:, 2], b[:, 2] = generator.random(40), generator.random(40)
        ids = tuple(map(str, range(40)))
        found = differences(Measurement(ids, a), Measurement(ids, b), samples=200, confidence=0.95, seed=trial)
        significant += found["cider_d"].p_value < 0.05
    assert significant <= 9


def test_diversity() -> None:
    found = diversity(["a man runs", "a man runs", "a dog"], training=["A man runs."])
    assert found["distinct_1"] == 4 / 8
    assert found["different_captions"] == 2 / 3
    assert found["vocabulary"] == 4
    assert found["commonest_caption"] == "a man runs"
    assert found["new_sentences"] == 1 / 3


def test_keyword_precision_and_recall() -> None:
    references = {"a": ["a man is playing a guitar", "the man plays"], "b": ["a dog runs"]}
    found = keyword_scores({"a": "a man plays the piano", "b": "a dog is running"}, references)
    # a: man, play of man, play, piano -> 2/3; recalls 2/3 and 1. b: both 1.
    assert found["precision"] == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert found["recall"] == pytest.approx(100 * ((2 / 3 + 1) / 2 + 1) / 2)


def test_items_hold_what_the_scores_follow_from(project: Path) -> None:
    rows = read_jsonl(project / "scores" / "items.jsonl")
    assert Measurement.from_rows(rows).items()["cider_d"] == pytest.approx([row["cider_d"] for row in rows], abs=1e-3)
