"""MSR-VTT in its original layout: ``videodatainfo`` JSON files with ``videos`` and ``sentences``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fewcap.core.errors import FewcapError
from fewcap.core.types import Split
from fewcap.data.annotations import Annotations, split_in_file_name, split_of
from fewcap.data.tables import read_json_file

LAST_TRAIN, LAST_VAL = 6512, 7009  # of video0 ... video9999


def read(annotations: Annotations, paths: Sequence[Path]) -> None:
    """Reads one or several annotation files (train_val and test) into ``annotations``."""
    for path in paths:
        content = read_json_file(path, annotations.problems)
        videos, sentences = (_records(path, content, key) for key in ("videos", "sentences"))
        for number, video in enumerate(videos, start=1):
            where = f"{path}, videos[{number}]"
            video_id = str(video.get("video_id", ""))
            if video_id in annotations.videos:
                annotations.problems.add(
                    "duplicate_id", where, video_id, f"the one in {annotations.videos[video_id].where} stays"
                )
                continue
            annotations.add(video_id, (), where=where, split=_split(video_id, video.get("split"), path))
        for number, sentence in enumerate(sentences, start=1):
            where = f"{path}, sentences[{number}]"
            video_id = str(sentence.get("video_id", ""))
            if video_id and video_id not in annotations.videos:
                annotations.problems.add("caption_without_video", where, video_id, "left out: not among the videos")
                continue
            annotations.add(video_id, [str(sentence.get("caption", ""))], where=where)


def official_split(video_id: str) -> Split | None:
    """The split of video<number>."""
    match = re.fullmatch(r"video(\d+)", video_id)
    if match is None:
        return None
    number = int(match[1])
    return "train" if number <= LAST_TRAIN else "val" if number <= LAST_VAL else "test"


def _split(video_id: str, stated: Any, path: Path) -> Split | None:
    if isinstance(stated, str) and (split := split_of(stated)) is not None:
        return split
    return official_split(video_id) or split_in_file_name(path.name)


def _records(path: Path, content: Any, key: str) -> list[dict[str, Any]]:
    records = content.get(key) if isinstance(content, dict) else None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise FewcapError(f"{path}: not an MSR-VTT videodatainfo file: it has no list '{key}'.")
    return records
