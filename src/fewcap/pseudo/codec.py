"""Between words and the ids of a language model.

A chain of edits works on tokens. With the shipped models a token is a word; with a published XLNet it is a sentence
piece, and a word may take several. Either way only pieces that are whole words are ever proposed, so a piece that
continues a word appears only inside a keyword, where nothing may be inserted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
MARKER = "▁"  # how sentencepiece writes the start of a word


@dataclass(frozen=True)
class Codec:
    """Vocabulary and special ids of a set of models; `pieces` cuts a word into ids."""

    tokens: tuple[str, ...]
    pad: int
    unk: int
    bos: int
    eos: int
    mask: int
    tokenizer: Any = None
    _ids: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._ids.update({token: i for i, token in enumerate(self.tokens)})

    @classmethod
    def of_words(cls, words: Iterable[str]) -> Codec:
        return cls((*SPECIAL, *words), *range(len(SPECIAL)))

    @classmethod
    def of_tokenizer(cls, tokenizer: Any) -> Codec:
        """A transformers tokenizer with sentence pieces, such as XLNet's."""
        tokens = tuple(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))
        return cls(
            tokens,
            tokenizer.pad_token_id,
            tokenizer.unk_token_id,
            tokenizer.bos_token_id,
            tokenizer.eos_token_id,
            tokenizer.mask_token_id,
            tokenizer,
        )

    @classmethod
    def load(cls, folder: Path) -> Codec:
        """From a folder of models: a word list of this project, otherwise whatever transformers finds there."""
        words = folder / "words.json"
        if words.exists():
            return cls.of_words(json.loads(words.read_text(encoding="utf-8")))
        from transformers import AutoTokenizer

        return cls.of_tokenizer(AutoTokenizer.from_pretrained(str(folder)))

    def save(self, folder: Path) -> None:
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(str(folder))
            return
        text = json.dumps(self.tokens[len(SPECIAL) :], ensure_ascii=False, separators=(",", ":"))
        (folder / "words.json").write_text(text, encoding="utf-8")

    def __len__(self) -> int:
        return len(self.tokens)

    def pieces(self, word: str) -> list[int]:
        """Ids of one word, at least one: what the vocabulary lacks is the unknown token."""
        if self.tokenizer is None:
            return [self._ids.get(word, self.unk)]
        return self.tokenizer.convert_tokens_to_ids(self.tokenizer.tokenize(word)) or [self.unk]

    def encode(self, words: Sequence[str]) -> list[int]:
        """Ids of a whole sentence between its start and end tokens."""
        return [self.bos, *(i for word in words for i in self.pieces(word)), self.eos]

    def word(self, token: int) -> str:
        return self.tokens[token].removeprefix(MARKER)

    def proposable(self) -> list[int]:
        """Ids an edit may bring in: whole words in small letters, no special tokens."""
        start = MARKER if self.tokenizer is not None else ""
        specials = {self.pad, self.unk, self.bos, self.eos, self.mask}
        return [
            i
            for i, token in enumerate(self.tokens)
            if i not in specials and token.startswith(start) and _is_plain(token.removeprefix(start))
        ]


def _is_plain(word: str) -> bool:
    return word.isalpha() and word == word.lower()


def count_words(sentences: Iterable[Sequence[str]], at_least: int, at_most: int) -> list[str]:
    """The vocabulary of a corpus: frequent words first, ties by alphabet."""
    counts = Counter(word for sentence in sentences for word in sentence)
    frequent = [word for word, n in counts.items() if n >= at_least]
    return sorted(frequent, key=lambda word: (-counts[word], word))[:at_most]
