"""MSVD (YouTube2Text) in the layouts in which it is passed on.

* JSON lines with ``video_id``, ``captions`` and optionally ``vid`` and ``split``;
* the description corpus as CSV: ``VideoID,Start,End,WorkerID,Source,AnnotationTime,Language,Description``;
* ``AllVideoDescriptions.txt``: comment lines that begin with #, then ``<video id> <sentence>``.

The last two state no split. The usual one (1,200 / 100 / 670) goes by the number in vid1 ... vid1970, which is the
rank of the id among all 1,970; it is used when a file holds all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fewcap.core.errors import FewcapError
from fewcap.core.types import Split
from fewcap.data.annotations import Annotations, split_of
from fewcap.data.tables import kind_of, read_delimited, read_json_lines, read_text

N_VIDEOS, LAST_TRAIN, LAST_VAL = 1970, 1200, 1300


def read(annotations: Annotations, paths: Sequence[Path]) -> None:
    """Reads MSVD annotation files into ``annotations``."""
    for path in paths:
        if kind_of(path) in (".jsonl", ".ndjson"):
            _read_lines(annotations, path)
        else:
            text = read_text(path, annotations.problems)
            first = next((line for line in text.splitlines() if line.strip()), "")
            if "videoid" in first.lower() and "," in first:
                _read_table(annotations, path, text)
            else:
                _read_descriptions(annotations, path, text)
    _number(annotations)


def official_split(number: int) -> Split:
    """The split of vid<number>, counted from 1."""
    return "train" if number <= LAST_TRAIN else "val" if number <= LAST_VAL else "test"


def _read_lines(annotations: Annotations, path: Path) -> None:
    for row in read_json_lines(path, annotations.problems):
        video_id, captions = row.cells.get("video_id"), row.cells.get("captions")
        if not isinstance(video_id, str) or not isinstance(captions, list):
            raise FewcapError(
                f"{row.where}: MSVD captions need 'video_id' (text) and 'captions' (a list); "
                f"found {', '.join(sorted(row.cells)) or 'nothing'}."
            )
        if video_id in annotations.videos:
            annotations.problems.add(
                "duplicate_id", row.where, video_id, f"captions added to those of {annotations.videos[video_id].where}"
            )
        vid = row.cells.get("vid")
        annotations.add(
            video_id,
            [str(caption) for caption in captions],
            where=row.where,
            split=split_of(str(row.cells.get("split", ""))),
            aliases=(vid,) if isinstance(vid, str) else (),
        )


def _read_table(annotations: Annotations, path: Path, text: str) -> None:
    other: Counter[str] = Counter()
    for row in read_delimited(path, text, annotations.problems):
        cells = {name.strip().lower(): value for name, value in row.cells.items()}
        missing = [name for name in ("videoid", "start", "end", "description") if name not in cells]
        if missing:
            raise FewcapError(f"{row.where}: no column '{missing[0]}' among {', '.join(row.cells)}.")
        language = cells.get("language", "English").strip() or "English"
        if language.lower() != "english":
            other[language] += 1
            continue
        video_id = f"{cells['videoid'].strip()}_{cells['start'].strip()}_{cells['end'].strip()}"
        annotations.add(video_id, [cells["description"]], where=row.where)
    for language, count in sorted(other.items()):
        annotations.problems.add("other_language", str(path), language, f"{count} descriptions left out")


def _read_descriptions(annotations: Annotations, path: Path, text: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        video_id, _, sentence = line.strip().partition(" ")
        if video_id.count("_") < 2 or not all(part.isdigit() for part in video_id.rsplit("_", 2)[1:]):
            annotations.problems.add(
                "broken_row", f"{path}, line {number}", line[:200], "left out: no <video>_<start>_<end> in front"
            )
            continue
        annotations.add(video_id, [sentence], where=f"{path}, line {number}")


def _number(annotations: Annotations) -> None:
    """Numbers the videos (vid1 ...) and splits them, when all of MSVD is there and the files stated no split."""
    videos = annotations.videos
    if len(videos) != N_VIDEOS or any(video.split for video in videos.values()):
        return
    for number, video_id in enumerate(sorted(videos), start=1):
        videos[video_id].split = official_split(number)
        videos[video_id].aliases = (f"vid{number}",)
