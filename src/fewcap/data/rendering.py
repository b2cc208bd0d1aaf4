"""Renders many clips side by side in processes of their own.

A worker is this module run with ``python -m``: it reads jobs as JSON lines and answers each with its path. Unlike a
forked or spawned pool it works from any script, beside running torch threads, and ends by itself when its parent
was killed, because its answers then go nowhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from fewcap.core.errors import FewcapError
from fewcap.core.store import readable_os_errors
from fewcap.data.scene import Actor, Scene

_WORTH_A_WORKER = 6  # clips that one process renders before another one would have started


def render_all(jobs: Sequence[tuple[Scene, Path]]) -> Iterator[Path]:
    """Renders each scene into its file, and yields the files as they get complete."""
    for folder in {path.parent for _, path in jobs}:
        with readable_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
    workers = min(_cores(), len(jobs) // _WORTH_A_WORKER)
    if workers <= 1:
        for scene, path in jobs:
            try:
                _render(scene, path)
            except OSError as error:
                raise _failed(f"{error}.") from error
            yield path
        return
    with ExitStack() as stack:
        yield from _by_workers([jobs[number::workers] for number in range(workers)], stack)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _by_workers(shares: Sequence[Sequence[tuple[Scene, Path]]], stack: ExitStack) -> Iterator[Path]:
    answers: SimpleQueue[Path | None] = SimpleQueue()
    crew: list[tuple[subprocess.Popen[str], IO[str]]] = []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    for share in shares:
        complaints = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))  # noqa: SIM115
        worker = subprocess.Popen(
            [sys.executable, "-m", "fewcap.data.rendering"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            encoding="utf-8",
            env=environment,
        )
        stack.callback(_end, worker)
        crew.append((worker, complaints))
        Thread(target=_converse, args=(worker, share, answers), daemon=True).start()
    busy = len(crew)
    while busy:
        if (path := answers.get()) is None:
            busy -= 1
        else:
            yield path
    for worker, heard in crew:
        if worker.wait() != 0:
            heard.seek(0)
            lines = heard.read().strip().splitlines()
            reason = lines[-1] if lines else "it was ended from outside (out of memory?)"
            raise _failed(reason)


def _failed(reason: str) -> FewcapError:
    return FewcapError(f"Rendering clips failed: {reason} Run the command again: it goes on where it was.")


def _converse(
    worker: subprocess.Popen[str], share: Sequence[tuple[Scene, Path]], answers: SimpleQueue[Path | None]
) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        for scene, path in share:
            worker.stdin.write(json.dumps({"scene": asdict(scene), "path": str(path.absolute())}) + "\n")
            worker.stdin.flush()
            if not worker.stdout.readline():
                break
            answers.put(path)
        worker.stdin.close()
    except OSError:
        pass  # the worker is gone; its exit code says why
    finally:
        answers.put(None)


def _end(worker: subprocess.Popen[str]) -> None:
    worker.terminate()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue


def _render(scene: Scene, path: Path) -> None:
    from fewcap.data.render import write_clip

    # The process id keeps a worker whose parent was killed out of the way of the run that goes on.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with readable_os_errors(path):
            write_clip(scene, temporary)
            temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _scene(fields: dict[str, Any]) -> Scene:
    actors = {
        name: Actor(**fields[name]) if fields[name] is not None else None for name in ("actor", "other", "bystander")
    }
    pairs = {name: tuple(fields[name]) for name in ("pan", "size", "rate")}
    return Scene(**{**fields, **actors, **pairs})


def main() -> int:
    """Reads jobs from standard input until it ends."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            _render(_scene(job["scene"]), Path(job["path"]))
            print(job["path"], flush=True)
        except FewcapError as error:
            print(error, file=sys.stderr)
            return 1
        except BrokenPipeError:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
