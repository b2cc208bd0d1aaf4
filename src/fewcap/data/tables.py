"""Text files as people have them: compressed or not, in several encodings, as CSV, TSV, JSON or JSON lines."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewcap.core.errors import FewcapError
from fewcap.data.annotations import Problems

_DELIMITERS = (",", "\t", ";", "|")
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass(frozen=True)
class Row:
    """One row of a table, and where it stands."""

    where: str
    cells: dict[str, Any]


def kind_of(path: Path) -> str:
    """The suffix that says how to read a file, without ``.gz``: ``.csv``, ``.jsonl`` ..."""
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed when it is gzip."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FewcapError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise FewcapError(f"{path} is a folder; name the captions file in it.") from None
    except OSError as error:
        raise FewcapError(f"{path}: can not be read: {error.strerror}.") from None
    zipped = content[:2] == b"\x1f\x8b"
    if path.suffix.lower() == ".gz" and not zipped:
        raise FewcapError(f"{path}: is named .gz but is not gzip data; rename it, or download it again.")
    if not zipped:
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise FewcapError(f"{path}: damaged gzip data ({error}); download it again.") from None


def read_text(path: Path, problems: Problems) -> str:
    """The text of a file: UTF-8 or UTF-16 by its byte order mark, else UTF-8, else Windows-1252 (a problem)."""
    content = read_bytes(path)
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            try:
                return content.decode(encoding)
            except UnicodeDecodeError as error:
                raise FewcapError(f"{path}: broken {encoding} text at byte {error.start}; save it as UTF-8.") from None
    if b"\0" in content:
        raise FewcapError(f"{path}: this is not a text file; name a CSV, TSV, JSON or JSONL file saved as UTF-8.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        for encoding in ("cp1252", "latin-1"):  # latin-1 reads anything
            try:
                text = content.decode(encoding)
            except UnicodeDecodeError:
                continue
            problems.add("encoding", f"{path}, line {line}", "not UTF-8", f"read as {encoding}; save it as UTF-8")
            return text
        raise AssertionError("latin-1 decodes every byte") from None


def read_json_file(path: Path, problems: Problems) -> Any:
    """One JSON value."""
    try:
        return json.loads(read_text(path, problems))
    except json.JSONDecodeError as error:
        raise FewcapError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}.") from None


def read_json_lines(path: Path, problems: Problems) -> Iterator[Row]:
    """One JSON object a line."""
    for number, line in enumerate(read_text(path, problems).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            cells = json.loads(line)
        except json.JSONDecodeError as error:
            raise FewcapError(f"{where}: not valid JSON: {error.msg}.") from None
        if not isinstance(cells, dict):
            raise FewcapError(f'{where}: must hold a JSON object such as {{"video": ..., "caption": ...}}.')
        yield Row(where, cells)


def read_rows(path: Path, problems: Problems) -> list[Row]:
    """The rows of a CSV, TSV, JSON or JSONL file."""
    kind = kind_of(path)
    if kind in (".jsonl", ".ndjson"):
        return list(read_json_lines(path, problems))
    if kind == ".json":
        return _rows_of_json(path, read_json_file(path, problems))
    if kind in (".csv", ".tsv", ".txt", ".tab"):
        return read_delimited(path, read_text(path, problems), problems)
    raise FewcapError(f"{path}: captions can be read from .csv, .tsv, .json and .jsonl files, not from '{kind}'.")


def _rows_of_json(path: Path, content: Any) -> list[Row]:
    if isinstance(content, dict) and all(isinstance(value, str | list) for value in content.values()):
        return [Row(f"{path}, key {key!r}", {"video": key, "captions": value}) for key, value in content.items()]
    if isinstance(content, list) and all(isinstance(item, dict) for item in content):
        return [Row(f"{path}, item {number}", item) for number, item in enumerate(content, start=1)]
    raise FewcapError(
        f'{path}: must hold a list of objects such as {{"video": ..., "caption": ...}}, or one object that maps '
        "each video to its captions."
    )


def read_delimited(path: Path, text: str, problems: Problems) -> list[Row]:
    """Rows of delimited text with a header, delimiter found by itself."""
    header_line = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=lambda mark: (header_line.count(mark), mark == ","))
    if kind_of(path) in (".tsv", ".tab") and "\t" in header_line:
        delimiter = "\t"
    # TSV writers rarely quote; a lone quotation mark in a caption must not swallow the lines after it.
    quoted = delimiter != "\t" or '\t"' in text or '\n"' in text
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    )
    rows: list[Row] = []
    header: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                continue
            where = f"{path}, line {reader.line_num}"
            if len(cells) > len(header) and any(cell.strip() for cell in cells[len(header) :]):
                rows.append(Row(where, _rejoined(header, cells, delimiter, where, problems)))
            else:
                rows.append(Row(where, dict(zip(header, cells, strict=False))))
    except csv.Error as error:
        where = f"{path}, line {reader.line_num}"
        raise FewcapError(f"{where}: not valid CSV: {error}; check its quotation marks.") from None
    if header is None:
        raise FewcapError(f"{path}: the file is empty; its first line must name the columns, such as video,caption.")
    if not rows:
        raise FewcapError(f"{path}: has a header ({', '.join(header)}) but no rows.")
    return rows


def _rejoined(header: list[str], cells: list[str], delimiter: str, where: str, problems: Problems) -> dict[str, Any]:
    """A row with more cells than columns: the last column takes the rest, as its text holds an unquoted delimiter."""
    last = delimiter.join(cells[len(header) - 1 :])
    problems.add("broken_row", where, last[:200], f"'{header[-1]}' was taken to hold an unquoted {delimiter!r}")
    return dict(zip(header, [*cells[: len(header) - 1], last], strict=True))
