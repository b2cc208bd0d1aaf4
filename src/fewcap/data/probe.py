"""A quick look at each video file: does a decoder open it, and what is its hash."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fewcap.core.progress import progress
from fewcap.core.store import Workspace, fingerprint, sha256_file
from fewcap.data.media import images_in

_BLOCK = 200  # videos between two points from which a killed run goes on


@dataclass(frozen=True)
class Probed:
    """``fault`` says why the file is no video; None when it is one."""

    sha256: str
    fault: str | None


def probe_all(workspace: Workspace, paths: Sequence[Path], *, decode: bool = True) -> list[Probed]:
    """Looks at every file; ``decode=False`` only hashes. Results so far survive a kill."""
    found: list[Probed] = []
    with progress("looking at videos", len(paths), "videos") as bar:
        for begin in range(0, len(paths), _BLOCK):
            name = f"scratch/probe-{begin:08d}.jsonl"
            if workspace.exists(name):
                block = [Probed(**row) for row in workspace.read_jsonl(name)]
                bar.advance(len(block))
            else:
                block = []
                for path in paths[begin : begin + _BLOCK]:
                    block.append(Probed(video_hash(path), fault_of(path) if decode else None))
                    bar.advance()
                workspace.write_jsonl(name, map(asdict, block))
            found.extend(block)
    return found


def video_hash(path: Path) -> str:
    """sha256 of a file; of the names and hashes of its images for a folder."""
    if path.is_dir():
        return fingerprint([[image.name, sha256_file(image)] for image in images_in(path)])
    try:
        return sha256_file(path)
    except OSError:
        return ""


def fault_of(path: Path) -> str | None:
    """Why nothing can be seen in a file or folder of images, or None when its first picture can be decoded."""
    return _fault_of_images(path) if path.is_dir() else _fault_of_file(path)


def _fault_of_file(path: Path) -> str | None:
    import av

    try:
        if path.stat().st_size == 0:
            return "the file is empty"
        with av.open(str(path), metadata_errors="ignore") as container:
            if not container.streams.video:
                return "it has no pictures (no video stream)"
            if next(container.decode(video=0), None) is None:
                return "no picture can be decoded"
    except (av.FFmpegError, OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def _fault_of_images(folder: Path) -> str | None:
    from PIL import Image, UnidentifiedImageError

    images = images_in(folder)
    if not images:
        return "the folder holds no images"
    try:
        with Image.open(images[0]) as picture:
            picture.load()
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        return f"{images[0].name}: {error}".replace(f"{folder}{os.sep}", "")
    return None
