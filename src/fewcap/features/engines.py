"""Who runs the work: this process, worker processes, or Ray. A unit of videos gives the same bytes everywhere.

Each engine takes units and gives their results in any order. A worker that dies costs the unit it was at, which another
one repeats; a video that killed three workers is given up and gets an error.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.devices import torch_threads
from fewcap.core.errors import FewcapError
from fewcap.features.compute import Computer, Job, Seen, pack

log = logging.getLogger("fewcap.features")

DEATHS = 3  # of workers at one video before it is given up


@dataclass(frozen=True)
class Unit:
    """A few videos that are worked on together."""

    name: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Done:
    """The result of a unit: a safetensors file, and the videos that had to be given up."""

    unit: Unit
    content: bytes
    lost: tuple[Seen, ...] = ()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_here(units: Sequence[Unit], config: FeaturesConfig) -> Iterator[Done]:
    """Everything in this process, on one core: for a handful of videos, where starting workers would take longer."""
    computer = Computer(config)
    for unit in units:
        with torch_threads(1):
            content = pack(computer.run(unit.jobs))
        yield Done(unit, content)


def run_processes(units: Sequence[Unit], config: FeaturesConfig, workers: int) -> Iterator[Done]:
    """Worker processes of this machine, one core each."""
    with Crew(config, min(workers, len(units))) as crew:
        for unit in units:
            crew.add(unit)
        while crew.busy:
            yield from crew.done()


class Crew:
    """Worker processes, each looked after by a thread, for units that may be added while they work."""

    def __init__(self, config: FeaturesConfig, workers: int) -> None:
        self._config = config
        self._results: queue.Queue[Done | BaseException] = queue.Queue()
        self._waiting: deque[Unit] = deque()
        self._given = 0  # units whose results have not been taken yet
        self._deaths: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._stopped = False
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]

    def __enter__(self) -> Crew:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            for process in self._processes:
                process.kill()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=10)

    def add(self, unit: Unit, *, first: bool = False) -> None:
        """Gives a unit to the crew; ``first``: before all that wait."""
        with self._changed:
            self._given += 1
            if first:
                self._waiting.appendleft(unit)
            else:
                self._waiting.append(unit)
            self._changed.notify()

    @property
    def busy(self) -> bool:
        """Whether there are results to wait for."""
        return self._given > 0

    def done(self) -> list[Done]:
        """Waits for a result, and returns it with all others that are there."""
        found = [self._results.get()]
        with suppress(queue.Empty):
            while True:
                found.append(self._results.get_nowait())
        results = []
        for result in found:
            if isinstance(result, BaseException):
                raise result
            results.append(result)
        self._given -= len(results)
        return results

    def _work(self) -> None:
        worker: _Worker | None = None
        try:
            while (unit := self._next()) is not None:
                lost: list[Seen] = []
                jobs = list(unit.jobs)
                while True:
                    worker = worker or self._start()
                    try:
                        content = worker.run(unit.name, jobs)
                        break
                    except _WorkerDiedError as death:
                        self._end(worker)
                        worker = None
                        if self._stopped:
                            return
                        lost += self._after_death(death, jobs)
                self._results.put(Done(unit, content, tuple(lost)))
        except BaseException as error:
            self._results.put(error)
        finally:
            if worker is not None:
                self._end(worker)

    def _next(self) -> Unit | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped)
            return None if self._stopped else self._waiting.popleft()

    def _start(self) -> _Worker:
        with self._changed:
            if self._stopped:
                raise FewcapError("extraction was stopped.")
            worker = _Worker(self._config)
            self._processes.add(worker.process)
        return worker

    def _end(self, worker: _Worker) -> None:
        with self._changed:
            self._processes.discard(worker.process)
        worker.close()

    def _after_death(self, death: _WorkerDiedError, jobs: list[Job]) -> list[Seen]:
        """Counts against the video at which it happened; too many, and the video is taken out of ``jobs``."""
        video = death.video
        with self._changed:
            self._deaths[video or ""] += 1
            count = self._deaths[video or ""]
        if video is None and count >= DEATHS:
            raise FewcapError(
                f"workers end before they begin ({death}); run the command again with features.workers=1."
            )
        log.warning(
            "a worker ended (%s)%s; its videos are given to another one", death, f" at {video}" if video else ""
        )
        if count < DEATHS or video is None:
            return []
        job = next(job for job in jobs if job.id == video)
        jobs.remove(job)
        return [_given_up(job, str(death))]


class _WorkerDiedError(Exception):
    def __init__(self, reason: str, video: str | None) -> None:
        super().__init__(reason)
        self.video = video


class _Worker:
    """One worker process and the conversation with it."""

    def __init__(self, config: FeaturesConfig) -> None:
        # A process of its own, not a fork: torch and ffmpeg hold threads that a fork would break.
        # It sees the modules that this process sees, and not those that happen to lie in the current folder (-P).
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fewcap.features.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C reaches the process that owns the workers, and it ends them
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        )
        self._patience = 2 * config.time_limit + 60  # the worker watches the time itself; this is for one that hangs
        self._send(config.model_dump_json())

    def run(self, name: str, jobs: Sequence[Job]) -> bytes:
        self._send(json.dumps({"unit": name, "jobs": [asdict(job) for job in jobs]}))
        video: str | None = None
        while True:
            message = self._read(video)
            if "began" in message:
                video = message["began"]
            elif "bytes" in message:
                assert self.process.stdout is not None
                content = self.process.stdout.read(message["bytes"])
                if len(content) < message["bytes"]:
                    raise _WorkerDiedError(self._how(), video)
                return content

    def _send(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise _WorkerDiedError(self._how(), None) from None

    def _read(self, video: str | None) -> dict[str, Any]:
        assert self.process.stdout is not None
        watch = threading.Timer(self._patience, self.process.kill)
        watch.start()
        try:
            line = self.process.stdout.readline()
        finally:
            watch.cancel()
        if not line.endswith(b"\n"):
            raise _WorkerDiedError(self._how(), video)
        return json.loads(line)

    def _how(self) -> str:
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it no longer answers"
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def run_ray(units: Sequence[Unit], config: FeaturesConfig, workers: int | None) -> Iterator[Done]:
    """Ray actors, on this machine or a cluster whose nodes see the videos under the same paths."""
    try:
        import ray
    except ImportError:
        raise FewcapError(
            "features.engine is 'ray', which is not installed; run 'pip install \"fewcap[ray]\"'."
        ) from None

    started = not ray.is_initialized()
    if started:
        ray.init(address=config.ray_address, log_to_driver=False, include_dashboard=False)
    try:
        count = min(workers or int(ray.cluster_resources().get("CPU", 1)), len(units))
        actor = ray.remote(num_cpus=1, max_restarts=-1)(_RayWorker)
        actors = [actor.remote(config.model_dump_json()) for _ in range(count)]
        waiting = deque((unit, unit.jobs) for unit in units)
        lost: dict[str, list[Seen]] = {unit.name: [] for unit in units}
        deaths: Counter[str] = Counter()
        busy: dict[Any, tuple[Unit, tuple[Job, ...], Any]] = {}
        while waiting or busy:
            while waiting and actors:
                (unit, jobs), worker = waiting.popleft(), actors.pop()
                busy[worker.run.remote([asdict(job) for job in jobs])] = (unit, jobs, worker)
            ready, _ = ray.wait(list(busy), num_returns=1)
            unit, jobs, worker = busy.pop(ready[0])
            actors.append(worker)
            try:
                yield Done(unit, ray.get(ready[0]), tuple(lost[unit.name]))
            except ray.exceptions.RayActorError:
                log.warning("a Ray worker ended; its videos are given to another one")
                deaths[unit.name] += 1
                if deaths[unit.name] >= DEATHS:
                    killers = [job for job in jobs if _ends_worker(ray, worker, job)]
                    lost[unit.name] += [_given_up(job, "in Ray") for job in killers]
                    jobs = tuple(job for job in jobs if job not in killers)
                waiting.append((unit, jobs))
    finally:
        if started:
            ray.shutdown()


def _ends_worker(ray: Any, worker: Any, job: Job) -> bool:
    try:
        ray.get(worker.run.remote([asdict(job)]))
    except ray.exceptions.RayActorError:
        return True
    return False


def _given_up(job: Job, how: str) -> Seen:
    return Seen(job.id, None, {}, f"{job.path}: reading it ended {DEATHS} workers ({how}); replace the file.")


class _RayWorker:
    """What a Ray actor does: the same as a worker process."""

    def __init__(self, config: str) -> None:
        import av
        import torch

        from fewcap.features.worker import limit_memory

        torch.set_num_threads(1)
        av.logging.set_level(None)
        parsed = FeaturesConfig.model_validate_json(config)
        self._computer = Computer(parsed)
        limit_memory(parsed.memory_limit)

    def run(self, jobs: list[dict[str, Any]]) -> bytes:
        return pack(self._computer.run([Job(**job) for job in jobs]))
