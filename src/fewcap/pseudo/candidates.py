"""What every strategy takes and gives: a given sentence in, candidate sentences out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Source:
    """A given sentence of a video, and its keywords."""

    video: str
    number: int  # of the sentence among those of the video
    text: str
    keywords: tuple[str, ...]

    def key(self, seed: int, chain: int) -> str:
        """Seeds what is random about one candidate and nothing else."""
        return f"{seed}/{self.video}/{self.number}/{chain}"


@dataclass(frozen=True)
class Candidate:
    """An invented sentence, how it came about, and what speaks against it already."""

    words: tuple[str, ...]
    edits: tuple[dict[str, Any], ...] = ()
    lm_score: float | None = None  # mean log probability of a token
    problem: str | None = None
    merit: float | None = None  # what speaks for it before the video is asked, where that is more than the lm_score


class Strategy(Protocol):
    """A way of inventing sentences. `keeps_keywords` promises that every keyword is in every candidate."""

    name: str
    keeps_keywords: bool

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        """A list for each source, in order; the same for a source whoever else is in the call."""
        ...
