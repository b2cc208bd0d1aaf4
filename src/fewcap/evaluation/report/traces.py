"""Invented captions, and the edits that made them, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SIGNS = {"insert": "+", "delete": "−", "replace": "→"}
_WAYS = {
    "edit": "A caption grows around the keywords of a given one (underlined, never changed), one edit at a time.",
    "retell": "They are what other people would say of the same clip; keywords of the given caption are underlined.",
}


def how_invented(strategy: str) -> str:
    """A sentence about the strategy."""
    return _WAYS.get(strategy, f"By {strategy}; keywords of the given caption that are still there are underlined.")


def label_part(rows: Sequence[Mapping[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Cards of invented captions: what was given, what came of it, how, and what was turned down."""
    cards: list[dict[str, Any]] = []
    for row in rows:
        for sentence in row.get("sentences", [])[:1]:
            if len(cards) == limit:
                return cards
            keywords, edits = list(sentence.get("keywords", [])), sentence.get("edits", [])
            told = bool(edits) and edits[0]["action"] == "retell"
            scores = (("fluency", sentence.get("lm_score")), ("fit to the video", sentence.get("video_score")))
            cards.append(
                {
                    "id": row["id"],
                    "given": sentence.get("source") or "",
                    "words": [{"text": word, "keyword": word in keywords} for word in sentence["text"].split()],
                    "scores": [{"name": name, "value": f"{value:.2f}"} for name, value in scores if value is not None],
                    "steps": [] if told else steps(keywords, edits, sentence["text"]),
                    "others": [other["text"] for other in row["sentences"][1:]],
                    "rejected": row.get("rejected", [])[:8],
                    "rejected_count": len(row.get("rejected", [])),
                }
            )
    return cards


def steps(keywords: Sequence[str], edits: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    """Each edit with the sentence after it; without sentences when the edits do not lead from keywords to text."""
    sentences = _replay(keywords, edits, text)
    return [
        {
            "action": edit["action"],
            "sign": SIGNS.get(edit["action"], "·"),
            "what": _what(edit),
            "probability": f"p = {edit['probability']:.2f}" if edit.get("probability") is not None else "",
            "words": sentences[number] if sentences else [],
        }
        for number, edit in enumerate(edits)
    ]


def _what(edit: Mapping[str, Any]) -> str:
    if edit["action"] == "replace" and edit.get("instead_of"):
        return f"{edit['instead_of']} → {edit['word']}"
    return str(edit.get("word", ""))


def _replay(
    keywords: Sequence[str], edits: Sequence[Mapping[str, Any]], text: str
) -> list[list[dict[str, Any]]] | None:
    """The sentence after each edit. A chain starts as its keywords between two end tokens, which count as positions."""
    tokens = ["", *keywords, ""]
    shown = []
    for edit in edits:
        position, word = edit.get("position"), edit.get("word", "")
        if not isinstance(position, int) or not 0 <= position < len(tokens):
            return None
        marked: list[dict[str, Any]]
        if edit["action"] == "insert":
            tokens.insert(position, word)
        elif edit["action"] == "replace":
            tokens[position] = word
        elif edit["action"] != "delete":
            return None
        marked = [{"text": token, "mark": place == position} for place, token in enumerate(tokens) if token]
        if edit["action"] == "delete":
            del tokens[position]
        shown.append(marked)
    return shown if " ".join(token for token in tokens if token) == text else None
