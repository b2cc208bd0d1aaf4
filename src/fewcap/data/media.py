"""Which videos can be had: files in folders, folders of images, images in tar files, packed features."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path, PurePosixPath

from fewcap.core.errors import FewcapError
from fewcap.core.store import fingerprint
from fewcap.data.annotations import legible
from fewcap.data.packed import PackedFeatures

VIDEO_SUFFIXES = frozenset(
    (".mp4", ".m4v", ".avi", ".mkv", ".webm", ".mov", ".mpg", ".mpeg", ".wmv", ".flv", ".gif", ".ts", ".3gp", ".ogv")
)
IMAGE_SUFFIXES = frozenset((".webp", ".jpg", ".jpeg", ".png", ".bmp"))
_SAMPLED_BYTES = 1 << 16


@dataclass(frozen=True)
class Source:
    """One video that can be had."""

    id: str  # its path below its folder without suffix, such as ``kitchen/0012``
    path: Path | None = None  # a file, or a folder of images
    archive: Path | None = None  # a tar file ...
    members: tuple[str, ...] = ()  # ... and the images in it
    packed: bool = False
    place: int = 0  # which of the places it is in: earlier ones are preferred


class Media:
    """Finds videos by the names that captions give them."""

    def __init__(self, places: Sequence[Path], packed: PackedFeatures | None = None) -> None:
        self.places = tuple(places)
        self.packed = packed
        self.sources: list[Source] = []
        self.unnameable: list[str] = []  # files whose names are not UTF-8: no artefact could name them
        self._by_name: dict[str, list[Source]] = defaultdict(list)
        for number, place in enumerate(places):
            for source in _distinct(list(_sources_in(place))):
                if (name := legible(source.id)) != source.id:
                    self.unnameable.append(name)
                else:
                    self._index(replace(source, place=number), place)
        if not self.sources and packed is None:
            looked_for = ", ".join(sorted(VIDEO_SUFFIXES))
            raise FewcapError(
                f"{', '.join(map(str, places))}: no videos found (looked for {looked_for}, and folders of images)."
            )
        if packed is not None:
            for video_id in packed.ids:
                self._index(Source(video_id, packed=True, place=len(places)), None)

    def find(self, names: Iterable[str]) -> list[Source]:
        """Videos that the first matching name may mean, the best first: a path, a name, a stem, whatever its case."""
        for name in names:
            plain = name.replace("\\", "/").strip()
            suffix = PurePosixPath(plain).suffix
            spellings = [plain, plain.removeprefix("./"), PurePosixPath(plain).name]
            if suffix.lower() in VIDEO_SUFFIXES:  # the file may have been converted to another format
                spellings += [plain.removesuffix(suffix), PurePosixPath(plain).stem]
            for spelling in [*spellings, *(f"\0{spelling.lower()}" for spelling in spellings)]:
                if found := self._by_name.get(spelling):
                    return found
            for place in self.places:  # place / plain is plain itself when that is an absolute path
                if plain and (place / plain).is_file():
                    return [Source(PurePosixPath(plain).with_suffix("").as_posix().lstrip("/"), path=place / plain)]
        return []

    def _index(self, source: Source, place: Path | None) -> None:
        self.sources.append(source)
        names = {source.id, PurePosixPath(source.id).name}
        if source.path is not None and place is not None:
            relative = source.path.relative_to(place).as_posix()
            names |= {relative, source.path.name}
            if source.path.is_file():
                names |= {relative.removesuffix(source.path.suffix), source.path.stem}
        for name in sorted(names | {f"\0{name.lower()}" for name in names}):
            self._by_name[name].append(source)


def _sources_in(place: Path) -> Iterator[Source]:
    if place.is_dir():
        yield from _sources_in_folder(place)
    elif place.is_file():
        yield from _sources_in_archive(place)
    else:
        raise FewcapError(f"{place}: there is no such folder of videos.")


def _sources_in_folder(place: Path) -> Iterator[Source]:
    seen: set[str] = set()
    for parent, folders, files in os.walk(place, followlinks=True):
        here = Path(parent)
        if (real := os.path.realpath(parent)) in seen:  # a link to a folder above would lead round for ever
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        visible = sorted(name for name in files if not name.startswith("."))
        videos = [name for name in visible if Path(name).suffix.lower() in VIDEO_SUFFIXES]
        for name in videos:
            path = here / name
            yield Source(path.relative_to(place).with_suffix("").as_posix(), path=path)
        if not videos and here != place and any(Path(name).suffix.lower() in IMAGE_SUFFIXES for name in visible):
            yield Source(here.relative_to(place).as_posix(), path=here)


def _sources_in_archive(place: Path) -> Iterator[Source]:
    groups: dict[str, list[str]] = defaultdict(list)
    try:
        with tarfile.open(place) as archive:
            for member in archive:
                name = PurePosixPath(member.name)
                if member.isfile() and name.suffix.lower() in IMAGE_SUFFIXES:
                    # An image in no folder is a video of one frame.
                    video = name.parent if len(name.parts) > 1 else name.with_suffix("")
                    groups["/".join(part for part in video.parts if part not in ("/", ".."))].append(member.name)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise FewcapError(f"{place}: neither a folder of videos nor a tar file of images ({error}).") from None
    groups.pop("", None)
    for group, members in groups.items():
        yield Source(group, archive=place, members=tuple(sorted(members, key=_natural)))


def _distinct(sources: list[Source]) -> list[Source]:
    """Gives files that differ by their suffix alone ids with the suffix."""
    seen: dict[str, int] = defaultdict(int)
    for source in sources:
        seen[source.id] += 1
    return [
        replace(source, id=f"{source.id}{source.path.suffix}")
        if seen[source.id] > 1 and source.path is not None and source.path.is_file()
        else source
        for source in sources
    ]


def images_in(folder: Path) -> list[Path]:
    """The images of a folder that counts as a video, in the order of their numbers."""
    return sorted(
        (path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")),
        key=lambda path: _natural(path.name),
    )


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key by which ``2.webp`` comes before ``10.webp``."""
    parts: list[tuple[int, str]] = []
    for is_digit, text in _runs(name):
        parts.append((int(text), "") if is_digit else (-1, text))
    return tuple(parts)


def _runs(name: str) -> Iterator[tuple[bool, str]]:
    for is_digit, characters in groupby(name, lambda c: c.isascii() and c.isdigit()):
        yield is_digit, "".join(characters)


def listing_hash(place: Path) -> str:
    """A hash of the videos in a place that is quick on thousands of large files: names, sizes, first and last bytes."""
    if place.is_file():
        return _sampled_hash(place)
    if not place.is_dir():
        raise FewcapError(f"{place}: there is no such folder of videos.")
    sources = [source.path for source in _sources_in_folder(place) if source.path is not None]
    files = [file for path in sources for file in (images_in(path) if path.is_dir() else [path])]
    return fingerprint(sorted([legible(path.relative_to(place).as_posix()), _sampled_hash(path)] for path in files))


def _sampled_hash(path: Path) -> str:
    digest = hashlib.sha256()
    if not path.is_file():  # a link that leads nowhere; the look at each video reports it
        return ""
    with open(path, "rb") as handle:
        size = os.fstat(handle.fileno()).st_size
        digest.update(size.to_bytes(8, "big"))
        digest.update(handle.read(_SAMPLED_BYTES))
        if size > _SAMPLED_BYTES:
            handle.seek(max(_SAMPLED_BYTES, size - _SAMPLED_BYTES))
            digest.update(handle.read())
    return digest.hexdigest()
