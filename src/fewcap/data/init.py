"""Makes a project folder for somebody's own videos, and says at once what is right and wrong with them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from fewcap.core.config.data import DataConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import readable_os_errors
from fewcap.core.types import SPLITS
from fewcap.data.annotations import Problems
from fewcap.data.folder import Columns, find_columns
from fewcap.data.media import Media
from fewcap.data.prepare import assign_splits, locate, read_annotations
from fewcap.data.tables import read_rows

CONFIG_FILE = "fewcap.yaml"
_SHOWN = 5  # problems that are told in full

_TEMPLATE = """\
# A project of fewcap: what is not written here has its default.
# Every key is explained by `fewcap config`; to try a value without editing: --set train.epochs=3

seed: {seed}  # decides every random choice

data:
  source: folder
  videos: {videos}  # searched with its subfolders
  captions: {captions}  # CSV, TSV, JSON or JSONL, one or several captions a video
  sentences: {sentences}  # captions used of each training video: 1, 2, 3 ... or all
{columns}{split}  # cleaning: true  # passes over noise, such as one sentence pasted on a tenth of the videos

# The other sections, with their stages: features (what is taken from a video), label (captions that are invented),
# train (the captioner), caption (how it decodes), score (what is measured).
"""
_STATED_SPLIT = "  # train, val and test are taken from column {column}\n"
_SEEDED_SPLIT = """\
  val_share: {val}  # no column states a split, so videos are split by the seed; the rest trains
  test_share: {test}
"""


def init_project(
    folder: Path,
    videos: Path,
    captions: Path,
    *,
    sentences: int = 1,
    seed: int = 0,
    video_column: str | None = None,
    caption_column: str | None = None,
    split_column: str | None = None,
) -> dict[str, Any]:
    """Writes ``fewcap.yaml`` into ``folder`` after a look at all captions and file names; returns what was found.

    Files are not decoded here: the first stage does that, and lists those that are no videos.
    """
    config_file = folder / CONFIG_FILE
    if config_file.exists():
        raise FewcapError(f"{config_file}: this folder is a project already; edit the file, or name another folder.")
    if folder.exists() and not folder.is_dir():
        raise FewcapError(f"{folder}: is a file; name a folder for the project.")
    if not captions.exists():
        raise FewcapError(f"{captions}: there is no such captions file.")
    if captions.is_dir():
        raise FewcapError(f"{captions} is a folder; name the captions file in it.")
    if not videos.exists():
        raise FewcapError(f"{videos}: there is no such folder of videos.")
    config = DataConfig.model_validate(
        {
            "source": "folder",
            "videos": (videos.absolute(),),
            "captions": (captions.absolute(),),
            "sentences": sentences,
            "video_column": video_column,
            "caption_column": caption_column,
            "split_column": split_column,
        }
    )
    problems = Problems()
    columns = _columns(config)
    annotations = read_annotations(config, seed, problems)
    media = Media(config.videos)
    found = [video for video, _ in locate(annotations, media, ids_from_files=True)]
    if not found:
        raise FewcapError(
            f"None of the {len(annotations.videos)} videos that {captions} names in column '{columns.video}' is in "
            f"{videos}: captions are for '{next(iter(annotations.videos))}', files are like '{media.sources[0].id}'."
        )
    stated = any(video.split is not None for video in found)
    splits = Counter(assign_splits(found, config, seed, problems).values())
    with readable_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        config_file.write_text(_text(folder, config, columns, seed, stated_split=stated), encoding="utf-8")
    return {
        "project": str(folder),
        "configuration": str(config_file),
        "videos": {
            "files": len(media.sources),
            "with captions": len(found),
            **{split: splits[split] for split in SPLITS},
        },
        "captions": sum(len(video.captions) for video in found),
        "columns": {
            "video": columns.video,
            "caption": ", ".join(columns.captions),
            "split": columns.split or "none: videos are split by the seed",
        },
        "problems": problems.counts(),
        "examples": [
            f"{problem.kind.replace('_', ' ')}: {problem.value} ({problem.what_was_done}; {problem.where})"
            for problem in list(problems)[:_SHOWN]
        ],
        "next": f"fewcap run {folder}",
    }


def _columns(config: DataConfig) -> Columns:
    path = config.captions[0]
    rows = read_rows(path, Problems())
    header = list(dict.fromkeys(name for row in rows[:100] for name in row.cells))
    return find_columns(
        path, header, video=config.video_column, caption=config.caption_column, split=config.split_column
    )


def _text(folder: Path, config: DataConfig, columns: Columns, seed: int, *, stated_split: bool) -> str:
    """The commented configuration; paths inside the project are written relative to it."""

    def quoted(value: Any) -> str:
        return yaml.safe_dump(value, allow_unicode=True, default_flow_style=True, width=10**6).split("\n")[0]

    def written(path: Path) -> str:
        here = folder.absolute()
        return quoted(str(path.relative_to(here) if path.is_relative_to(here) else path))

    named = [(name, getattr(config, name)) for name in ("video_column", "caption_column", "split_column")]
    split = (
        _STATED_SPLIT.format(column=quoted(columns.split))
        if stated_split
        else _SEEDED_SPLIT.format(val=config.val_share, test=config.test_share)
    )
    return _TEMPLATE.format(
        seed=seed,
        videos=written(config.videos[0]),
        captions=written(config.captions[0]),
        sentences=quoted(config.sentences),
        columns="".join(f"  {name}: {quoted(value)}\n" for name, value in named if value is not None),
        split=split,
    )
