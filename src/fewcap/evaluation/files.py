"""Captions and references from files that people have: COCO JSON, JSON lines, CSV or TSV."""

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

from fewcap.core.errors import FewcapError, UsageError

# In COCO annotations "id" numbers the sentence, so it comes last.
ID_NAMES = ("video_id", "image_id", "videoID", "video", "clip_id", "vid", "name", "id")
CAPTION_NAMES = ("caption", "captions", "text", "sentence", "prediction", "references", "enCap")
# Longer than any caption by far: what is longer is a broken file, and would take minutes to compare.
MAX_CHARACTERS = 10_000
MAX_ROW = 100_000  # of a CSV file; Python's reader takes no much longer fields


@dataclass(frozen=True)
class Entry:
    """Captions of one id, and where they stand."""

    id: str
    captions: tuple[str, ...]
    where: str  # "file, line 3"


def read_predictions(path: Path) -> dict[str, str]:
    """One caption an id."""
    captions: dict[str, str] = {}
    places: dict[str, str] = {}
    for entry in _entries(path):
        if len(entry.captions) != 1:
            raise FewcapError(f"{entry.where}: '{entry.id}' has {len(entry.captions)} captions; one is scored.")
        if entry.id in captions and captions[entry.id] != entry.captions[0]:
            first = places[entry.id].rpartition(", ")[2]
            raise FewcapError(f"{entry.where}: a second, different caption for '{entry.id}' (the first: {first}).")
        captions[entry.id] = entry.captions[0]
        places[entry.id] = entry.where
    if not captions:
        raise FewcapError(f"{path}, line 1: there is no caption in this file.")
    return captions


def read_references(path: Path) -> dict[str, list[str]]:
    """All captions of each id."""
    references: dict[str, list[str]] = {}
    for entry in _entries(path):
        if not any(caption.strip() for caption in entry.captions):
            raise FewcapError(f"{entry.where}: '{entry.id}' has no reference caption; remove the row or fill it.")
        references.setdefault(entry.id, []).extend(caption for caption in entry.captions if caption.strip())
    if not references:
        raise FewcapError(f"{path}, line 1: there is no reference caption in this file.")
    return references


def _entries(path: Path) -> Iterator[Entry]:
    text = _read_text(path)
    suffix = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
    if suffix in (".csv", ".tsv", ".txt"):
        yield from _from_table(path, text)
    elif suffix in (".jsonl", ".ndjson"):
        yield from _from_lines(path, text)
    elif suffix == ".json":
        yield from _from_json(path, text)
    else:
        raise UsageError(
            f"{path}: the ending '{suffix}' is not known; write COCO JSON (.json), .jsonl, .csv or .tsv, plain or .gz."
        )


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FewcapError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise FewcapError(f"{path} is a folder; name the file with captions in it.") from None
    except OSError as error:
        raise FewcapError(f"{path}: can not be read: {error.strerror}.") from None
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise FewcapError(f"{path}: not a whole gzip file: {error}.") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FewcapError(
            f"{path}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8."
        ) from None


def _from_lines(path: Path, text: str) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise FewcapError(f"{where}: not valid JSON: {error.msg} (column {error.colno}).") from None
            except RecursionError:
                raise FewcapError(f"{where}: not a row of captions but deeply nested JSON.") from None
            yield _entry(row, where)


def _from_json(path: Path, text: str) -> Iterator[Entry]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # JSON lines under the name of JSON
            yield from _from_lines(path, text)
            return
        raise FewcapError(f"{path}, line {error.lineno}: not valid JSON: {error.msg} (column {error.colno}).") from None
    except RecursionError:
        raise FewcapError(f"{path}, line 1: not a list of captions but deeply nested JSON.") from None
    if isinstance(content, dict):
        rows = next((content[name] for name in ("annotations", "sentences") if name in content), None)
        if rows is None and _field(content, ID_NAMES) is not None and _field(content, CAPTION_NAMES) is not None:
            rows = [content]
        if rows is None:  # {"video1": "a caption"} or {"video1": ["a caption", ...]}
            for key, value in content.items():
                where = f"{path}, key '{key:.60}'"
                yield _entry({"id": key, "caption": value}, where)
            return
        content = rows
    if not isinstance(content, list):
        raise FewcapError(f"{path}, line 1: holds {type(content).__name__}, not a list of captions.")
    for number, row in enumerate(content, start=1):
        yield _entry(row, f"{path}, entry {number}")


def _from_table(path: Path, text: str) -> Iterator[Entry]:
    if not text.strip():
        return
    lines = text.split("\n")
    header = lines[0]
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_ROW:
            raise FewcapError(f"{path}, line {number}: a row of {len(line):,} characters (at most {MAX_ROW:,}).")
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if "\t" in header else ",", strict=True)
    try:
        names = {name.strip(): name for name in reader.fieldnames or [] if name}
        for wanted in (ID_NAMES, CAPTION_NAMES):
            if _field(names, wanted) is None:
                raise FewcapError(
                    f"{path}, line 1: the header has no column for {_plain_name(wanted)} "
                    f"(known names: {', '.join(wanted)})."
                )
        for row in reader:
            cleaned = {(name or "").strip(): value for name, value in row.items() if name}
            yield _entry(cleaned, f"{path}, line {reader.line_num}")
    except csv.Error as error:
        raise FewcapError(f"{path}, line {reader.line_num or 1}: not a valid CSV row: {error}.") from None


def _field(row: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in row), None)


def _plain_name(names: tuple[str, ...]) -> str:
    return "id" if "id" in names else "caption"


def _entry(row: Any, where: str) -> Entry:
    if not isinstance(row, dict):
        raise FewcapError(f"{where}: expected an object with 'id' and 'caption', found {type(row).__name__}.")
    id_name, caption_name = _field(row, ID_NAMES), _field(row, CAPTION_NAMES)
    if id_name is None or caption_name is None:
        lacking = ID_NAMES if id_name is None else CAPTION_NAMES
        raise FewcapError(f"{where}: there is no '{_plain_name(lacking)}' (known names: {', '.join(lacking)}).")
    identifier, value = row[id_name], row[caption_name]
    if isinstance(identifier, bool) or not isinstance(identifier, str | int) or identifier == "":
        raise FewcapError(f"{where}: '{id_name}' must be a name or a number, not {identifier!r:.60}.")
    captions = [value] if isinstance(value, str) else value
    if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
        raise FewcapError(f"{where}: '{caption_name}' must be text or a list of texts, not {value!r:.60}.")
    longest = max(map(len, captions), default=0)
    if longest > MAX_CHARACTERS:
        raise FewcapError(
            f"{where}: a caption of {longest:,} characters (at most {MAX_CHARACTERS:,}); is a line break missing?"
        )
    return Entry(str(identifier), tuple(captions), where)
