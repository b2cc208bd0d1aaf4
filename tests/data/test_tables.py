from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fewcap.data.annotations import Annotations, Problems
from fewcap.data.folder import read
from fewcap.data.tables import read_rows, read_text

# What a cell can hold in a file: no characters that text files do not have, and no surrogates.
cells = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\x85\u2028\u2029\ufeff"), max_size=25
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.from_regex(r"[a-z0-9]{1,8}\.mp4", fullmatch=True), cells), min_size=1, max_size=12),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_csv_comes_back(
    tmp_path: Path, rows: list[tuple[str, str]], delimiter: str, encoding: str, newline: str
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=newline, quoting=csv.QUOTE_ALL)
    writer.writerows([("video", "caption"), *rows])
    path = tmp_path / "captions.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    problems = Problems()
    assert [(row.cells["video"], row.cells["caption"]) for row in read_rows(path, problems)] == rows
    assert len(problems) == 0


def captions_of(path: Path) -> dict[str, list[str]]:
    annotations = Annotations(Problems())
    read(annotations, [path])
    return {video.id: video.captions for video in annotations.videos.values()}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "video,caption\nx.mp4,a dog runs\nx.mp4,the dog is running\ny.mp4,a cat\n"),
        ("a.tsv", "file name\tDescription\nx.mp4\ta dog runs\nx.mp4\tthe dog is running\ny.mp4\ta cat\n"),
        ("semicolon.csv", "Video ID;Caption\nx.mp4;a dog runs\nx.mp4;the dog is running\ny.mp4;a cat\n"),
        ("wide.csv", "path,caption_1,caption_2\nx.mp4,a dog runs,the dog is running\ny.mp4,a cat,\n"),
        ("list.csv", 'clip,captions\nx.mp4,"[""a dog runs"", ""the dog is running""]"\ny.mp4,a cat\n'),
        (
            "a.jsonl",
            '{"id": "x.mp4", "captions": ["a dog runs", "the dog is running"]}\n\n{"id": "y.mp4", "captions": "a cat"}',
        ),
        (
            "b.jsonl",
            '{"id": "x.mp4", "text": "a dog runs"}\n{"id": "x.mp4", "text": "the dog is running"}\n'
            '{"id": "y.mp4", "text": "a cat"}',
        ),
        (
            "a.json",
            '[{"video": "x.mp4", "caption": ["a dog runs", {"caption": "the dog is running"}]},'
            ' {"video": "y.mp4", "caption": "a cat"}]',
        ),
        ("map.json", '{"x.mp4": ["a dog runs", "the dog is running"], "y.mp4": "a cat"}'),
    ],
)  # fmt: skip
def test_layouts_of_captions_files(tmp_path: Path, name: str, content: str) -> None:
    expected = {"x.mp4": ["a dog runs", "the dog is running"], "y.mp4": ["a cat"]}
    plain, zipped = tmp_path / name, tmp_path / f"{name}.gz"
    plain.write_text(content, encoding="utf-8")
    zipped.write_bytes(gzip.compress(content.encode()))
    assert captions_of(plain) == expected
    assert captions_of(zipped) == expected


def test_windows_text_is_read_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("video,caption\nx.mp4,a café – “open”\n".encode("cp1252"))
    problems = Problems()
    assert "café – “open”" in read_text(path, problems)
    (problem,) = problems
    assert (problem.kind, problem.where) == ("encoding", f"{path}, line 2")
    assert "cp1252" in problem.what_was_done


def test_bytes_that_windows_does_not_know_fall_back_to_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"video,caption\nx.mp4,caf\xe9 \x81\n")
    problems = Problems()
    read_text(path, problems)
    assert "latin-1" in next(iter(problems)).what_was_done


def test_an_unquoted_comma_stays_in_the_caption(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("video,caption\nx.mp4,a man, smiling, waves\n", encoding="utf-8")
    problems = Problems()
    assert read_rows(path, problems)[0].cells["caption"] == "a man, smiling, waves"
    assert problems.counts() == {"broken_row": 1}


def test_a_lone_quotation_mark_in_a_tsv_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('video\tcaption\nx.mp4\ta 5" screen\ny.mp4\ta "big" cat\n', encoding="utf-8")
    assert captions_of(path) == {"x.mp4": ['a 5" screen'], "y.mp4": ['a "big" cat']}
