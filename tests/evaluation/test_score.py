"""Scoring files on their own: formats, warnings, and clear sentences for bad input."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from fewcap.core.config.score import ScoreConfig
from fewcap.core.errors import FewcapError
from fewcap.evaluation import meteor as meteor_module
from fewcap.evaluation.files import MAX_CHARACTERS, read_predictions, read_references
from fewcap.evaluation.score import score

CONFIG = ScoreConfig(meteor="off", bootstrap=50)

CAPTIONS = {"1": "A man is cooking.", "2": "a dog runs", "3": 'a "big" cat, sleeping'}
REFERENCES = {"1": ["a man cooks", "a person is cooking"], "2": ["the dog runs"], "3": ["a cat sleeps", "the cat"]}


def write_json(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_lines(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_table(path: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def prediction_files(folder: Path) -> list[Path]:
    return [
        write_json(folder / "coco.json", [{"image_id": int(key), "caption": text} for key, text in CAPTIONS.items()]),
        write_json(folder / "plain.json", CAPTIONS),
        write_json(folder / "lists.json", {key: [text] for key, text in CAPTIONS.items()}),
        write_lines(folder / "rows.jsonl", [{"id": key, "caption": text} for key, text in CAPTIONS.items()]),
        write_lines(folder / "lines.json", [{"video_id": key, "caption": text} for key, text in CAPTIONS.items()]),
        write_table(folder / "table.csv", [["id", "caption"], *([key, text] for key, text in CAPTIONS.items())]),
        write_table(folder / "table.tsv", [["video", "text"], *([key, text] for key, text in CAPTIONS.items())], "\t"),
    ]


def reference_files(folder: Path) -> list[Path]:
    flat = [(key, text) for key, group in REFERENCES.items() for text in group]
    annotations = [{"id": n, "image_id": int(key), "caption": text} for n, (key, text) in enumerate(flat)]
    sentences = [{"sen_id": n, "video_id": key, "caption": text} for n, (key, text) in enumerate(flat)]
    return [
        write_json(folder / "coco.json", {"images": [], "annotations": annotations}),
        write_json(folder / "msrvtt.json", {"videos": [], "sentences": sentences}),
        write_json(folder / "plain.json", REFERENCES),
        write_lines(folder / "rows.jsonl", [{"id": key, "captions": group} for key, group in REFERENCES.items()]),
        write_lines(folder / "flat.jsonl", [{"id": key, "caption": text} for key, text in flat]),
        write_table(folder / "table.csv", [["id", "caption"], *map(list, flat)]),
    ]


def test_every_format_is_read_alike(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "r").mkdir()
    for path in prediction_files(tmp_path / "p"):
        assert read_predictions(path) == CAPTIONS, path
    for path in reference_files(tmp_path / "r"):
        assert read_references(path) == REFERENCES, path


def test_scores_of_files(tmp_path: Path) -> None:
    found = score(write_json(tmp_path / "p.json", CAPTIONS), write_json(tmp_path / "r.json", REFERENCES), CONFIG)
    assert found.items == 3
    assert set(found.metrics) == {"bleu1", "bleu2", "bleu3", "bleu4", "rouge_l", "cider_d"}
    for name, (low, high) in found.intervals.items():
        assert low <= high, name
    assert found.diversity["different_captions"] == 1.0
    assert 0 < found.keywords["recall"] <= found.keywords["precision"] <= 100
    assert found.warnings == []
    assert json.loads(json.dumps(found.to_json()))["metrics"] == found.metrics


def test_other_metrics_without_meteor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meteor_module, "find_java", lambda: None)
    files = write_json(tmp_path / "p.json", CAPTIONS), write_json(tmp_path / "r.json", REFERENCES)
    found = score(*files, ScoreConfig(bootstrap=0))
    assert "cider_d" in found.metrics
    assert "meteor" not in found.metrics
    assert any("METEOR was not computed" in warning for warning in found.warnings)
    with pytest.raises(FewcapError, match="METEOR needs"):
        score(*files, ScoreConfig(bootstrap=0, meteor="on"))


def warnings_of(tmp_path: Path, captions: dict[str, str], references: dict[str, list[str]], **settings: str) -> str:
    config = ScoreConfig(meteor="off", bootstrap=0, **settings)  # type: ignore[arg-type]
    files = write_json(tmp_path / "p.json", captions), write_json(tmp_path / "r.json", references)
    return " ".join(score(*files, config).warnings)


def test_warns_where_a_number_means_nothing(tmp_path: Path) -> None:
    assert "CIDEr-D of one item" in warnings_of(tmp_path, {"1": "a man"}, {"1": ["a man cooks"]})
    assert "3 of 4 videos" not in warnings_of(tmp_path, CAPTIONS, REFERENCES)
    partial = warnings_of(tmp_path, {"1": "a man", "2": "a dog", "9": "x"}, REFERENCES)
    assert "1 captions have no reference" in partial
    assert "'9'" in partial
    assert "1 of 3 videos with references have no caption (first: '3')" in partial
    assert "count as empty" in warnings_of(tmp_path, {"1": "a man"}, REFERENCES, missing="empty")
    copies = {str(n): f"a man number {n}" for n in range(6)}
    taken = warnings_of(tmp_path, copies, {key: [text, "something else"] for key, text in copies.items()})
    assert "word for word one of their own references" in taken
    assert "1 captions are empty" in warnings_of(tmp_path, {**CAPTIONS, "2": " "}, REFERENCES)


BAD_PREDICTIONS = [
    ("p.jsonl", b'{"id": "1", "caption": "a"}\n{"id": "2", caption}\n', r"p.jsonl, line 2: not valid JSON"),
    ("p.jsonl", b'{"id": "1", "caption": "a"}\n{"id": "2"}\n', r"p.jsonl, line 2: there is no 'caption'"),
    ("p.jsonl", b'{"id": "1", "caption": "a"}\n[1]\n', r"p.jsonl, line 2: expected an object"),
    ("p.jsonl", b'{"id": "1", "caption": "a"}\n{"id": "1", "caption": "b"}\n', r"line 2: a second, different caption"),
    ("p.jsonl", b'{"id": "1", "caption": 5}\n', r"line 1: 'caption' must be text"),
    ("p.jsonl", b'{"id": null, "caption": "a"}\n', r"line 1: 'id' must be a name"),
    ("p.jsonl", b'{"id": "1", "caption": "a"}\n{"id": "2", "caption": "caf\xe9"}\n', r"line 2: byte 0xe9 is not UTF-8"),
    ("p.jsonl", b"", r"p.jsonl, line 1: there is no caption"),
    ("p.json", b"[]", r"p.json, line 1: there is no caption"),
    ("p.json", b"[\n1,\n", r"p.json, line 3: not valid JSON"),
    ("p.json", b"3", r"p.json, line 1: holds int"),
    ("p.json", b"[" * 100_000, r"p.json, line 1: not"),
    ("p.json", b'[{"image_id": 1, "captions": ["a", "b"]}]', r"entry 1: '1' has 2 captions"),
    ("p.csv", b"id,text\n1,a\n2\n", r"p.csv, line 3: 'text' must be text"),
    ("p.csv", b"number,words\n1,a\n", r"p.csv, line 1: the header has no column for id"),
    ("p.csv", b'id,caption\n1,"a\n', r"p.csv, line \d+: not a valid CSV row"),
    ("p.csv", b"id,caption\n1,a\n2,caf\xe9\n", r"p.csv, line 3: byte 0xe9 is not UTF-8"),
    ("p.docx", b"PK", r"the ending '.docx' is not known"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), BAD_PREDICTIONS)
def test_bad_predictions_are_one_sentence(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FewcapError, match=sentence) as caught:
        read_predictions(tmp_path / name)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["p.jsonl", "p.csv", "p.json"])
def test_a_line_of_ten_megabytes_is_one_sentence(tmp_path: Path, name: str) -> None:
    caption = "word " * 2_000_000
    path = tmp_path / name
    if name == "p.csv":
        write_table(path, [["id", "caption"], ["1", "a"], ["2", caption]])
    elif name == "p.json":
        write_json(path, [{"id": "1", "caption": "a"}, {"id": "2", "caption": caption}])
    else:
        write_lines(path, [{"id": "1", "caption": "a"}, {"id": "2", "caption": caption}])
    with pytest.raises(FewcapError, match=r"p\.(jsonl, line 2|csv, line 3|json, entry 2): ") as caught:
        read_predictions(path)
    assert len(str(caught.value)) < 400
    assert len(caption) > MAX_CHARACTERS


def test_references_without_captions(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r.jsonl", [{"id": "1", "captions": ["a"]}, {"id": "2", "captions": []}])
    with pytest.raises(FewcapError, match=r"r.jsonl, line 2: '2' has no reference caption"):
        read_references(path)
    path = write_table(tmp_path / "r.csv", [["id", "caption"], ["1", "a"], ["2", " "]])
    with pytest.raises(FewcapError, match=r"r.csv, line 3: '2' has no reference caption"):
        read_references(path)


def test_ids_that_do_not_match(tmp_path: Path) -> None:
    files = write_json(tmp_path / "p.json", {"a1": "x"}), write_json(tmp_path / "r.json", {"b1": ["x"]})
    with pytest.raises(FewcapError, match=r"p.json and .*r.json have no id in common: the first are 'a1' and 'b1'"):
        score(*files, CONFIG)
    partial = write_json(tmp_path / "p.json", {"1": "x"}), write_json(tmp_path / "r.json", REFERENCES)
    with pytest.raises(FewcapError, match=r"2 of 3 videos with references have no caption"):
        score(*partial, ScoreConfig(meteor="off", missing="error"))


def test_compressed_files(tmp_path: Path) -> None:
    plain = write_json(tmp_path / "p.json", CAPTIONS)
    packed = tmp_path / "p.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_predictions(packed) == CAPTIONS
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(FewcapError, match="not a whole gzip file"):
        read_predictions(packed)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FewcapError, match="there is no such file"):
        read_predictions(tmp_path / "none.json")
    with pytest.raises(FewcapError, match="is a folder"):
        read_predictions(tmp_path)
