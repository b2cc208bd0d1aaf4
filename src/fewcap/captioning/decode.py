"""Decoding over word numbers: greedy, beam search, sampling.

The functions know neither words nor videos: a ``Decoder`` answers with log-probabilities of the next word for rows
that it keeps itself, B videos with the same number of rows each, and reorders those rows when told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fewcap.text.vocabulary import BOS, EOS, PAD, UNK

NEVER = (PAD, BOS, UNK)  # words that no caption holds


class Decoder(Protocol):
    """A model in the middle of B sentences, one row each at first."""

    def step(self, words: Tensor) -> Tensor:
        """The newest word of every row [M] → log-probabilities of the next one [M, V]."""
        ...

    def select(self, rows: Tensor) -> None:
        """Goes on with these rows [M'], still grouped by video."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """A sentence as numbers, without BOS and EOS, with its log-probability and its length-normalised score."""

    words: tuple[int, ...]
    log_probability: float
    score: float


def beam_search(
    decoder: Decoder,
    videos: int,
    *,
    beam: int,
    max_words: int,
    length_penalty: float = 1.0,
    block_repeats: int = 0,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The ``beam`` best sentences of each video, best first; ``beam=1`` is greedy.

    A sentence scores its log-probability / length^length_penalty, EOS counted as a word. A sentence has a word at
    least, and no word follows itself: dividing by the length pays for "table table table tennis". ``block_repeats=n``
    forbids a second occurrence of any n words in a row.
    """
    alive = torch.zeros(videos, 1, device=device)  # log-probabilities [B, rows]
    history = torch.full((videos, 1, 1), BOS, dtype=torch.long, device=device)  # [B, rows, length]
    finished: list[list[Hypothesis]] = [[] for _ in range(videos)]
    offsets = torch.arange(videos, device=device).unsqueeze(1)
    for length in range(1, max_words + 1):
        rows = history.shape[1]
        log_probs = decoder.step(history[:, :, -1].reshape(-1)).float().view(videos, rows, -1)  # [B, rows, V]
        log_probs[:, :, list(NEVER)] = float("-inf")
        log_probs.scatter_(2, history[:, :, -1:], float("-inf"))
        if length == 1:
            log_probs[:, :, EOS] = float("-inf")
        if block_repeats:
            _block_repeats(log_probs, history, block_repeats)
        vocabulary = log_probs.shape[-1]
        total = (alive.unsqueeze(-1) + log_probs).view(videos, -1)  # [B, rows · V]
        # Twice the beam: at most `beam` of these can end here, so `beam` alive rows remain.
        best, index = total.topk(min(2 * beam, total.shape[1]), dim=1)
        parent, word = index // vocabulary, index % vocabulary
        ends = (word == EOS) & best.isfinite()
        for video, place in ends[:, :beam].nonzero().tolist():
            value = best[video, place].item()
            words = tuple(history[video, parent[video, place], 1:].tolist())
            finished[video].append(Hypothesis(words, value, value / length**length_penalty))
        # Ended rows sink, the order of the others stays.
        _, places = torch.where(word == EOS, float("-inf"), best).topk(min(beam, best.shape[1]), dim=1)
        parent, word, alive = parent.gather(1, places), word.gather(1, places), best.gather(1, places)
        alive = alive.masked_fill(word == EOS, float("-inf"))
        history = history.gather(1, parent.unsqueeze(-1).expand(-1, -1, history.shape[-1]))
        history = torch.cat([history, word.unsqueeze(-1)], -1)
        if _settled(finished, alive, beam, length, max_words, length_penalty):
            break
        decoder.select((offsets * rows + parent).view(-1))
    for video in range(videos):  # sentences cut at the limit
        for row in range(history.shape[1] if len(finished[video]) < beam else 0):
            value = alive[video, row].item()
            if value > float("-inf"):
                words = tuple(history[video, row, 1:].tolist())
                finished[video].append(Hypothesis(words, value, value / len(words) ** length_penalty))
    return [sorted(found, key=lambda h: (-h.score, h.words))[:beam] for found in finished]


def sample(
    decoder: Decoder,
    videos: int,
    *,
    count: int,
    max_words: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """``count`` sampled sentences of each video, from the smallest set of words with mass ``top_p`` at each step."""
    history = torch.full((videos, 1), BOS, dtype=torch.long, device=device)
    value = torch.zeros(videos * count, device=device)
    done = torch.zeros(videos * count, dtype=torch.bool, device=device)
    for length in range(1, max_words + 1):
        log_probs = decoder.step(history[:, -1]).float()
        log_probs[:, list(NEVER)] = float("-inf")
        if length == 1:  # one row a video becomes `count` rows
            rows = torch.arange(videos, device=device).repeat_interleave(count)
            decoder.select(rows)
            log_probs, history = log_probs[rows], history[rows]
        probabilities = _nucleus((log_probs / temperature).softmax(-1), top_p)
        word = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
        word = torch.where(done, torch.full_like(word, EOS), word)
        chosen = log_probs.log_softmax(-1).gather(1, word.unsqueeze(1)).squeeze(1)
        value = value + torch.where(done, torch.zeros_like(chosen), chosen)
        history = torch.cat([history, word.unsqueeze(1)], 1)
        done = done | (word == EOS)
        if bool(done.all()):
            break
    found: list[list[Hypothesis]] = [[] for _ in range(videos)]
    for row, numbers in enumerate(history[:, 1:].tolist()):
        words = tuple(numbers[: numbers.index(EOS)] if EOS in numbers else numbers)
        total = value[row].item()
        found[row // count].append(Hypothesis(words, total, total / (len(words) + 1)))
    return [sorted(hypotheses, key=lambda h: (-h.score, h.words)) for hypotheses in found]


def _block_repeats(log_probs: Tensor, history: Tensor, n: int) -> None:
    """Forbids, in place, every word that would close a run of n words that is already in the row."""
    videos, rows, length = history.shape
    if length <= n:  # BOS is not a word of the sentence
        return
    for video in range(videos):
        for row in range(rows):
            words = history[video, row, 1:].tolist()
            tail = words[len(words) - n + 1 :] if n > 1 else []
            for start in range(len(words) - n + 1):
                if words[start : start + n - 1] == tail:
                    log_probs[video, row, words[start + n - 1]] = float("-inf")


def _settled(
    finished: list[list[Hypothesis]],
    alive: Tensor,
    beam: int,
    length: int,
    max_words: int,
    length_penalty: float,
) -> bool:
    """Whether no row that is still alive can beat the ``beam`` best finished sentences of its video."""
    limit = max_words if length_penalty > 0 else length
    for found, values in zip(finished, alive.tolist(), strict=True):
        if len(found) < beam:
            return False
        worst = sorted((h.score for h in found), reverse=True)[beam - 1]
        if max(values) / limit**length_penalty > worst:
            return False
    return True


def _nucleus(probabilities: Tensor, top_p: float) -> Tensor:
    if top_p >= 1:
        return probabilities
    ordered, index = probabilities.sort(dim=-1, descending=True)
    beyond = ordered.cumsum(-1) - ordered >= top_p  # the first word is never beyond
    return probabilities.scatter(-1, index, ordered.masked_fill(beyond, 0.0))
