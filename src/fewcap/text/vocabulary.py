"""The words that a captioner knows, and their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


class Vocabulary:
    """Words with fixed numbers; the first four are padding, sentence start, sentence end and unknown."""

    def __init__(self, words: Sequence[str]) -> None:
        """``words`` without the four special ones, in the order of their numbers."""
        self.words = (*SPECIALS, *words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) != len(self.words):
            repeated = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ValueError(f"the word {repeated!r} is in the vocabulary twice")

    @classmethod
    def count(
        cls, sentences: Iterable[Sequence[str]], *, min_count: int = 2, known: Mapping[str, int] | None = None
    ) -> Vocabulary:
        """Words that occur at least ``min_count`` times, the most frequent first.

        ``known`` holds counts from elsewhere, a text corpus for example: they are added to the counts of words that
        the sentences use, so that a word seen once here is kept when it is common there.
        """
        counts = Counter(word for sentence in sentences for word in sentence)
        elsewhere = known or {}
        kept = [word for word, n in counts.items() if n + elsewhere.get(word, 0) >= min_count]
        return cls(sorted(kept, key=lambda word: (-counts[word], word)))

    def extended(self, words: Iterable[str]) -> Vocabulary:
        """This vocabulary with further words after its own."""
        return Vocabulary([*self.words[len(SPECIALS) :], *(w for w in dict.fromkeys(words) if w not in self)])

    def encode(self, words: Iterable[str]) -> list[int]:
        """Numbers of the words; an unknown word becomes UNK."""
        return [self._numbers.get(word, UNK) for word in words]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """Words up to the end of the sentence, without padding and sentence start."""
        words = []
        for number in numbers:
            if number == EOS:
                break
            if number not in (PAD, BOS):
                words.append(self.words[number])
        return words

    def __contains__(self, word: object) -> bool:
        return word in self._numbers

    def __getitem__(self, word: str) -> int:
        return self._numbers[word]

    def __len__(self) -> int:
        return len(self.words)
