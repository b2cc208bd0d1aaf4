"""From encoded videos to sentences: the model as a decoder over word numbers, with or without its cache."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewcap.captioning.choice import Ballot, Choice, arguments
from fewcap.captioning.commonness import less_common, readiness
from fewcap.captioning.consensus import Consensus, Voters, by_merit
from fewcap.captioning.decode import NEVER, Decoder, Hypothesis, beam_search, sample
from fewcap.captioning.model import CaptionModel, KeywordBatch, Memory, VideoBatch
from fewcap.core.config.caption import CaptionConfig
from fewcap.text.vocabulary import BOS, EOS, Vocabulary


class CachedDecoder:
    """The autoregressive model one word at a time; what it has computed for earlier words is kept."""

    def __init__(self, model: CaptionModel, memory: Memory) -> None:
        self.model = model
        self.state = model.start(memory)

    def step(self, words: Tensor) -> Tensor:
        logits, _ = self.model.step(self.state, words.unsqueeze(1))
        return logits[:, 0].log_softmax(-1)

    def select(self, rows: Tensor) -> None:
        self.state.select(rows)


class UncachedDecoder:
    """The same answers by decoding every sentence from its start again: the measure of the cached one."""

    def __init__(self, model: CaptionModel, memory: Memory) -> None:
        self.model, self.memory = model, memory
        self.history: Tensor | None = None  # [M, words so far]

    def step(self, words: Tensor) -> Tensor:
        fresh = words.unsqueeze(1)
        self.history = fresh if self.history is None else torch.cat([self.history, fresh], 1)
        logits, _ = self.model.step(self.model.start(self.memory), self.history)
        return logits[:, -1].log_softmax(-1)

    def select(self, rows: Tensor) -> None:
        assert self.history is not None
        self.history = self.history[rows]


class MeanDecoder:
    """Several members of one captioner, word by word: the mean of their probabilities."""

    def __init__(self, members: Sequence[Decoder]) -> None:
        self.members = members

    def step(self, words: Tensor) -> Tensor:
        said = torch.stack([member.step(words).float() for member in self.members])  # [members, M, V]
        return said.logsumexp(0) - math.log(len(self.members))

    def select(self, rows: Tensor) -> None:
        for member in self.members:
            member.select(rows)


@dataclass(frozen=True)
class Generated:
    """The captions of one video, best first, and the video's share in each word of the first."""

    hypotheses: tuple[Hypothesis, ...]
    video_share: tuple[float, ...]


@dataclass(frozen=True)
class Vote:
    """Who chooses among the captions of the videos of a batch."""

    consensus: Consensus
    captions: int  # so many best ones stand for election
    voters: Sequence[Voters] | None  # of each video, beside the captions themselves
    choice: Choice | None  # what training has learnt about choosing
    vocabulary: Vocabulary
    common: Mapping[str, float]  # the share of videos that each common caption is likely for
    rarity: float  # how much these lose

    def order(self, video: int, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        standing, others = hypotheses[: self.captions], list(hypotheses[self.captions :])
        voters = self.voters[video] if self.voters is not None else None
        if self.choice is None or voters is None:
            merits = self.consensus.merits(standing, voters)
        else:
            merits = self.choice.merits(self.ballot(video, standing))
        if self.rarity:
            said = [self.vocabulary.decode(h.words) for h in standing]
            merits = less_common(merits, readiness(said, self.common), self.rarity)
        return by_merit(standing, merits) + others

    def ballot(self, video: int, hypotheses: Sequence[Hypothesis]) -> Ballot:
        """Captions of a video with what speaks for each; needs voters."""
        assert self.voters is not None
        said = tuple(tuple(self.vocabulary.decode(h.words)) for h in hypotheses)
        return Ballot(said, arguments(self.consensus, hypotheses, self.voters[video]))


@torch.inference_mode()
def generate(
    models: Sequence[CaptionModel],
    video: VideoBatch,
    keywords: KeywordBatch | None,
    config: CaptionConfig,
    *,
    length_penalty: float,
    vote: Vote | None = None,
) -> list[Generated]:
    """Decodes the videos of a batch by the members of a captioner.

    ``length_penalty`` is the captioner's own, ``vote`` orders what beam search finds.
    """
    memories = [model.eval().remember(video, keywords) for model in models]
    part = memories[0].video or memories[0].keywords
    assert part is not None
    videos, device = len(part.mask), part.states.device
    if models[0].config.decoder == "parallel":
        return _parallel(models, memories)
    decoder = MeanDecoder([CachedDecoder(*parts) for parts in zip(models, memories, strict=True)])
    if config.method == "beam":
        found = beam_search(
            decoder,
            videos,
            beam=max(config.beam, vote.captions if vote is not None else 0),
            max_words=models[0].config.max_words,
            length_penalty=length_penalty if config.length_penalty is None else config.length_penalty,
            block_repeats=config.block_repeats,
            device=device,
        )
        if vote is not None:
            found = [vote.order(video, hypotheses) for video, hypotheses in enumerate(found)]
    else:
        found = sample(
            decoder,
            videos,
            count=config.samples,
            max_words=models[0].config.max_words,
            temperature=config.temperature,
            top_p=config.top_p,
            generator=torch.Generator(device).manual_seed(config.seed),
            device=device,
        )
    shares = video_shares(models, memories, [hypotheses[0].words for hypotheses in found])
    return [
        Generated(tuple(hypotheses[: config.alternatives]), share)
        for hypotheses, share in zip(found, shares, strict=True)
    ]


def video_shares(
    models: Sequence[CaptionModel], memories: Sequence[Memory], captions: list[tuple[int, ...]]
) -> list[tuple[float, ...]]:
    """The gate's mean, over features and members, at each word of one caption a video."""
    part = memories[0].video or memories[0].keywords
    assert part is not None
    width = max(len(words) for words in captions)
    inputs = torch.full((len(captions), width + 1), EOS, dtype=torch.long, device=part.states.device)
    inputs[:, 0] = BOS
    for row, words in enumerate(captions):
        inputs[row, 1 : len(words) + 1] = torch.tensor(words)
    inputs = inputs[:, : max(width, 1)]
    shares = [model.step(model.start(memory), inputs)[1] for model, memory in zip(models, memories, strict=True)]
    share = torch.stack(shares).mean(0)  # [B, width]
    return [tuple(row[: len(words)]) for row, words in zip(share.tolist(), captions, strict=True)]


def _parallel(models: Sequence[CaptionModel], memories: Sequence[Memory]) -> list[Generated]:
    """The largest entry of each row of P, up to the first EOS; P is the mean of the members' own."""
    found = [model.decode_parallel(model.start(memory)) for model, memory in zip(models, memories, strict=True)]
    log_probs = torch.stack([logits.float().softmax(-1) for logits, _ in found]).mean(0).log()  # [B, T, V]
    share = torch.stack([own for _, own in found]).mean(0)
    log_probs[:, :, list(NEVER)] = float("-inf")
    values, words = log_probs.max(-1)
    captions = []
    for row, numbers in enumerate(words.tolist()):
        length = numbers.index(EOS) if EOS in numbers else len(numbers)
        counted = min(length + 1, len(numbers))
        value = values[row, :counted].sum().item()
        hypothesis = Hypothesis(tuple(numbers[:length]), value, value / counted)
        captions.append(Generated((hypothesis,), tuple(share[row, :length].tolist())))
    return captions
