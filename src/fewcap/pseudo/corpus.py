"""The text that teaches the language models: captions, one a line, plain or gzipped."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewcap.core.errors import FewcapError
from fewcap.text.corpus import read_lines
from fewcap.text.tokenise import words

HELD_OUT_MODULUS = 50  # a sentence whose hash is 0 modulo this measures, and never trains


@dataclass(frozen=True)
class Corpus:
    """Sentences as words, the held-out ones apart."""

    train: tuple[tuple[str, ...], ...]
    held_out: tuple[tuple[str, ...], ...]


def read_corpus(paths: Sequence[Path], *, shortest: int = 3, longest: int = 20) -> Corpus:
    """Unique sentences of the files in order of their hash, so that no file comes first."""
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        for line in read_lines(path):
            sentence = tuple(words(line))
            if shortest <= len(sentence) <= longest:
                found.setdefault(hashlib.sha256(" ".join(sentence).encode()).hexdigest(), sentence)
    ordered = sorted(found.items())
    train = tuple(s for digest, s in ordered if int(digest, 16) % HELD_OUT_MODULUS)
    held_out = tuple(s for digest, s in ordered if int(digest, 16) % HELD_OUT_MODULUS == 0)
    if not train or not held_out:
        names = ", ".join(map(str, paths)) or "no file"
        raise FewcapError(
            f"{names}: {len(found)} sentences of {shortest} to {longest} words are too few to train language models; "
            "give a corpus of captions, one a line, or use the shipped models (label.models: fewcap)."
        )
    return Corpus(train, held_out)


def batches_of_equal_length(sentences: Sequence[Sequence[int]], tokens_per_batch: int, seed: int) -> list[list[int]]:
    """Indices in batches whose sentences are all of one length: nothing is padded. Shuffled by the seed."""
    generator = random.Random(seed)
    by_length: dict[int, list[int]] = {}
    for index in generator.sample(range(len(sentences)), len(sentences)):
        by_length.setdefault(len(sentences[index]), []).append(index)
    batches = [
        group[start : start + size]
        for length, group in sorted(by_length.items())
        for size in [max(1, tokens_per_batch // length)]
        for start in range(0, len(group), size)
    ]
    generator.shuffle(batches)
    return batches
