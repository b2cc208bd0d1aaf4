"""Captions as text, JSON lines, CSV or subtitles, on a stream or in files that a second run goes on with.

Rows are appended as captions come, one write each. Subtitles of a video grow beside their place and are renamed when
the video is done. A file that is there already is read first: what it holds is not captioned again.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol, get_args

from fewcap.captioning.captioner import Captioner
from fewcap.captioning.files import WHOLE_SECONDS, FileCaption, caption_files
from fewcap.captioning.formats import CsvRows, Held, JsonRows, Rows, Style, Subtitles, TextRows
from fewcap.core.errors import FewcapError, UsageError
from fewcap.core.store import readable_os_errors

Format = Literal["text", "jsonl", "csv", "srt", "vtt"]
FORMATS: tuple[Format, ...] = get_args(Format)

_ROWS: dict[str, type[Rows]] = {"text": TextRows, "jsonl": JsonRows, "csv": CsvRows}


class Output(Protocol):
    """Where captions go."""

    on_screen: bool  # whoever waits sees them come

    def begun(self, video: Path) -> int | None:
        """How many pieces of a video it holds from an earlier run; None: the whole video."""
        ...

    def failed(self, video: Path) -> bool:
        """Whether an earlier run could not caption it."""
        ...

    def write(self, answer: FileCaption) -> None: ...


@dataclass
class Written:
    """What came of captioning files."""

    videos: int
    held: int = 0  # whole in the output before
    failed: int = 0  # not captioned, or not wholly

    def __str__(self) -> str:
        return f"{self.failed} of {self.videos} videos could not be captioned."


def caption_to(
    output: Output,
    videos: Sequence[Path],
    load: Callable[[], Captioner],
    *,
    cut_above: float | None,
    tell: Callable[[str], None],
) -> Written:
    """Captions what the output does not hold yet; ``tell`` hears of each video that can not be captioned."""
    begun = {video: output.begun(video) for video in videos}
    waiting = {video: pieces for video, pieces in begun.items() if pieces is not None}
    written = Written(len(videos), len(videos) - len(waiting))
    failed = {video for video in videos if video not in waiting and output.failed(video)}
    if written.held:
        tell(f"{written.held} of {len(videos)} videos are in the output already and stay as they are.")
    if waiting:
        for answer in caption_files(
            list(waiting), load(), cut_above=cut_above, begun=waiting, show_progress=not output.on_screen
        ):
            output.write(answer)
            if answer.error is not None:
                failed.add(answer.video)
                tell(answer.error)
    written.failed = len(failed)
    return written


def cut_limit(format: Format, shots: bool | None) -> float | None:
    """How long a video may be, in seconds, to be captioned as a whole; None: any length."""
    if format in _ROWS:
        return WHOLE_SECONDS if shots is None else 0.0 if shots else None
    if shots is False:
        raise UsageError(
            f"{format} needs the times of pieces; leave --no-shots out, or use --format text, jsonl or csv."
        )
    return 0.0


def open_output(format: Format, out: Path | None, videos: Sequence[Path], style: Style) -> Output:
    """A place for the captions of ``videos``; a wish that the format can not fulfil is refused here."""
    if format in _ROWS:
        rows = _ROWS[format](style)
        if out is not None and out.is_dir():
            raise UsageError(f"--out {out} is a folder; name a file for --format {format}.")
        return RowFile(rows, out) if out is not None else Stream(rows, sys.stdout.buffer)
    if format == "srt" and (style.n_best > 1 or style.explain):
        raise UsageError("SRT has no place for --n-best and --explain; use --format vtt, jsonl, csv or text.")
    subtitles = Subtitles(style, web=format == "vtt")
    if out is None:
        if len(videos) > 1:
            raise UsageError(
                f"{len(videos)} videos give {len(videos)} {format} files; name a folder with --out FOLDER."
            )
        return Stream(subtitles, sys.stdout.buffer)
    if len(videos) == 1 and out.suffix.lower() == f".{format}":
        return SubtitleFiles(subtitles, {videos[0]: out})
    if out.is_file() or out.suffix.lower() == f".{format}":
        raise UsageError(f"--out {out}: {len(videos)} videos give {len(videos)} {format} files; name a folder.")
    return SubtitleFiles(subtitles, {video: out / f"{name}.{format}" for video, name in short_names(videos).items()})


class Stream:
    """A stream, such as the standard output."""

    def __init__(self, rows: Rows | Subtitles, stream: BinaryIO) -> None:
        self._rows, self._stream = rows, stream
        self._head = rows.head()
        self.on_screen = stream.isatty()

    def begun(self, video: Path) -> int | None:
        return 0

    def failed(self, video: Path) -> bool:
        return False

    def write(self, answer: FileCaption) -> None:
        self._stream.write((self._head + self._rows.record(answer)).encode("utf-8", "backslashreplace"))
        self._stream.flush()
        self._head = ""


class RowFile:
    """A file of rows; one that is there is gone on with."""

    on_screen = False

    def __init__(self, rows: Rows, path: Path) -> None:
        self._rows, self._path = rows, path
        self._held: dict[str, list[Held]] = defaultdict(list)
        with _reachable(path):
            content = path.read_bytes() if path.is_file() else b""
            whole = content[: content.rfind(b"\n") + 1]  # a kill may have cut the last row
            for held in rows.read(whole.decode("utf-8", "replace"), path):
                self._held[held.video].append(held)
            path.parent.mkdir(parents=True, exist_ok=True)
            if whole != content:
                os.truncate(path, len(whole))
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - open as long as the run
            if not whole and rows.head():
                self._file.write(rows.head().encode())

    def begun(self, video: Path) -> int | None:
        held = self._held.get(self._rows.name(video))
        if not held:
            return 0
        return None if held[-1].number == held[-1].count else held[-1].number

    def failed(self, video: Path) -> bool:
        return any(held.failed for held in self._held.get(self._rows.name(video), ()))

    def write(self, answer: FileCaption) -> None:
        with _reachable(self._path):
            self._file.write(self._rows.record(answer).encode("utf-8", "backslashreplace"))


class SubtitleFiles:
    """A file a video. It has a name of its own until the video is done."""

    on_screen = False

    def __init__(self, subtitles: Subtitles, places: dict[Path, Path]) -> None:
        self._subtitles, self._places = subtitles, places
        for folder in {place.parent for place in places.values()}:  # before any work
            with _reachable(folder):
                folder.mkdir(parents=True, exist_ok=True)

    def begun(self, video: Path) -> int | None:
        place = self._places[video]
        if place.exists():
            return None
        part = _part(place)
        if not part.exists():
            return 0
        with _reachable(part):
            kept, last = self._subtitles.without_last(part.read_text(encoding="utf-8", errors="replace"))
            part.write_text(kept, encoding="utf-8")
        return last

    def failed(self, video: Path) -> bool:
        return False

    def write(self, answer: FileCaption) -> None:
        place = self._places[answer.video]
        part = _part(place)
        with _reachable(place):
            if text := self._subtitles.record(answer):
                head = "" if part.exists() else self._subtitles.head()
                with open(part, "ab", buffering=0) as file:
                    file.write((head + text).encode("utf-8", "backslashreplace"))
            if answer.last and part.exists():
                part.replace(place)


@contextmanager
def _reachable(path: Path) -> Iterator[None]:
    """A place that can not be written to is a sentence."""
    try:
        with readable_os_errors(path):
            yield
    except OSError as error:
        raise UsageError(f"--out {path}: can not be written ({error.strerror}); name another place.") from None


def _part(place: Path) -> Path:
    return place.with_name(place.name + ".part")


def short_names(videos: Sequence[Path]) -> dict[Path, str]:
    """A file name for each video: its own without the suffix, and as much more of its path as it takes to differ."""
    names = {video: video.stem for video in videos}
    for parts in range(1, max((len(video.parts) for video in videos), default=1) + 2):
        owners: dict[str, list[Path]] = defaultdict(list)
        for video, name in names.items():
            owners[name.casefold()].append(video)
        clashes = [video for same in owners.values() if len(same) > 1 for video in same]
        if not clashes:
            return names
        names |= {video: "_".join(video.parts[-parts:]).replace(os.sep, "") for video in clashes}
    raise FewcapError(f"{clashes[0]} and {clashes[1]} would be one file; caption them one by one.")
