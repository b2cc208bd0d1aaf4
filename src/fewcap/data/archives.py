"""Writes the images of tar files out, so that a video in a tar file becomes a folder of images."""

from __future__ import annotations

import tarfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from fewcap.core.progress import progress
from fewcap.core.store import Workspace, readable_os_errors
from fewcap.data.media import Source


def unpack(workspace: Workspace, folder: str, wanted: Sequence[tuple[str, Source]]) -> dict[str, Path]:
    """Unpacks the videos (id, source) that are in tar files to ``folder``; returns where each one is."""
    targets: dict[Path, dict[str, Path]] = defaultdict(dict)
    places = {}
    for video_id, source in wanted:
        if source.archive is None:
            continue
        places[video_id] = workspace.path(f"{folder}/{source.id}")
        for member in source.members:
            targets[source.archive][member] = places[video_id] / PurePosixPath(member).name
    with progress("unpacking images", sum(map(len, targets.values())), "images") as bar:
        for archive_path, files in targets.items():
            with tarfile.open(archive_path) as archive:
                for entry in archive:
                    path = files.get(entry.name)
                    if path is None:
                        continue
                    if not path.exists():
                        _write(archive, entry, path)
                    bar.advance()
    return places


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: Path) -> None:
    """Renamed when complete, but not synced to disk one by one: thousands of small files would take minutes."""
    content = archive.extractfile(entry)
    assert content is not None  # only regular files were listed
    temporary = path.with_name(f".{path.name}.tmp")
    with readable_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.read())
        temporary.replace(path)
