"""Captions for files: which videos are meant, and answers for each, the broken ones included."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fewcap.captioning.captioner import Caption, Captioner
from fewcap.captioning.looks import Looks, Piece
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.devices import torch_threads
from fewcap.core.errors import FewcapError
from fewcap.core.progress import progress
from fewcap.core.store import MANIFEST
from fewcap.data.media import IMAGE_SUFFIXES, VIDEO_SUFFIXES

WHOLE_SECONDS = 30.0  # a longer video is captioned piece by piece unless told otherwise


@dataclass(frozen=True)
class FileCaption:
    """A video, or a piece of it, and its caption, or the reason why there is none."""

    video: Path
    piece: Piece
    caption: Caption | None
    error: str | None = None

    @property
    def last(self) -> bool:
        """Whether this ends the answers for the video."""
        return self.piece.number == self.piece.count - 1


def caption_files(
    paths: Sequence[Path],
    captioner: Captioner,
    *,
    cut_above: float | None = WHOLE_SECONDS,
    begun: Mapping[Path, int] | None = None,
    show_progress: bool = True,
) -> Iterator[FileCaption]:
    """Captions files in their order, each as soon as it can be said. A bad file is an answer too.

    Videos that last more than ``cut_above`` seconds are cut at shot changes; None never cuts. ``begun`` tells how many
    pieces of a video have been captioned earlier.
    """
    if not paths:
        return
    skipped = {i: begun[path] for i, path in enumerate(paths) if begun and path in begun}
    looks = Looks(paths, captioner.extractor(paths[0]).computer, cut_above=cut_above, begun=skipped)
    ready: dict[tuple[int, int], FileCaption] = {}  # what waits for an answer before it
    video, number = 0, None
    # One thread: the workers have the other cores.
    with (
        progress("caption", len(paths), "captions", visible=show_progress) as bar,
        torch_threads(captioner.config.threads or 1),
    ):
        for seen in looks:
            features = [(s.features, s.facts.get("sight")) for _, s in seen if s.features is not None]
            captions = iter(captioner.caption_seen(features))
            for piece, s in seen:
                caption = next(captions) if s.features is not None else None
                ready[piece.video, piece.number] = FileCaption(paths[piece.video], piece, caption, s.error)
            while video in looks.counts:
                number = looks.first_piece(video) if number is None else number
                if (video, number) not in ready:
                    break
                yield ready.pop((video, number))
                number += 1
                if number == looks.counts[video]:
                    video, number = video + 1, None
            bar.total = len(paths) - len(looks.counts) + sum(looks.counts.values())
            bar.advance(len(seen))


def find_videos(videos: Sequence[str], listed: Iterable[str] = ()) -> list[Path]:
    """Files as named, videos of folders in order of their names, and what patterns match; each once."""
    found: dict[Path, None] = {}
    for name in videos:
        try:
            found |= dict.fromkeys(_expand(name, listed))
        except OSError as error:  # a name that is too long, a folder that may not be read
            raise FewcapError(f"'{name[:200]}': {error.strerror}.") from None
    if not found:
        raise FewcapError("the list on the standard input names no video.")
    return list(found)


def load_captioner(model: Path | None, n_best: int) -> Captioner:
    """The captioner of a model or project folder, without one the default, ready for ``n_best`` captions a video."""
    config = CaptionConfig(beam=n_best, alternatives=n_best) if n_best > CaptionConfig().alternatives else None
    return Captioner.default(config) if model is None else Captioner.load(model_folder(model), config)


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
        return [path for line in listed if (entry := line.strip()) for path in _expand(entry, ())]
    path = Path(name)
    if path.is_dir():
        inside = sorted(entry for entry in path.rglob("*") if _is_video(entry.relative_to(path)) and entry.is_file())
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


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in VIDEO_SUFFIXES and not any(part.startswith(".") for part in path.parts)
