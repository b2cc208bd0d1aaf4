"""A folder of videos with a captions file: the columns are found by their names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewcap.core.errors import FewcapError, nearest
from fewcap.data.annotations import Annotations, split_of
from fewcap.data.media import VIDEO_SUFFIXES
from fewcap.data.tables import Row, read_rows

# By preference: the first name that a file has is taken.
VIDEO_NAMES = (
    "video", "videoid", "videofile", "videofilename", "videoname", "videopath", "vid", "clip", "clipid", "clipname",
    "file", "filename", "filepath", "path", "id", "name", "uid", "key",
)  # fmt: skip
CAPTION_NAMES = (
    "caption", "captions", "sentence", "sentences", "description", "descriptions", "text", "texts", "encap",
    "captiontext", "reference", "references", "gt", "label",
)  # fmt: skip
SPLIT_NAMES = ("split", "subset", "set", "partition", "fold", "part")


@dataclass(frozen=True)
class Columns:
    """Which columns of a captions file mean what."""

    video: str
    captions: tuple[str, ...]  # several when captions stand side by side: caption1, caption2 ...
    split: str | None


def find_columns(
    path: Path,
    header: Sequence[str],
    *,
    video: str | None = None,
    caption: str | None = None,
    split: str | None = None,
) -> Columns:
    """The columns by the given names, else by their usual names; an error names what the file has."""
    plain = {_plain(name): name for name in reversed(header)}

    def named(role: str, wanted: str) -> str:
        if wanted in header:
            return wanted
        if _plain(wanted) in plain:
            return plain[_plain(wanted)]
        raise FewcapError(
            f"{path}: has no column '{wanted}' ({role}); its columns are {_listed(header)}.{nearest(wanted, header)}"
        )

    def found(role: str, usual: Sequence[str]) -> str:
        for name in usual:
            if name in plain:
                return plain[name]
        if any(Path(name).suffix.lower() in VIDEO_SUFFIXES for name in header):
            raise FewcapError(
                f"{path}: its first line, {_listed(header)}, looks like a caption; put a line with the names of the "
                "columns above it, such as video,caption."
            )
        hint = next((text for name in usual for column in plain if (text := _alike(name, column, plain))), "")
        raise FewcapError(
            f"{path}: no column for the {role} among {_listed(header)}; rename one to '{usual[0]}' "
            f"or set data.{'video' if role == 'video' else 'caption'}_column.{hint}"
        )

    video_column = named("data.video_column", video) if video else found("video", VIDEO_NAMES)
    if caption:
        captions: tuple[str, ...] = (named("data.caption_column", caption),)
    else:
        numbered = [name for name in header if re.fullmatch(r"(caption|sentence|description|text)\d+", _plain(name))]
        captions = tuple(numbered) or (found("caption", CAPTION_NAMES),)
    if split:
        split_column: str | None = named("data.split_column", split)
    else:
        split_column = next((plain[name] for name in SPLIT_NAMES if name in plain), None)
    return Columns(video_column, captions, split_column)


def read(
    annotations: Annotations,
    paths: Sequence[Path],
    *,
    video: str | None = None,
    caption: str | None = None,
    split: str | None = None,
) -> None:
    """Reads captions files into ``annotations``; a video may have many rows, or a list in one."""
    for path in paths:
        rows = read_rows(path, annotations.problems)
        if not rows:
            raise FewcapError(f"{path}: holds no captions.")
        header = list(dict.fromkeys(name for row in rows[:100] for name in row.cells))
        columns = find_columns(path, header, video=video, caption=caption, split=split)
        for row in rows:
            _add(annotations, row, columns)


def _add(annotations: Annotations, row: Row, columns: Columns) -> None:
    stated = row.cells.get(columns.split) if columns.split else None
    split = None
    if stated is not None and str(stated).strip():
        split = split_of(str(stated))
        if split is None:
            annotations.problems.add(
                "unknown_split", row.where, str(stated), "treated as if no split were stated (train, val or test)"
            )
    captions = [text for name in columns.captions for text in _texts(row.cells.get(name))]
    if len(columns.captions) > 1:  # fewer captions than columns is usual, none at all is not
        captions = [text for text in captions if text.strip()] or [""]
    video = row.cells.get(columns.video)
    annotations.add("" if video is None else str(video), captions or [""], where=row.where, split=split)


def _texts(cell: Any) -> list[str]:
    """The captions in a cell: a text, a list, or a list written as JSON."""
    if cell is None:
        return [""]
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        try:
            cell = json.loads(cell)
        except json.JSONDecodeError:
            return [cell]
    if isinstance(cell, list):
        return [text for item in cell for text in _texts(item)]
    if isinstance(cell, dict):  # {"caption": "..."} inside a list of captions
        inner = next((cell[name] for name in cell if _plain(name) in CAPTION_NAMES), "")
        return _texts(inner)
    return [str(cell)]


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _alike(usual: str, column: str, plain: dict[str, str]) -> str:
    return f" Is it '{plain[column]}'?" if usual in column or nearest(column, [usual]) else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
