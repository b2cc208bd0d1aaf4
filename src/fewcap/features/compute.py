"""From videos to vectors: the one function that every engine runs.

Frames of several videos share the batches of the appearance network while a thread decodes the next video. The result
of a video depends on nothing but the video: batches have one shape, and their rows do not influence one another.
"""

from __future__ import annotations

import json
import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from safetensors.torch import load, save

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.core.types import KINDS, VideoFeatures
from fewcap.features.backbones import Backbones, build
from fewcap.features.backbones.base import Appearance
from fewcap.features.picture import WHOLE, Crop
from fewcap.features.shots import Pieces, cut
from fewcap.features.sight import sight
from fewcap.features.sources import open_source
from fewcap.features.store import tensor_key
from fewcap.features.video import Sample, sample_parts, sample_video

_AHEAD = 2  # videos decoded before the network has asked for them

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """A video, or a part of it, to look at."""

    id: str
    path: str
    start: float | None = None  # seconds
    end: float | None = None
    cut_above: float | None = None  # a video that lasts more seconds is only cut into pieces
    cropped: bool = False  # through a cut-out that follows from the id


@dataclass(frozen=True)
class Seen:
    """What came of a video: features and facts, or the error. A video that was cut has the fact "pieces" alone."""

    id: str
    features: VideoFeatures | None
    facts: dict[str, Any]
    error: str | None = None


class Computer:
    """The backbones of a configuration, ready to look at videos."""

    def __init__(self, config: FeaturesConfig) -> None:
        self.config = config
        self.backbones: Backbones = build(config)

    def run(self, jobs: Sequence[Job], began: Callable[[str], None] = lambda video: None) -> Iterator[Seen]:
        """Results in the order of ``jobs``; ``began`` hears of each video before it is opened."""
        samples = _ahead(self._samples(jobs, began))
        frames = ((found, found[1].frames if isinstance(found[1], Sample) else None) for found in samples)
        for (job, found), vectors, maps in run_batched(self.backbones.appearance, frames):
            if isinstance(found, Sample):
                yield self._finish(job.id, found, vectors, maps)
            elif isinstance(found, Pieces):
                yield Seen(job.id, None, asdict(found))
            else:
                yield Seen(job.id, None, {}, found)

    def look(self, path: Path, start: float | None = None, end: float | None = None) -> Seen:
        """One video, or a part of it; what can not be read is an error."""
        sample = sample_video(path, self.config, self.backbones.views, start=start, end=end)
        _, vectors, maps = next(run_batched(self.backbones.appearance, [(None, sample.frames)]))
        return self._finish(str(path), sample, vectors, maps)

    def _samples(
        self, jobs: Sequence[Job], began: Callable[[str], None]
    ) -> Iterator[tuple[Job, Sample | Pieces | str]]:
        """One walk for parts of a file that follow one another; what can not be read is a sentence."""
        waiting = deque(jobs)
        while waiting:
            path = Path(waiting[0].path)
            began(waiting[0].id)
            try:
                with closing(open_source(path, self.config)) as source:
                    longest = waiting[0].cut_above
                    if longest is not None and source.timeline.seconds > longest:
                        yield waiting.popleft(), cut(source)
                        continue
                    parts = _one_walk(waiting)
                    spans = [(part.start, part.end) for part in parts]
                    crop = Crop.drawn(parts[0].id) if parts[0].cropped else WHOLE
                    for sample, later in zip_longest(
                        sample_parts(source, spans, self.config, self.backbones.views, crop), parts[1:]
                    ):
                        yield waiting.popleft(), sample
                        if later is not None:
                            began(later.id)
            except FewcapError as error:
                yield waiting.popleft(), str(error)
            except MemoryError:
                error_text = f"{path}: needs more memory than features.memory_limit allows; raise that limit."
                yield waiting.popleft(), error_text

    def _finish(self, video: str, sample: Sample, vectors: torch.Tensor, maps: torch.Tensor) -> Seen:
        motion, objects = self.backbones.motion, self.backbones.objects
        with torch.inference_mode():
            features = VideoFeatures(
                appearance=vectors.half(),
                motion=motion(sample, maps).half() if motion is not None else None,
                objects=objects(sample, maps).half() if objects is not None else None,
            )
        facts: dict[str, Any] = {
            "counts": {kind: len(x) for kind in KINDS if (x := getattr(features, kind)) is not None},
            "timestamps": sample.frame_times,
            "clips": [list(span) for span in sample.clip_spans],
        }
        if sample.warnings:
            facts["warnings"] = sample.warnings
        if (shown := sight(sample.frames)) is not None:
            facts["sight"] = shown
        return Seen(video, features, facts)


def _one_walk(jobs: Iterable[Job]) -> list[Job]:
    """The first job, and those after it that go on in the same file."""
    parts: list[Job] = []
    for job in jobs:
        if parts and (job.path != parts[0].path or job.start is None or job.start < (parts[-1].end or math.inf)):
            break
        parts.append(job)
    return parts


@dataclass
class _Entry(Generic[T]):
    item: T
    rows: int
    vectors: list[torch.Tensor] = field(default_factory=list)
    maps: list[torch.Tensor] = field(default_factory=list)


def run_batched(
    network: Appearance, items: Iterable[tuple[T, np.ndarray | None]]
) -> Iterator[tuple[T, torch.Tensor, torch.Tensor]]:
    """Runs the frames [n_i, H, W, 3] of many items through the network in batches of one size, the last one filled up.

    Gives each item back, in order, with vectors [n_i, d] and maps [n_i, c, h, w]; an item without frames passes by.
    """
    entries: deque[_Entry[T]] = deque()
    rows: deque[tuple[_Entry[T], np.ndarray]] = deque()

    def flush() -> None:
        taken = [rows.popleft() for _ in range(min(network.batch, len(rows)))]
        batch = np.stack([frame for _, frame in taken])  # [B, H, W, 3]
        if len(taken) < network.batch:
            batch = np.concatenate([batch, np.zeros((network.batch - len(taken), *batch.shape[1:]), batch.dtype)])
        vectors, maps = network(batch)
        for i, (entry, _) in enumerate(taken):
            entry.vectors.append(vectors[i])
            entry.maps.append(maps[i])

    def finished() -> Iterator[tuple[T, torch.Tensor, torch.Tensor]]:
        while entries and len(entries[0].vectors) == entries[0].rows:
            entry = entries.popleft()
            if entry.rows:
                yield entry.item, torch.stack(entry.vectors), torch.stack(entry.maps)
            else:
                yield entry.item, torch.empty(0), torch.empty(0)

    for item, frames in items:
        entry = _Entry(item, 0 if frames is None else len(frames))
        entries.append(entry)
        rows.extend((entry, frame) for frame in (() if frames is None else frames))
        while len(rows) >= network.batch:
            flush()
        yield from finished()
    while rows:
        flush()
    yield from finished()


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """Runs an iterator in a thread, a few items ahead: decoding leaves the interpreter free for the network."""
    buffer: queue.Queue[tuple[str, Any]] = queue.Queue(_AHEAD)
    stopped = threading.Event()

    def put(entry: tuple[str, Any]) -> bool:
        while not stopped.is_set():
            try:
                buffer.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def produce() -> None:
        try:
            for item in items:
                if not put(("item", item)):
                    return
            put(("end", None))
        except BaseException as error:
            put(("error", error))

    threading.Thread(target=produce, daemon=True, name="decode").start()
    try:
        while True:
            what, content = buffer.get()
            if what == "end":
                return
            if what == "error":
                raise content
            yield content
    finally:
        stopped.set()


def pack(results: Iterable[Seen]) -> bytes:
    """Results as one safetensors file: tensors by kind and video, facts and errors in its header."""
    tensors: dict[str, torch.Tensor] = {}
    rows = []
    for seen in results:
        rows.append({"id": seen.id, "facts": seen.facts, "error": seen.error})
        for kind in KINDS:
            tensor = getattr(seen.features, kind, None)
            if tensor is not None:
                tensors[tensor_key(kind, seen.id)] = tensor.contiguous()
    return save(tensors, {"videos": json.dumps(rows)})


def unpack(content: bytes) -> list[Seen]:
    """The results that ``pack`` put together."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    tensors = load(content)
    found = []
    for row in json.loads(header["__metadata__"]["videos"]):
        parts = {kind: tensors[key] for kind in KINDS if (key := tensor_key(kind, row["id"])) in tensors}
        found.append(Seen(row["id"], VideoFeatures(**parts) if parts else None, row["facts"], row["error"]))
    return found
