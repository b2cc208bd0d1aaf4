"""VATEX in its original layout (a JSON list with ``videoID`` and ``enCap``), or as JSON lines.

The files state their split by their name: ``vatex_training_v1.0.json``, ``vatex_validation_v1.0.json``,
``vatex_public_test_english_v1.1.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fewcap.core.errors import FewcapError
from fewcap.data.annotations import Annotations, split_in_file_name, split_of
from fewcap.data.tables import Row, kind_of, read_json_file, read_json_lines

_ID_KEYS, _CAPTION_KEYS = ("videoID", "video_id"), ("enCap", "captions")


def read(annotations: Annotations, paths: Sequence[Path]) -> None:
    """Reads VATEX annotation files into ``annotations``; Chinese captions are not read."""
    for path in paths:
        split = split_in_file_name(path.name)
        for row in _rows(annotations, path):
            video_id = next((row.cells[key] for key in _ID_KEYS if key in row.cells), None)
            captions = next((row.cells[key] for key in _CAPTION_KEYS if key in row.cells), None)
            if not isinstance(video_id, str):
                raise FewcapError(f"{row.where}: a VATEX video needs 'videoID'; found {', '.join(row.cells)}.")
            if captions is None and "chCap" in row.cells:
                annotations.problems.add("other_language", row.where, video_id, "has Chinese captions only")
            if video_id in annotations.videos:
                annotations.problems.add(
                    "duplicate_id",
                    row.where,
                    video_id,
                    f"captions added to those of {annotations.videos[video_id].where}",
                )
            stated = split_of(str(row.cells.get("split", ""))) or split
            texts = captions if isinstance(captions, list) else [] if captions is None else [captions]
            annotations.add(
                video_id, [str(text) for text in texts], where=row.where, split=stated, aliases=(video_id[:11],)
            )


def _rows(annotations: Annotations, path: Path) -> Iterator[Row]:
    if kind_of(path) in (".jsonl", ".ndjson"):
        yield from read_json_lines(path, annotations.problems)
        return
    content = read_json_file(path, annotations.problems)
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise FewcapError(f"{path}: not a VATEX file: it must hold a list of videos with 'videoID' and 'enCap'.")
    for number, item in enumerate(content, start=1):
        yield Row(f"{path}, item {number}", item)
