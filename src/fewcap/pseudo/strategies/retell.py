"""What somebody else would say of the same video, drawn from the retelling model (beyond the paper).

Many sentences are drawn of each given one. What most of them agree with, what means the same as the given sentence and
what is likely comes first: such a sentence is closer to what other people say than the given one is (docs/LOG.md).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fewcap.core.config.label import LabelConfig, RetellConfig
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.judge import with_articles
from fewcap.pseudo.retelling import BOS, EOS, PAD, UNK, Retelling
from fewcap.text.closeness import Gram, Grams, closeness, standardised
from fewcap.text.embed import SentenceEncoder
from fewcap.text.tokenise import words

_ROWS = 480  # told together; bounds memory
_LIKELIEST = 40  # a word is drawn from so many at most

Sentence = tuple[str, ...]


class Retell:
    """The T best of many told sentences."""

    name = "retell"
    keeps_keywords = False

    def __init__(self, model: Retelling, encoder: SentenceEncoder, config: LabelConfig, *, seed: int) -> None:
        self.model, self.encoder, self.seed = model, encoder, seed
        self.config, self.wanted = config.retell, config.wanted
        self._rank = {word: rank for rank, word in enumerate(model.vocabulary, start=2)}  # frequent words come first

    @classmethod
    def load(cls, config: LabelConfig, *, seed: int) -> Retell:
        return cls(
            Retelling.load(config.retell.model), SentenceEncoder.load(config.video_text.encoder), config, seed=seed
        )

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        """The best first; their lm_score is the mean log-probability of a word, given the sentence they retell."""
        each = max(1, _ROWS // self.config.told)
        for start in range(0, len(sources), each):
            part = sources[start : start + each]
            told = iter(self._tell([source for source in part if words(source.text)]))
            groups = [next(told) if words(source.text) else [] for source in part]
            texts = [" ".join(sentence) for group in groups for sentence, _ in group]
            distinct = list(dict.fromkeys([source.text for source in part] + texts))
            meaning = dict(zip(distinct, self.encoder.encode(distinct, show=False), strict=True))
            for source, group in zip(part, groups, strict=True):
                yield self._best(source, group, meaning) if group else []

    def _tell(self, sources: Sequence[Source]) -> list[list[tuple[Sentence, float]]]:
        """Sentences of each source with their scores."""
        rows = [(source, chain) for source in sources for chain in range(self.config.told)]
        if not rows:
            return []
        draws = np.stack([_draws(source.key(self.seed, chain), self.config.longest) for source, chain in rows])
        drawn = draw(self.model, [words(source.text) for source, _ in rows], draws, self.config)
        told = [(with_articles(sentence), score) for sentence, score in drawn]
        return [told[i : i + self.config.told] for i in range(0, len(told), self.config.told)]

    def _best(
        self, source: Source, told: Sequence[tuple[Sentence, float]], meaning: Mapping[str, np.ndarray]
    ) -> list[Candidate]:
        scores = dict(reversed(told))
        distinct = list(dict.fromkeys(sentence for sentence, _ in told))
        vectors = [Grams.of(sentence, self._rarity) for sentence in distinct]
        times = np.array([sum(sentence == other for other, _ in told) for sentence in distinct])
        agreement = closeness(vectors, vectors) @ (times / times.sum())
        nearness = np.stack([meaning[" ".join(sentence)] for sentence in distinct]) @ meaning[source.text]
        likelihood = np.array([scores[sentence] for sentence in distinct])
        merits = standardised(agreement) + standardised(nearness) + standardised(likelihood)
        order = np.argsort(-merits, kind="stable")[: self.wanted].tolist()
        return [
            Candidate(
                distinct[i],
                ({"action": "retell", "word": " ".join(distinct[i]), "times": int(times[i])},),
                round(scores[distinct[i]], 6),
                merit=round(float(merits[i]), 6),
            )
            for i in order
        ]

    def _rarity(self, gram: Gram) -> float:
        """Of an n-gram: of its words together, each by its place among all words, which are ordered by frequency."""
        return sum(math.log(self._rank.get(str(word), len(self._rank))) for word in gram)


@torch.inference_mode()
def draw(
    model: Retelling, given: Sequence[Sequence[str]], draws: np.ndarray, config: RetellConfig
) -> list[tuple[Sentence, float]]:
    """A sentence for each given one, and the mean log-probability of its words, the end counted.

    draws [M, T]: a number between 0 and 1 for each word; the same number always draws the same word. Sentences that
    begin alike are one row of the network for as long as they do, and those that have ended are none.
    """
    distinct = {tuple(sentence): row for row, sentence in enumerate(dict.fromkeys(map(tuple, given)))}
    numbers = model.given(list(distinct))
    read = model.read(numbers)
    source = torch.tensor([distinct[tuple(sentence)] for sentence in given])  # [M]
    told = torch.full((len(given), 1), BOS)
    total, going = torch.zeros(len(given)), torch.arange(len(given))
    for step in range(draws.shape[1] + 1):
        so_far = torch.cat([source[going, None], told[going]], 1)
        alike, row_of = so_far.unique(dim=0, return_inverse=True)
        rows, prefix = alike[:, 0], alike[:, 1:]
        chances = model.next_probabilities(prefix, read[rows], numbers.select(rows))
        if step == draws.shape[1]:
            drawn = torch.full((len(going), 1), EOS)
        else:
            possible = chances.index_fill(1, torch.tensor([PAD, BOS, UNK]), 0)
            # no word twice in a row, no empty sentence
            possible = possible.scatter(1, prefix[:, -1:] if step else torch.full_like(prefix, EOS), 0)
            drawn = _drawn(possible, row_of, torch.from_numpy(draws[going.numpy(), step]), config)
        total[going] += chances[row_of, drawn[:, 0]].clamp(min=1e-9).log()
        told = torch.cat([told, told.new_full((len(told), 1), PAD)], 1)
        told[going, -1] = drawn[:, 0]
        going = going[drawn[:, 0] != EOS]
        if not len(going):
            break
    sentences = [
        tuple(model.word(number, extra) for number in row if number not in (BOS, EOS, PAD))
        for row, extra in zip(told.tolist(), (numbers.extra[place] for place in source.tolist()), strict=True)
    ]
    return [(s, log_sum / (len(s) + 1)) for s, log_sum in zip(sentences, total.tolist(), strict=True)]


def _draws(key: str, count: int) -> np.ndarray:
    """[count] numbers between 0 and 1 that hang on nothing but the key."""
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8])).random(count)


def _drawn(chances: Tensor, row_of: Tensor, draws: Tensor, config: RetellConfig) -> Tensor:
    """[M, 1]: among the likeliest words of its row the one where the summed probability passes the number drawn."""
    top = chances.topk(min(_LIKELIEST, chances.shape[1]), -1)
    sharp = (top.values.clamp(min=1e-12).log() / config.temperature).softmax(-1)
    sharp = sharp * (sharp.cumsum(-1) - sharp < config.top_p)
    summed = (sharp.cumsum(-1) / sharp.sum(-1, keepdim=True))[row_of]  # [M, likeliest]
    place = (summed < draws[:, None]).sum(-1, keepdim=True).clamp(max=sharp.shape[1] - 1)
    return top.indices[row_of].gather(1, place)
