"""Features of many files as they come: in this process for a few, by workers for many; long videos piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fewcap.core.devices import torch_threads
from fewcap.features.compute import Computer, Job, Seen, unpack
from fewcap.features.engines import Crew, Unit, cores

FEW = 4  # so many videos or pieces are done sooner without starting workers
_UNIT = 8  # that a worker takes at a time


@dataclass(frozen=True)
class Piece:
    """A video, or its part between two shot changes."""

    video: int  # its number in the list
    number: int = 0
    count: int = 1
    span: tuple[float, float] | None = None  # seconds; None: the whole video


class Looks:
    """Looks at files in order; what is seen of them comes as it is ready.

    ``cut_above``: a video that lasts more seconds is cut at its shot changes; None never cuts. ``begun`` says how many
    pieces of a video are not wanted any more.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        computer: Computer,
        *,
        cut_above: float | None,
        begun: Mapping[int, int],
        workers: int | None = None,
    ) -> None:
        self.counts: dict[int, int] = {}  # pieces of each video that has been looked at
        self._paths, self._computer, self._begun = paths, computer, begun
        self._workers = workers or cores()
        self._pieces = {str(video): Piece(video) for video in range(len(paths))}
        self._jobs = [Job(str(video), str(path), cut_above=cut_above) for video, path in enumerate(paths)]

    def first_piece(self, video: int) -> int:
        """The first piece that is wanted; of a video that was done but for its end, the last one."""
        return min(self._begun.get(video, 0), self.counts[video] - 1)

    def __iter__(self) -> Iterator[list[tuple[Piece, Seen]]]:
        if self._workers > 1 and len(self._jobs) > FEW:
            yield from self._with_workers(_units(self._jobs))
            return
        cut: list[Unit] = []
        yield from self._here(self._jobs, cut)
        if self._workers > 1 and sum(len(unit.jobs) for unit in cut) > FEW:
            yield from self._with_workers(cut)
        else:
            yield from self._here([job for unit in cut for job in unit.jobs], [])

    def _here(self, jobs: Sequence[Job], cut: list[Unit]) -> Iterator[list[tuple[Piece, Seen]]]:
        results = self._computer.run(jobs)
        while True:
            with torch_threads(1):
                seen = next(results, None)
            if seen is None:
                return
            found, units = self._sorted([seen])
            cut += units
            yield found

    def _with_workers(self, units: Iterable[Unit]) -> Iterator[list[tuple[Piece, Seen]]]:
        with Crew(self._computer.config, self._workers) as crew:
            for unit in units:
                crew.add(unit)
            while crew.busy:
                done = crew.done()
                found, further = self._sorted([seen for each in done for seen in (*each.lost, *unpack(each.content))])
                for unit in reversed(further):
                    crew.add(unit, first=True)  # the answers are wanted in the order of the videos
                yield found

    def _sorted(self, results: Iterable[Seen]) -> tuple[list[tuple[Piece, Seen]], list[Unit]]:
        """What has been seen, and the pieces of videos that were only cut, as work to do."""
        found, units = [], []
        for seen in results:
            piece = self._pieces[seen.id]
            if "spans" in seen.facts:
                units += self._cut(piece.video, seen.facts["spans"], seen.facts["seekable"])
            else:
                self.counts.setdefault(piece.video, piece.count)
                found.append((piece, seen))
        return found, units

    def _cut(self, video: int, spans: Sequence[tuple[float, float]], seekable: bool) -> list[Unit]:
        self.counts[video] = len(spans)
        jobs = []
        for number in range(self.first_piece(video), len(spans)):
            start, end = spans[number]
            job = Job(f"{video}/{number}", str(self._paths[video]), start, end)
            self._pieces[job.id] = Piece(video, number, len(spans), (start, end))
            jobs.append(job)
        size = _UNIT if seekable else len(jobs)  # a file that can only be read from its beginning is read once
        return [Unit(f"{jobs[i].id}", tuple(jobs[i : i + size])) for i in range(0, len(jobs), size)]


def _units(jobs: Sequence[Job]) -> Iterator[Unit]:
    """Small units first: the first answers come soon."""
    first, size = 0, 1
    while first < len(jobs):
        yield Unit(jobs[first].id, tuple(jobs[first : first + size]))
        first += size
        size = min(1 + first // 2, _UNIT)
