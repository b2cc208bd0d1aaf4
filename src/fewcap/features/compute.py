"""From videos to vectors: the one function that every engine runs.

Frames of several videos share the batches of the appearance network while a thread decodes the next video. The result
of a video depends on nothing but the video: batches have one shape, and their rows do not influence one another.
"""

from __future__ import annotations

import json
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from safetensors.torch import save

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.core.types import KINDS, VideoFeatures
from fewcap.features.backbones import Backbones, build
from fewcap.features.backbones.base import Appearance
from fewcap.features.store import tensor_key
from fewcap.features.video import Sample, sample_video

_AHEAD = 2  # videos decoded before the network has asked for them

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """A video to look at."""

    id: str
    path: str


@dataclass(frozen=True)
class Seen:
    """What came of a video: features and facts, or the error."""

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
        for (job, sample), vectors, maps in run_batched(self.backbones.appearance, frames):
            if isinstance(sample, Sample):
                yield self._finish(job.id, sample, vectors, maps)
            else:
                yield Seen(job.id, None, {}, sample)

    def look(self, path: Path, start: float | None = None, end: float | None = None) -> Seen:
        """One video, or a part of it; what can not be read is an error."""
        sample = sample_video(path, self.config, self.backbones.views, start=start, end=end)
        _, vectors, maps = next(run_batched(self.backbones.appearance, [(None, sample.frames)]))
        return self._finish(str(path), sample, vectors, maps)

    def _samples(self, jobs: Sequence[Job], began: Callable[[str], None]) -> Iterator[tuple[Job, Sample | str]]:
        for job in jobs:
            began(job.id)
            try:
                yield job, sample_video(Path(job.path), self.config, self.backbones.views)
            except FewcapError as error:
                yield job, str(error)
            except MemoryError:
                yield job, f"{job.path}: needs more memory than features.memory_limit allows; raise that limit."

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
        return Seen(video, features, facts)


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
