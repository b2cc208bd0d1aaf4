"""Captions for files: which videos are meant, and one answer for each, the broken ones included."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewcap.captioning.captioner import Caption, Captioner
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import MANIFEST
from fewcap.data.media import IMAGE_SUFFIXES, VIDEO_SUFFIXES


@dataclass(frozen=True)
class FileCaption:
    """A video and its caption, or the reason why there is none."""

    video: Path
    caption: Caption | None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        if self.caption is None:
            return {"video": str(self.video), "error": self.error}
        return {
            "video": str(self.video),
            "caption": self.caption.text,
            "score": self.caption.score,
            "keywords": [{"word": keyword.word, "weight": keyword.weight} for keyword in self.caption.keywords],
            "words": [{"word": word.word, "video_share": word.video_share} for word in self.caption.words],
            "alternatives": [{"caption": other.text, "score": other.score} for other in self.caption.alternatives],
        }


def caption_files(
    videos: Sequence[str], model: Path, config: CaptionConfig | None = None, *, listed: Iterable[str] = ()
) -> Iterator[FileCaption]:
    """Captions files, folders and patterns; ``-`` stands for the lines of ``listed``. A bad file is an answer too."""
    paths = find_videos(videos, listed)
    captioner = Captioner.load(model_folder(model), config)
    for path in paths:
        try:
            yield FileCaption(path, captioner.caption(path))
        except FewcapError as error:
            yield FileCaption(path, None, str(error))


def find_videos(videos: Sequence[str], listed: Iterable[str] = ()) -> list[Path]:
    """Files as named, videos of folders in order of their names, and what patterns match; each once."""
    found: dict[Path, None] = {}
    for name in videos:
        for path in _expand(name, listed):
            found.setdefault(path)
    return list(found)


def model_folder(folder: Path) -> Path:
    """A model folder, or the one inside a project folder."""
    for candidate in (folder, folder / "model"):
        if (candidate / MANIFEST).exists():
            return candidate
    if not folder.exists():
        raise FewcapError(f"{folder}: there is no such model folder.")
    raise FewcapError(f"{folder}: holds no trained model; train one with: fewcap train PROJECT")


def _expand(name: str, listed: Iterable[str]) -> list[Path]:
    if name == "-":
        return [Path(line.strip()) for line in listed if line.strip()]
    path = Path(name)
    if path.is_dir():
        inside = sorted(entry for entry in path.rglob("*") if entry.suffix.lower() in VIDEO_SUFFIXES)
        if inside:
            return inside
        if any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in path.iterdir()):
            return [path]  # a folder of images is a video
        raise FewcapError(f"{path}: this folder holds no videos.")
    if not path.exists() and any(sign in name for sign in "*?["):
        matches = sorted(Path(match) for match in glob.glob(name, recursive=True))  # noqa: PTH207 - absolute ones too
        if not matches:
            raise FewcapError(f"'{name}' matches no file.")
        return matches
    return [path]  # a file that is not there becomes an answer that says so
