"""How a caption reads as a line of text, a JSON object, a row of a table or a subtitle."""

from __future__ import annotations

import csv
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewcap.captioning.captioner import Caption
from fewcap.captioning.files import FileCaption
from fewcap.core.errors import FewcapError, UsageError


@dataclass(frozen=True)
class Style:
    """What is told of a caption besides its text."""

    n_best: int = 1
    explain: bool = False


@dataclass(frozen=True)
class Held:
    """What a row of an earlier run says: this piece of ``count`` is done."""

    video: str
    number: int  # 1 is the first
    count: int
    failed: bool


class Rows(ABC):
    """A format of one row, or a few lines, an answer."""

    def __init__(self, style: Style) -> None:
        self.style = style

    def head(self) -> str:
        return ""

    def name(self, video: Path) -> str:
        return str(video)

    @abstractmethod
    def record(self, answer: FileCaption) -> str:
        """The answer with its line ends; nothing when the format has no place for it."""

    @abstractmethod
    def read(self, content: str, path: Path) -> Iterator[Held]:
        """What a file of this format holds; another file is refused, so that nothing is appended to it."""


class TextRows(Rows):
    """``video <tab> caption``; a piece has its time between the two, and what is explained follows indented."""

    _PIECE = re.compile(r"[\d:.]+-[\d:.]+ \((\d+)/(\d+)\)")

    def name(self, video: Path) -> str:
        return re.sub(r"[\t\r\n]", " ", str(video))

    def record(self, answer: FileCaption) -> str:
        caption, piece = answer.caption, answer.piece
        if caption is None:
            return ""
        fields = [self.name(answer.video)]
        if piece.span is not None:
            start, end = (time_code(at)[:-2] for at in piece.span)  # tenths of a second
            fields.append(f"{start}-{end} ({piece.number + 1}/{piece.count})")
        fields.append(caption.text)
        if caption.doubt is not None:
            fields.append(f"(low confidence: {caption.doubt})")
        lines = ["\t".join(fields)]
        lines += [f"\t{other.score:.2f}\t{other.text}" for other in caption.alternatives[: _wanted(self.style)]]
        if self.style.explain:
            lines += [f"\tkeywords: {keywords(caption)}", f"\tseen (the rest from keywords): {shares(caption)}"]
        return "\n".join(lines) + "\n"

    def read(self, content: str, path: Path) -> Iterator[Held]:
        for number, line in enumerate(content.splitlines(), 1):
            if line.startswith("\t"):
                continue
            fields = line.split("\t")
            if len(fields) < 2:
                raise _foreign(path, number, "text")
            piece = self._PIECE.fullmatch(fields[1])
            yield Held(fields[0], int(piece[1]) if piece else 1, int(piece[2]) if piece else 1, False)


class JsonRows(Rows):
    """An object a line."""

    def record(self, answer: FileCaption) -> str:
        return json.dumps(facts(answer, self.style), ensure_ascii=False) + "\n"

    def read(self, content: str, path: Path) -> Iterator[Held]:
        for number, line in enumerate(content.splitlines(), 1):
            try:
                row = json.loads(line)
                yield Held(row["video"], row.get("piece", 1), row.get("pieces", 1), "error" in row)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise _foreign(path, number, "jsonl") from None


class CsvRows(Rows):
    """A table with a head."""

    @property
    def columns(self) -> list[str]:
        fixed = ["video", "piece", "pieces", "start", "end", "caption", "score", "low_confidence", "reason", "error"]
        further = [f"{what}_{n}" for n in range(2, self.style.n_best + 1) for what in ("caption", "score")]
        return fixed + further + (["keywords", "words"] if self.style.explain else [])

    def head(self) -> str:
        return ",".join(self.columns) + "\n"

    def record(self, answer: FileCaption) -> str:
        row: dict[str, Any] = facts(answer, Style())
        if answer.caption is not None:
            row["low_confidence"] = str(row["low_confidence"]).lower()
            for n, other in enumerate(answer.caption.alternatives[1 : self.style.n_best], 2):
                row |= {f"caption_{n}": other.text, f"score_{n}": other.score}
            row |= {"keywords": keywords(answer.caption), "words": shares(answer.caption)}
        text = io.StringIO()
        csv.DictWriter(text, self.columns, extrasaction="ignore", lineterminator="\n").writerow(row)
        return text.getvalue()

    def read(self, content: str, path: Path) -> Iterator[Held]:
        reader = csv.DictReader(io.StringIO(content, newline=""))
        if content and reader.fieldnames != self.columns:
            raise UsageError(
                f"{path}: has other columns than these options give ({','.join(self.columns)}); name another file."
            )
        for row in reader:
            try:
                number, count = int(row["piece"] or 1), int(row["pieces"] or 1)
            except (ValueError, TypeError):
                raise _foreign(path, reader.line_num, "csv") from None
            yield Held(row["video"], number, count, bool(row["error"]))


class Subtitles:
    """SRT, or WebVTT, whose notes hold explanations. A cue's number is that of its piece."""

    def __init__(self, style: Style, *, web: bool) -> None:
        self.style, self.web = style, web

    def head(self) -> str:
        return "WEBVTT\n\n" if self.web else ""

    def record(self, answer: FileCaption) -> str:
        caption, piece = answer.caption, answer.piece
        if caption is None or piece.span is None:
            return ""
        start, end = (time_code(at, "." if self.web else ",") for at in piece.span)
        text = caption.text + (" (low confidence)" if caption.doubt is not None else "")
        cue = f"{piece.number + 1}\n{start} --> {end}\n{text}\n\n"
        notes = []
        if self.web:
            others = caption.alternatives[: _wanted(self.style)]
            notes = [f"{other.score:.2f} {other.text}" for other in others]
            if self.style.explain:
                notes += [f"keywords: {keywords(caption)}", f"seen (the rest from keywords): {shares(caption)}"]
        return ("NOTE\n" + "\n".join(notes) + "\n\n" if notes else "") + cue

    def without_last(self, content: str) -> tuple[str, int]:
        """The file without its last, perhaps incomplete cue, and the number of pieces that it still holds."""
        cues = [*re.finditer(r"^(\d+)\n[\d:.,]+ --> ", content, re.M)]
        if not cues:
            return self.head(), 0
        blocks = content[: cues[-1].start()]
        if len(cues) == 1:
            return self.head(), 0
        return blocks[: blocks.index("\n\n", cues[-2].start()) + 2], int(cues[-2][1])


def facts(answer: FileCaption, style: Style) -> dict[str, Any]:
    """An answer as JSON."""
    row: dict[str, Any] = {"video": str(answer.video)}
    piece, caption = answer.piece, answer.caption
    if piece.span is not None:
        start, end = piece.span
        row |= {"piece": piece.number + 1, "pieces": piece.count, "start": start, "end": end}
    if caption is None:
        return row | {"error": answer.error}
    row |= {"caption": caption.text, "score": caption.score, "low_confidence": caption.doubt is not None}
    if caption.doubt is not None:
        row["reason"] = caption.doubt
    if style.n_best > 1:
        row["alternatives"] = [{"caption": o.text, "score": o.score} for o in caption.alternatives[: style.n_best]]
    if style.explain:
        row["keywords"] = [{"word": k.word, "weight": k.weight} for k in caption.keywords]
        row["words"] = [{"word": w.word, "video_share": w.video_share} for w in caption.words]
    return row


def keywords(caption: Caption) -> str:
    return ", ".join(f"{keyword.word} {keyword.weight:.2f}" for keyword in caption.keywords) or "-"


def shares(caption: Caption) -> str:
    return " ".join(f"{word.word} {word.video_share:.0%}" for word in caption.words) or "-"


def time_code(seconds: float, comma: str = ".") -> str:
    """``75.25`` → ``00:01:15.250``."""
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{rest:02d}{comma}{thousandths % 1000:03d}"


def _wanted(style: Style) -> int:
    return style.n_best if style.n_best > 1 else 0


def _foreign(path: Path, line: int, format: str) -> FewcapError:
    return UsageError(f"{path}: line {line} is not a caption in the format {format}; name another file with --out.")
