"""What a reader finds in annotation files: videos with their captions, and the problems on the way.

A reader drops nothing silently. What it can not use becomes a ``Problem``: counted, written to ``problems.jsonl``
and shown to the user, fatal only when nothing is left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from fewcap.core.types import Split

ProblemKind = Literal[
    "ambiguous_name",  # a caption names a video that several files could be
    "broken_name",  # a file whose name is not UTF-8
    "broken_row",  # a row that can not be read as the others are
    "caption_without_video",
    "cleaned_caption",  # a training sentence passed over because cleaning is on
    "conflicting_split",  # one video, two splits
    "duplicate_id",  # a video id that was there before
    "empty_caption",
    "empty_split",  # no video is left in a split
    "encoding",  # a file that is not UTF-8
    "missing_id",  # a row that names no video
    "missing_split",  # a video whose split is not stated, where others state theirs
    "not_a_video",  # a file that no decoder opens
    "other_split",  # validation or test of a further corpus, which only trains
    "other_language",  # descriptions that are not English
    "unknown_split",  # a split that is none of train, val, test
    "video_without_caption",
]


@dataclass(frozen=True)
class Problem:
    """Something in the data that could not be used as it stands."""

    kind: ProblemKind
    where: str  # file, and line or key in it
    value: str
    what_was_done: str


class Problems:
    """The problems found so far, in order."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, kind: ProblemKind, where: str, value: str, what_was_done: str) -> None:
        self._found.append(Problem(kind, where, value, what_was_done))

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def of_kind(self, kind: ProblemKind) -> list[Problem]:
        return [problem for problem in self._found if problem.kind == kind]

    def counts(self) -> dict[str, int]:
        """Number of problems by kind, kinds in alphabetical order."""
        return dict(sorted(Counter(problem.kind for problem in self._found).items()))

    def rows(self) -> list[dict[str, str]]:
        return [asdict(problem) for problem in self._found]


@dataclass
class AnnotatedVideo:
    """A video as annotation files describe it; whether it can be had is another question."""

    id: str
    where: str  # file and line that named it first
    captions: list[str] = field(default_factory=list)
    split: Split | None = None
    aliases: tuple[str, ...] = ()  # other names that its file may have


class Annotations:
    """Videos by id, in the order in which they were found."""

    def __init__(self, problems: Problems) -> None:
        self.videos: dict[str, AnnotatedVideo] = {}
        self.problems = problems

    def add(
        self,
        video_id: str,
        captions: Sequence[str],
        *,
        where: str,
        split: Split | None = None,
        aliases: tuple[str, ...] = (),
    ) -> AnnotatedVideo | None:
        """Adds captions to a video, the first time with its split; returns None for a row without an id."""
        video_id = legible(video_id.strip())
        if not video_id:
            self.problems.add("missing_id", where, "; ".join(captions)[:200], "left out: it names no video")
            return None
        video = self.videos.get(video_id)
        if video is None:
            video = self.videos[video_id] = AnnotatedVideo(video_id, where, split=split, aliases=aliases)
        elif split is not None and video.split is None:
            video.split = split
        elif split is not None and split != video.split:
            self.problems.add(
                "conflicting_split", where, f"{video_id}: {split}", f"stays in {video.split}, as in {video.where}"
            )
        for caption in captions:
            text = legible(" ".join(caption.split()))
            if text:
                video.captions.append(text)
            else:
                self.problems.add("empty_caption", where, video_id, "left out")
        return video


def legible(text: str) -> str:
    """The text as it can be written in UTF-8: half characters, as broken JSON and file names have them, become "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


_SPLIT_NAMES: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "tr": "train",
    "val": "val",
    "valid": "val",
    "validate": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
    "eval": "test",
}


def split_of(name: str) -> Split | None:
    """The split that a word such as ``training`` or ``validate`` means, or None."""
    return _SPLIT_NAMES.get(name.strip().lower())


def split_in_file_name(name: str) -> Split | None:
    """The split that a file name such as ``vatex_training_v1.0.json`` states, or None."""
    return next((split for part in re.split(r"[^a-z]+", name.lower()) if (split := split_of(part))), None)
