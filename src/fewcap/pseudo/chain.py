"""One chain of edits: a sentence that grows around its keywords, and the trace of what was done to it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fewcap.pseudo.codec import Codec
from fewcap.pseudo.language import ACTIONS, DELETE, INSERT


@dataclass
class Chain:
    """Tokens with the text they stand for; a keyword the vocabulary lacks keeps its text and stays as it is."""

    ids: list[int]
    texts: list[str]
    locked: np.ndarray  # [L]
    starts: np.ndarray  # [L] first token of a word
    generator: np.random.Generator
    heat: float = 1.0
    edits: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False
    doubt: tuple[float, str] = (0.0, "")  # the word that the classifier would change soonest once finished

    @classmethod
    def of_keywords(cls, keywords: Sequence[str], codec: Codec, key: str, heat: float = 1.0) -> Chain:
        """Start token, keywords, end token; `key` seeds everything random about this chain and about no other.

        A chain with more `heat` draws more freely.
        """
        ids, texts, starts = [codec.bos], [""], [True]
        for word in keywords:
            pieces = codec.pieces(word)
            ids += pieces
            texts += [word] + [""] * (len(pieces) - 1)
            starts += [True] + [False] * (len(pieces) - 1)
        seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8])
        return cls(
            [*ids, codec.eos],
            [*texts, ""],
            np.ones(len(ids) + 1, dtype=bool),
            np.array([*starts, True]),
            np.random.Generator(np.random.PCG64(seed)),
            heat,
        )

    @property
    def words(self) -> list[str]:
        return [text for text in self.texts if text]

    def contexts(self, action: int, position: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What the forward and the backward model see: all before the new token, and all behind it from the end."""
        right = position if action == INSERT else position + 1
        return tuple(self.ids[:position]), tuple(reversed(self.ids[right:]))

    def delete(self, position: int, probability: float) -> None:
        self._note(DELETE, position, self.texts[position], probability)
        del self.ids[position], self.texts[position]
        self.locked = np.delete(self.locked, position)
        self.starts = np.delete(self.starts, position)

    def write(self, action: int, position: int, token: int, word: str, probability: float, share: float) -> None:
        """Inserts a word before a position, or replaces the one that is there."""
        self._note(action, position, word, probability, share)
        if action == INSERT:
            self.ids.insert(position, token)
            self.texts.insert(position, word)
            self.locked = np.insert(self.locked, position, False)
            self.starts = np.insert(self.starts, position, True)
        else:
            self.edits[-1]["instead_of"] = self.texts[position]
            self.ids[position], self.texts[position] = token, word

    def _note(self, action: int, position: int, word: str, probability: float, share: float | None = None) -> None:
        edit: dict[str, Any] = {"action": ACTIONS[action], "position": position, "word": word}
        edit["probability"] = _significant(probability)
        if share is not None:
            edit["word_probability"] = _significant(share)
        self.edits.append(edit)


def _significant(number: float) -> float:
    return float(f"{number:.3g}")
