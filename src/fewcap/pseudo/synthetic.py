"""The synthetic data creator: corpus sentences spoilt in a known way, to teach the classifier which edit mends them.

A word that is missing before a token labels that token *insert*, a superfluous word is labelled *delete*, an
exchanged one *replace*, everything else *copy*. Cutting a segment out of a sentence is a way of missing words at its
start and before its end token.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fewcap.core.config.label import NoiseConfig
from fewcap.pseudo.codec import Codec
from fewcap.pseudo.forms import families
from fewcap.pseudo.language import COPY, DELETE, INSERT, REPLACE, padded

BLOCK = 256


@dataclass(frozen=True)
class Damage:
    """What is done to a sentence; positions count its words from 0."""

    start: int
    end: int  # words from start up to end are kept
    dropped: frozenset[int] = frozenset()
    exchanged: frozenset[int] = frozenset()
    preceded: frozenset[int] = frozenset()  # words that get a superfluous one in front; `end` is the end token


@dataclass(frozen=True)
class Pair:
    """Tokens between start and end token, one action each, and the word behind each mask (None: superfluous)."""

    tokens: tuple[int, ...]
    actions: tuple[int, ...]
    masked: tuple[tuple[int, int | None], ...]


def damaged(sentence: Sequence[int], damage: Damage, codec: Codec) -> Pair:
    """Applies the damage to the ids of a sentence (without start and end token); new words are still masks."""
    tokens, actions = [codec.bos], [COPY]
    masked: list[tuple[int, int | None]] = []
    missing = damage.start > 0
    for position in range(damage.start, damage.end):
        if position in damage.dropped:
            missing = True
            continue
        if position in damage.preceded and not missing:
            masked.append((len(tokens), None))
            tokens.append(codec.mask)
            actions.append(DELETE)
        exchanged = position in damage.exchanged and not missing
        if exchanged:
            masked.append((len(tokens), sentence[position]))
        tokens.append(codec.mask if exchanged else sentence[position])
        actions.append(INSERT if missing else REPLACE if exchanged else COPY)
        missing = False
    missing = missing or damage.end < len(sentence)
    if damage.end in damage.preceded and not missing:
        masked.append((len(tokens), None))
        tokens.append(codec.mask)
        actions.append(DELETE)
    return Pair((*tokens, codec.eos), (*actions, INSERT if missing else COPY), tuple(masked))


def draw_damage(content: Sequence[bool], noise: NoiseConfig, generator: random.Random) -> Damage:
    """Random damage for a sentence whose nouns and verbs are known."""
    n = len(content)
    start, end = 0, n
    if n > 2 and generator.random() < noise.segment:
        start, end = sorted(generator.sample(range(n + 1), 2))
    spare_content = generator.random() < noise.function_words
    share = generator.uniform(0, 1 if spare_content else noise.insert)
    dropped = {i for i in range(start, end) if generator.random() < share and not (spare_content and content[i])}
    if len(dropped) == end - start:
        dropped.discard(generator.randrange(start, end))
    exchanged = {i for i in range(start, end) if generator.random() < noise.replace}
    preceded = {i for i in range(start, end + 1) if generator.random() < noise.delete}
    return Damage(start, end, frozenset(dropped), frozenset(exchanged), frozenset(preceded))


class Creator:
    """Makes pairs; the masked model fills what the damage left open."""

    def __init__(self, masked: Any, codec: Codec, noise: NoiseConfig, frequencies: Sequence[int]) -> None:
        self.masked = masked
        self.codec = codec
        self.noise = noise
        self.proposable = torch.full((len(codec),), float("-inf"))
        self.proposable[codec.proposable()] = 0.0
        self._drawn = codec.proposable()
        self._weights = [frequencies[i] for i in self._drawn]
        ids = {codec.word(i): i for i in self._drawn}
        self._forms = {ids[word]: [ids[form] for form in forms] for word, forms in families(ids).items()}

    def pairs(
        self, sentences: Sequence[Sequence[int]], contents: Sequence[Sequence[bool]], generator: random.Random
    ) -> list[Pair]:
        """One pair a sentence, with random damage."""
        drafts = [
            damaged(ids, draw_damage(content, self.noise, generator), self.codec)
            for ids, content in zip(sentences, contents, strict=True)
        ]
        return self.filled([self._with_drawn_words(draft, generator) for draft in drafts], generator)

    def _with_drawn_words(self, pair: Pair, generator: random.Random) -> Pair:
        """Some masks become another form of the word that stood there, some a random word."""
        tokens, left = list(pair.tokens), []
        for position, original in pair.masked:
            if original in self._forms and generator.random() < self.noise.forms:
                tokens[position] = generator.choice(self._forms[original])
                continue
            if generator.random() < self.noise.random_words:
                word = generator.choices(self._drawn, self._weights)[0]
                if word != original:
                    tokens[position] = word
                    continue
            left.append((position, original))
        return Pair(tuple(tokens), pair.actions, tuple(left))

    @torch.inference_mode()
    def filled(self, pairs: Sequence[Pair], generator: random.Random) -> list[Pair]:
        """Each mask becomes a word that the masked model proposes, never the one that stood there."""
        draws = torch.Generator().manual_seed(generator.getrandbits(63))
        result = list(pairs)
        open_pairs = sorted((i for i, pair in enumerate(pairs) if pair.masked), key=lambda i: len(pairs[i].tokens))
        for begin in range(0, len(open_pairs), BLOCK):
            block = open_pairs[begin : begin + BLOCK]
            proposed = self._proposed([pairs[i] for i in block], draws)
            for index, words in zip(block, proposed, strict=True):
                tokens = list(pairs[index].tokens)
                for (position, _), word in zip(pairs[index].masked, words, strict=True):
                    tokens[position] = word
                result[index] = Pair(tuple(tokens), pairs[index].actions, ())
        return result

    def _proposed(self, pairs: Sequence[Pair], draws: torch.Generator) -> list[list[int]]:
        ids = padded([pair.tokens for pair in pairs], self.codec.pad)  # [B, L]
        hidden = self.masked.transformer(ids, attention_mask=(ids != self.codec.pad).float(), use_mems=False)[0]
        rows = [i for i, pair in enumerate(pairs) for _ in pair.masked]
        columns = [position for pair in pairs for position, _ in pair.masked]
        logits: Tensor = self.masked.lm_loss(hidden[rows, columns]).float() + self.proposable  # [M, V]
        originals = [original for pair in pairs for _, original in pair.masked]
        for row, original in enumerate(originals):
            if original is not None:
                logits[row, original] = float("-inf")
        if self.noise.temperature:
            # The largest logit plus Gumbel noise is a draw from the softmax.
            uniform = torch.rand(logits.shape, generator=draws).clamp(1e-9, 1 - 1e-7)
            logits = logits / self.noise.temperature - (-uniform.log()).log()
        words = iter(logits.argmax(-1).tolist())
        return [[next(words) for _ in pair.masked] for pair in pairs]
