"""The artefact store: a stage owns a folder, and a folder with a manifest is whole.

A stage writes each file under a temporary name and renames it, and writes ``manifest.json`` last. Its key is a
hash of kind, inputs and configuration: a folder whose manifest has the key is skipped, a partial folder with the
key is resumed, anything else is cleared first. An advisory lock keeps a second run out and dies with its process.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
import platform
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewcap import __version__
from fewcap.core.config.base import Section
from fewcap.core.errors import FewcapError

if TYPE_CHECKING:
    import torch

log = logging.getLogger("fewcap.store")

MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"  # times and resumptions: about the run, not part of the artefact
_PARTIAL = "partial.json"
_LOCK = ".lock"
_SCRATCH = "scratch"
_NOT_ARTEFACT = {MANIFEST, JOURNAL, _PARTIAL, _LOCK}
_VERSIONED = ("torch", "transformers", "numpy", "av", "nltk")


@dataclass(frozen=True)
class Manifest:
    """What a finished stage says of itself."""

    kind: str
    key: str
    inputs: dict[str, str]
    config: dict[str, Any]
    versions: dict[str, str]
    counts: dict[str, Any]
    files: dict[str, str]  # name -> sha256
    digest: str  # sha256 of the manifest file: the input hash of the next stage

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a complete artefact folder."""
        path = folder / MANIFEST
        if not path.exists():
            state = "unfinished: run its stage again, it goes on where it was" if folder.exists() else "not there"
            raise FewcapError(f"{folder}: this artefact is {state} (no {MANIFEST}).")
        content = read_json(path)
        try:
            return cls(**content, digest=sha256_file(path))
        except TypeError:
            raise FewcapError(f"{path}: not a manifest of fewcap; run the stage again in a new folder.") from None

    def damaged(self, folder: Path) -> list[str]:
        """Files of the folder that are missing or not what they were when the stage ended."""
        return [
            name
            for name, digest in self.files.items()
            if not (folder / name).exists() or sha256_file(folder / name) != digest
        ]


class Stage:
    """A folder that one stage owns, and the key of what should be in it."""

    def __init__(
        self,
        folder: Path,
        kind: str,
        *,
        inputs: Mapping[str, str],
        config: Section | Mapping[str, Any],
        revision: int = 1,
    ) -> None:
        self.folder = folder
        self.kind = kind
        self.inputs = dict(sorted(inputs.items()))
        self.config: dict[str, Any] = (
            config.model_dump(mode="json") if isinstance(config, Section) else json.loads(json.dumps(dict(config)))
        )
        self.key = fingerprint(
            {"kind": kind, "inputs": self.inputs, "config": self.config, "revision": revision, "fewcap": __version__}
        )

    def current(self) -> Manifest | None:
        """The manifest when the folder is complete and holds just what is asked for."""
        if not (self.folder / MANIFEST).exists():
            return None
        manifest = Manifest.read(self.folder)
        return manifest if manifest.kind == self.kind and manifest.key == self.key else None


class Workspace:
    """The open folder of a running stage. Names may contain folders; ``scratch/`` is deleted at the end."""

    def __init__(self, folder: Path, *, resumed: bool) -> None:
        self.folder = folder
        self.resumed = resumed

    def path(self, name: str) -> Path:
        """Where ``name`` is or will be."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise ValueError(f"{name!r} leaves the folder of the stage")
        return path

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """A temporary path to write to, renamed to ``name`` when the block ends well."""
        final = self.path(name)
        temporary = final.with_name(f".{final.name}.tmp")
        try:
            with readable_os_errors(final):
                final.parent.mkdir(parents=True, exist_ok=True)
                yield temporary
                with open(temporary, "rb") as handle:
                    os.fsync(handle.fileno())
                temporary.replace(final)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def write_bytes(self, name: str, content: bytes) -> None:
        with self.file(name) as path:
            path.write_bytes(content)

    def write_text(self, name: str, content: str) -> None:
        self.write_bytes(name, content.encode("utf-8"))

    def write_json(self, name: str, content: Any) -> None:
        self.write_text(name, json.dumps(content, ensure_ascii=False, indent=1) + "\n")

    def write_jsonl(self, name: str, rows: Iterable[Any]) -> None:
        self.write_text(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    def write_tensors(
        self, name: str, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None
    ) -> None:
        from safetensors.torch import save

        self.write_bytes(name, save(dict(tensors), dict(metadata) if metadata else None))

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def read_json(self, name: str) -> Any:
        return read_json(self.path(name))

    def read_jsonl(self, name: str) -> list[Any]:
        return read_jsonl(self.path(name))

    def remove(self, name: str) -> None:
        path = self.path(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def run_stage(stage: Stage, build: Callable[[Workspace], Mapping[str, Any]]) -> Manifest:
    """Runs ``build`` in the stage's folder unless the folder already holds the result; returns its manifest.

    What ``build`` returns are the counts that the manifest reports.
    """
    if (manifest := stage.current()) is not None:
        log.info("%s: unchanged, skipped (%s)", stage.kind, stage.folder)
        with suppress(OSError):  # left over when the earlier run was killed right after its manifest
            (stage.folder / _PARTIAL).unlink()
        return manifest
    with readable_os_errors(stage.folder):
        stage.folder.mkdir(parents=True, exist_ok=True)
    with _locked(stage.folder, stage.kind):
        if (manifest := stage.current()) is not None:  # another run finished it before we got the lock
            log.info("%s: unchanged, skipped (%s)", stage.kind, stage.folder)
            return manifest
        workspace = _open(stage)
        _journal(stage.folder, "resumed" if workspace.resumed else "started")
        started = time.monotonic()
        counts = dict(build(workspace))
        _finish(stage, counts)
        _journal(stage.folder, "finished", seconds=round(time.monotonic() - started, 2))
    log.info("%s: done in %.1f s (%s)", stage.kind, time.monotonic() - started, stage.folder)
    return Manifest.read(stage.folder)


def _open(stage: Stage) -> Workspace:
    partial = stage.folder / _PARTIAL
    with readable_os_errors(stage.folder):
        resumed = partial.exists() and read_json(partial).get("key") == stage.key
        if not resumed:
            _clear(stage)
            workspace = Workspace(stage.folder, resumed=False)
            workspace.write_json(_PARTIAL, {"kind": stage.kind, "key": stage.key})
            return workspace
        (stage.folder / MANIFEST).unlink(missing_ok=True)
        for leftover in stage.folder.rglob(".*.tmp"):
            leftover.unlink()
    log.info("%s: going on where an earlier run stopped (%s)", stage.kind, stage.folder)
    return Workspace(stage.folder, resumed=True)


def _clear(stage: Stage) -> None:
    """Empties the folder of an older result, and refuses to touch a folder that is not an artefact."""
    known = {MANIFEST, _PARTIAL}
    entries = [entry for entry in stage.folder.iterdir() if entry.name not in {_LOCK, JOURNAL}]
    leftovers_only = all(entry.name.startswith(".") and entry.name.endswith(".tmp") for entry in entries)
    if entries and not leftovers_only and not any(entry.name in known for entry in entries):
        raise FewcapError(
            f"{stage.folder}: holds files but no artefact of fewcap (for example {entries[0].name}); "
            "name an empty or new folder."
        )
    # Marked as partial, then without a manifest: killed from here on, what is left is neither whole nor foreign.
    if not (stage.folder / _PARTIAL).exists():
        Workspace(stage.folder, resumed=False).write_json(_PARTIAL, {"kind": stage.kind, "key": ""})
    (stage.folder / MANIFEST).unlink(missing_ok=True)
    for entry in entries:
        if entry.name != _PARTIAL and entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _PARTIAL:
            entry.unlink(missing_ok=True)
    (stage.folder / JOURNAL).unlink(missing_ok=True)


def _finish(stage: Stage, counts: Mapping[str, Any]) -> None:
    shutil.rmtree(stage.folder / _SCRATCH, ignore_errors=True)
    names = sorted(path.relative_to(stage.folder).as_posix() for path in stage.folder.rglob("*") if path.is_file())
    manifest = {
        "kind": stage.kind,
        "key": stage.key,
        "inputs": stage.inputs,
        "config": stage.config,
        "versions": _versions(),
        "counts": dict(counts),
        "files": {name: sha256_file(stage.folder / name) for name in names if name not in _NOT_ARTEFACT},
    }
    Workspace(stage.folder, resumed=False).write_json(MANIFEST, manifest)
    (stage.folder / _PARTIAL).unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path, kind: str) -> Iterator[None]:
    path = folder / _LOCK
    with readable_os_errors(path):
        handle = open(path, "a+", encoding="utf-8")  # noqa: SIM115 - closed below, after the block
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "another process"
            raise FewcapError(
                f"{folder}: {kind} is already being written here by {holder}; wait for it or stop it."
            ) from None
        handle.seek(0)
        handle.truncate()
        handle.write(f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        handle.flush()
        yield
    finally:
        handle.close()


def _journal(folder: Path, event: str, **facts: Any) -> None:
    row = {"event": event, "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **facts}
    with readable_os_errors(folder), open(folder / JOURNAL, "a", encoding="utf-8") as handle:
        handle.write(json.dumps(row) + "\n")


def stage_seconds(folder: Path) -> float | None:
    """What the newest finished run of the stage took, by its journal."""
    path = folder / JOURNAL
    rows = read_jsonl(path) if path.exists() else []
    return next((row["seconds"] for row in reversed(rows) if row["event"] == "finished"), None)


def is_unfinished(folder: Path) -> bool:
    """Whether a stage began here and has not written its manifest."""
    return (folder / _PARTIAL).exists() and not (folder / MANIFEST).exists()


def _versions() -> dict[str, str]:
    found = {"fewcap": __version__, "python": platform.python_version()}
    for package in _VERSIONED:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def readable_os_errors(path: Path) -> Iterator[None]:
    """Turns a full disk or a forbidden folder into a sentence."""
    try:
        yield
    except OSError as error:
        reasons = {
            errno.ENOSPC: "the disk is full; free some space and run the command again, it goes on where it was",
            errno.EDQUOT: "the disk quota is used up; free some space and run the command again",
            errno.EROFS: "the file system is read-only; choose another folder",
            errno.EACCES: "no permission to write here; change the folder's permissions or choose another folder",
            errno.EPERM: "no permission to write here; change the folder's permissions or choose another folder",
            errno.ENOTDIR: "a file stands where a folder is needed; choose another folder",
            errno.EEXIST: "a file stands where a folder is needed; choose another folder",
        }
        if error.errno in reasons:
            raise FewcapError(f"{path}: {reasons[error.errno]}.") from error
        raise


def sha256_file(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def fingerprint(content: Any) -> str:
    """A hash of any JSON-able value that does not depend on the order of keys."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FewcapError(f"{path}: there is no such file.") from None
    except UnicodeDecodeError as error:
        raise FewcapError(f"{path}: not UTF-8 text (byte {error.start}).") from None
    except json.JSONDecodeError as error:
        raise FewcapError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}.") from None


def read_jsonl(path: Path) -> list[Any]:
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise FewcapError(f"{path}: there is no such file.") from None
    except UnicodeDecodeError as error:
        raise FewcapError(f"{path}: not UTF-8 text (byte {error.start}).") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise FewcapError(f"{path}, line {number}: not valid JSON: {error.msg}.") from None
    return rows
