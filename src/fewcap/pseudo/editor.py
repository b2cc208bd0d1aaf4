"""The editor: chains of many videos advance together, one edit a step.

A step asks the classifier once about all sentences, the forward model once about what stands left of the chosen
positions and the backward model once about what stands right of them. Sentences and contexts that chains share are
computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewcap.core.config.label import EditConfig
from fewcap.pseudo.chain import Chain
from fewcap.pseudo.equations import allowed_edits, choose_edit, choose_words, wants_edit, word_log_scores
from fewcap.pseudo.inference import action_probs, fluency, next_log_probs
from fewcap.pseudo.language import DELETE, REPLACE, LanguageModels

ROWS = 256  # chains whose words are chosen in one go: [ROWS, V] stays small


@dataclass(frozen=True)
class Seed:
    """Where a chain starts: the keywords of a sentence, and the key that seeds its draws."""

    keywords: tuple[str, ...]
    key: str
    heat: float = 1.0


@dataclass(frozen=True)
class Draft:
    """Where a chain ended."""

    words: tuple[str, ...]
    edits: tuple[dict[str, Any], ...]
    finished: bool  # the classifier wanted nothing but copies
    doubt: tuple[float, str]  # probability that a word is wrong, keywords too, and the likeliest such word
    lm_score: float  # mean log probability of a token, forward and backward


class Editor:
    """Runs chains with a set of language models."""

    def __init__(self, models: LanguageModels, config: EditConfig, batch: int) -> None:
        self.models = models
        self.codec = models.codec
        self.config = config
        self.batch = batch
        self._forbidden = torch.ones(len(self.codec), dtype=torch.bool)
        self._forbidden[self.codec.proposable()] = False

    def drafts(self, seeds: Iterable[Seed]) -> Iterator[Draft]:
        """One draft for each seed, in order; at most `batch` chains are in memory."""
        waiting = iter(seeds)
        while group := list(islice(waiting, self.batch)):
            chains = self.edited(group)
            scores = fluency(self.models.forward, self.models.backward, [tuple(chain.ids) for chain in chains])
            for chain, score in zip(chains, scores, strict=True):
                yield Draft(tuple(chain.words), tuple(chain.edits), chain.finished, chain.doubt, score)

    def edited(self, seeds: Sequence[Seed]) -> list[Chain]:
        """Chains of all seeds, run side by side to their ends."""
        chains = [Chain.of_keywords(seed.keywords, self.codec, seed.key, seed.heat) for seed in seeds]
        running = chains
        for _ in range(self.config.steps):
            running = self.step(running)
            if not running:
                break
        return chains

    def step(self, chains: Sequence[Chain]) -> list[Chain]:
        """One edit for each chain that wants one; returns those chains."""
        running, edits = [], []
        for chain, probs in zip(chains, self._action_probs(chains), strict=True):
            allowed = allowed_edits(chain.locked, chain.starts, len(chain.words) < self.config.longest)
            if not allowed.any() or not wants_edit(probs, allowed, self._stop(chain)):
                chain.finished = True
                chain.doubt = self._doubt(chain, probs)
                continue
            draws = tuple(chain.generator.random(2)) if self.config.sampling else None
            action, position = choose_edit(probs, allowed, self.config.action_temperature * chain.heat, draws)
            running.append(chain)
            edits.append((action, position, float(probs[position, action])))
        writing = []
        for chain, (action, position, probability) in zip(running, edits, strict=True):
            if action == DELETE:
                chain.delete(position, probability)
            else:
                writing.append((chain, action, position, probability))
        self._write(writing)
        return running

    def _stop(self, chain: Chain) -> float:
        """Bare keywords are no sentence: the first edit is made however little the classifier wants it."""
        return self.config.stop if self.config.guidance and chain.edits else 0.0

    def _doubt(self, chain: Chain, probs: np.ndarray) -> tuple[float, str]:
        if not self.config.guidance:
            return 0.0, ""
        wrong = probs[1:-1, [REPLACE, DELETE]].max(1)  # [words]
        return float(wrong.max()), chain.texts[1 + int(wrong.argmax())]

    def _action_probs(self, chains: Sequence[Chain]) -> list[np.ndarray]:
        """[L, 4] for each chain."""
        if not self.config.guidance:
            return [np.tile(np.array([0, 1, 1, 1], dtype=np.float32) / 3, (len(chain.ids), 1)) for chain in chains]
        sentences = [tuple(chain.ids) for chain in chains]
        probs = {ids: rows.numpy() for ids, rows in action_probs(self.models.classifier, sentences).items()}
        return [probs[ids] for ids in sentences]

    def _write(self, writing: Sequence[tuple[Chain, int, int, float]]) -> None:
        contexts = [chain.contexts(action, position) for chain, action, position, _ in writing]
        forward = next_log_probs(self.models.forward, [left for left, _ in contexts])
        backward = next_log_probs(self.models.backward, [right for _, right in contexts])
        for start in range(0, len(writing), ROWS):
            part = writing[start : start + ROWS]
            around = contexts[start : start + ROWS]
            scores = word_log_scores(
                torch.stack([forward[left] for left, _ in around]),
                torch.stack([backward[right] for _, right in around]),
                self._present([chain for chain, *_ in part]),
                self.config.penalty,
            )
            uniforms = torch.tensor([chain.generator.random() for chain, *_ in part], dtype=torch.float64)
            tokens, shares = choose_words(
                scores,
                self.banned(part),
                self.config.temperature * torch.tensor([chain.heat for chain, *_ in part]),
                self.config.top_words,
                uniforms if self.config.sampling else None,
            )
            for (chain, action, position, probability), token, share in zip(
                part, tokens.tolist(), shares.tolist(), strict=True
            ):
                chain.write(action, position, token, self.codec.word(token), probability, share)

    def _present(self, chains: Sequence[Chain]) -> Tensor:
        """[n, V]: tokens that the sentence has."""
        present = torch.zeros(len(chains), len(self.codec), dtype=torch.bool)
        for row, chain in zip(present, chains, strict=True):
            row[chain.ids] = True
        return present

    def banned(self, writing: Sequence[tuple[Chain, int, int, float]]) -> Tensor:
        """[n, V]: tokens that are no words, the word to be replaced, and the new word's neighbours."""
        banned = self._forbidden.repeat(len(writing), 1)
        for row, (chain, action, position, _) in zip(banned, writing, strict=True):
            after = position + 1 if action == REPLACE else position
            row[[chain.ids[position - 1], chain.ids[position], chain.ids[after]]] = True
        return banned
