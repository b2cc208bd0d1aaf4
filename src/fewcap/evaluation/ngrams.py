"""References of a test set as arrays of n-grams: what BLEU and CIDEr-D count in, built once and used for many runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewcap.core.errors import FewcapError

MAX_N = 4
# A pair of ids is packed into one integer, so either may take 31 bits.
_PAIR = np.int64(1) << np.int64(31)

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class GramCounts:
    """Distinct n-grams of sentences: ``gram[i]`` is ``count[i]`` times in sentence ``owner[i]``; sorted by both."""

    owner: Ints
    gram: Ints
    count: Ints

    @property
    def keys(self) -> Ints:
        return pair(self.owner, self.gram)


def pair(first: Ints, second: Ints) -> Ints:
    return first * _PAIR + second


def _flatten(sentences: Sequence[str], word_ids: dict[str, int], frozen: bool) -> tuple[Ints, Ints]:
    """Word ids of all sentences in a row, and the number of words of each. Unseen words get new ids.

    With ``frozen`` the new ids are forgotten afterwards, so that hypotheses never change the references.
    """
    ids = dict(word_ids) if frozen else word_ids
    flat: list[int] = []
    lengths: list[int] = []
    for sentence in sentences:
        words = sentence.split()
        lengths.append(len(words))
        for word in words:
            flat.append(ids.setdefault(word, len(ids)))
    return np.array(flat, dtype=np.int64), np.array(lengths, dtype=np.int64)


class ReferenceSet:
    """Tokenised references by id, in the order given, with what every n-gram metric needs of them."""

    def __init__(self, references: Mapping[str, Sequence[str]]) -> None:
        self.ids = tuple(references)
        empty = next((identifier for identifier, group in references.items() if not group), None)
        if empty is not None:
            raise FewcapError(f"'{empty}' has no reference caption; leave it out or give it one.")
        sentences = [sentence for group in references.values() for sentence in group]
        sizes = np.array([len(group) for group in references.values()], dtype=np.int64)
        self.sizes = sizes  # references an item
        self.first = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if len(sizes) else sizes
        self.item_of = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)  # item of each reference
        self._word_ids: dict[str, int] = {}
        flat, self.lengths = _flatten(sentences, self._word_ids, frozen=False)
        self._codes: list[Ints] = []  # for n >= 2 the packed (n-1-gram, word) pairs that have an id, sorted
        self.grams: list[GramCounts] = []
        self.largest: list[GramCounts] = []  # per item and n-gram the largest count in one reference
        self.document_frequency: list[Ints] = []  # items with the n-gram in a reference
        for n, (owner, gram) in enumerate(self._grams(flat, self.lengths, learn=True)):
            counts = count_grams(owner, gram)
            self.grams.append(counts)
            self.largest.append(_largest(self.item_of[counts.owner], counts))
            known = len(self._word_ids) if n == 0 else len(self._codes[n - 1])
            self.document_frequency.append(np.bincount(self.largest[n].gram, minlength=known))

    def __len__(self) -> int:
        return len(self.ids)

    def align(self, hypotheses: Mapping[str, str]) -> list[str]:
        """The hypotheses in the order of the references; every id must be on both sides."""
        if len(hypotheses) != len(self.ids) or any(identifier not in hypotheses for identifier in self.ids):
            without = [identifier for identifier in self.ids if identifier not in hypotheses]
            unknown = set(hypotheses) - set(self.ids)
            lacking = f"{len(without)} ids have no caption (first: '{without[0]}')" if without else ""
            extra = f"{len(unknown)} captions have no reference (first: '{min(unknown)}')" if unknown else ""
            raise FewcapError(f"Captions and references do not match: {' and '.join(filter(None, [lacking, extra]))}.")
        return [hypotheses[identifier] for identifier in self.ids]

    def counts_of(self, hypotheses: Sequence[str]) -> tuple[list[GramCounts], Ints]:
        """N-grams of tokenised hypotheses, numbered as in the references, and the hypotheses' lengths."""
        flat, lengths = _flatten(hypotheses, self._word_ids, frozen=True)
        return [count_grams(owner, gram) for owner, gram in self._grams(flat, lengths, learn=False)], lengths

    def _grams(self, flat: Ints, lengths: Ints, learn: bool) -> Iterable[tuple[Ints, Ints]]:
        """For n = 1..4 the sentence and the id of every n-gram occurrence."""
        owner = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        ends = np.repeat(np.cumsum(lengths), lengths)  # one past the last word of the sentence
        start = np.arange(len(flat), dtype=np.int64)
        gram = flat
        yield owner, gram
        for n in range(2, MAX_N + 1):
            inside = start + (n - 1) < ends
            start, owner, ends = start[inside], owner[inside], ends[inside]
            code = pair(gram[inside], flat[start + (n - 1)])
            if learn:
                known, gram = np.unique(code, return_inverse=True)
                self._codes.append(known)
            else:
                gram = _look_up(code, self._codes[n - 2])
            yield owner, gram


def _look_up(code: Ints, known: Ints) -> Ints:
    """Ids of packed codes; codes the references never use get ids after the known ones."""
    if not len(known):
        return np.unique(code, return_inverse=True)[1]
    place = np.minimum(np.searchsorted(known, code), len(known) - 1)
    is_new = known[place] != code
    _, new = np.unique(code[is_new], return_inverse=True)
    place[is_new] = len(known) + new
    return place


def count_grams(owner: Ints, gram: Ints) -> GramCounts:
    keys, counts = np.unique(pair(owner, gram), return_counts=True)
    return GramCounts(owner=keys // _PAIR, gram=keys % _PAIR, count=counts)


def _largest(item: Ints, counts: GramCounts) -> GramCounts:
    """The largest count of each n-gram over an item's references."""
    keys = pair(item, counts.gram)
    order = np.argsort(keys, kind="stable")
    distinct, first = np.unique(keys[order], return_index=True)
    largest = np.maximum.reduceat(counts.count[order], first) if len(first) else counts.count
    return GramCounts(owner=distinct // _PAIR, gram=distinct % _PAIR, count=largest)


def matching(keys: Ints, table: Ints, values: Ints) -> Ints:
    """``values`` of ``table`` (sorted) at ``keys``, 0 where a key is absent."""
    if not len(table):
        return np.zeros(len(keys), dtype=np.int64)
    place = np.minimum(np.searchsorted(table, keys), len(table) - 1)
    return np.where(table[place] == keys, values[place], 0)


def spans(starts: Ints, lengths: Ints) -> Ints:
    """start, start + 1, ... for each span, in a row."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()), dtype=np.int64)


def sum_by(owner: Ints, values: NDArray[np.int64] | NDArray[np.float64], owners: int) -> NDArray[np.float64]:
    """Sums of ``values`` by owner."""
    return np.bincount(owner, weights=values, minlength=owners).astype(np.float64)
