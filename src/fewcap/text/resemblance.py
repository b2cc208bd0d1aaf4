"""Which sentences of a corpus are most like some given ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

STRANGE = 3  # a word that neither a given sentence nor so many of the corpus have keeps its sentence out
END = "</s>"  # and beginning


class WordPairs:
    """Probabilities of a sentence's words, each after the one before it; pairs never seen fall back on single words."""

    TRUST = 5.0  # a word seen so often is half trusted to know what follows it
    UNSEEN = 0.5  # times that every word counts as seen

    def __init__(self, sentences: Iterable[str], vocabulary: int) -> None:
        self._before: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._words: Counter[str] = Counter()
        for sentence in sentences:
            words = [END, *sentence.split(), END]
            self._before.update(words[:-1])
            self._pairs.update(pairwise(words))
            self._words.update(words[1:])
        self._total = sum(self._words.values()) + self.UNSEEN * vocabulary

    def probability(self, before: str, word: str) -> float:
        """Of a word after another one."""
        seen = self._before[before]
        trust = seen / (seen + self.TRUST)
        after = self._pairs[before, word] / seen if seen else 0.0
        return trust * after + (1 - trust) * (self._words[word] + self.UNSEEN) / self._total

    def log_probability(self, sentence: str) -> float:
        """Mean over the words and the end."""
        pairs = list(pairwise([END, *sentence.split(), END]))
        return sum(math.log(self.probability(*pair)) for pair in pairs) / len(pairs)


def most_like(corpus: Sequence[str], given: Sequence[str], count: int) -> list[str]:
    """The ``count`` sentences of a corpus most like the given ones, in the corpus's order.

    A sentence is like them when their word pairs make it likely, less half of how likely the corpus's own make it:
    all of it would prefer rare words to common subjects, none of it the shortest commonplaces. Sentences are words
    separated by spaces.
    """
    if len(corpus) <= count or not given:
        return list(corpus)[:count]
    words = Counter(word for sentence in corpus for word in sentence.split())
    known = {word for word, times in words.items() if times >= STRANGE}
    known |= {word for sentence in given for word in sentence.split()}
    own, general = WordPairs(given, len(words)), WordPairs(corpus, len(words))
    scores = [
        own.log_probability(sentence) - 0.5 * general.log_probability(sentence)
        if known.issuperset(sentence.split())
        else -math.inf
        for sentence in corpus
    ]
    best = sorted(range(len(corpus)), key=lambda i: (-scores[i], i))[:count]
    return [corpus[i] for i in sorted(best)]
