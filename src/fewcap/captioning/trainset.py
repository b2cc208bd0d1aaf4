"""The training set: what is known of each video, and which of it an epoch shows to the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fewcap.captioning.batches import keyword_batch, sentence_batch, video_batch
from fewcap.captioning.model import KeywordBatch, VideoBatch
from fewcap.captioning.retrieval import Keyword, SentenceBank, retrieve
from fewcap.core.config.train import KeywordConfig, TrainConfig, VideoTextConfig
from fewcap.core.types import VideoFeatures
from fewcap.pseudo.videotext import fit_tower
from fewcap.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Sentence:
    """A training sentence as numbers, with its own keywords."""

    numbers: tuple[int, ...]
    keywords: tuple[str, ...]
    pseudo: bool


@dataclass(frozen=True)
class TrainingVideo:
    """All that training may know of a video."""

    id: str
    truth: tuple[Sentence, ...]
    pseudo: tuple[Sentence, ...]
    retrieved: tuple[Keyword, ...]  # as for a new video: its own sentences are left out
    anchor: np.ndarray  # [d_s], by a video-text model that has not seen the video
    keyword_target: np.ndarray  # [d_s], the ground-truth keywords in the sentence encoder's space
    further: bool = False  # of a corpus that trains beside the first one
    agreement: tuple[float, ...] = ()  # of each true sentence with the others; empty: not known


@dataclass(frozen=True)
class Batch:
    """B videos with S rows each."""

    ids: tuple[str, ...]  # of the videos
    video: VideoBatch
    keywords: KeywordBatch  # [M, K]
    own_keywords: KeywordBatch  # [M, K], of the sentences themselves
    inputs: Tensor  # [M, T]
    targets: Tensor  # [M, T]
    weights: Tensor  # [M], 0 fills up a video that has fewer sentences
    word_weights: Tensor  # [M], of the word loss
    keyword_targets: Tensor  # [M, d_s]


def cross_fitted(
    pooled: np.ndarray,
    embeddings: np.ndarray,
    video_of: np.ndarray,
    bank: SentenceBank,
    ids: Sequence[str],
    keyword_config: KeywordConfig,
    videotext_config: VideoTextConfig,
    *,
    seed: int,
) -> tuple[np.ndarray, list[tuple[Keyword, ...]]]:
    """Anchors [n, d_s] and keywords of the training videos as if they were new.

    A map that has seen a video's sentence points at it even when that sentence is left out of the bank, so each fold
    of the videos is served by a map learnt from the other folds. pooled [n, D]; embeddings [p, d_s] of ground-truth
    sentences, video_of [p]; the bank's embeddings are the sentence encoder's own.
    """
    folds = min(keyword_config.folds, len(ids))
    fold_of = np.random.default_rng(seed).permutation(len(ids)) % folds
    anchors = np.zeros((len(ids), embeddings.shape[1]), dtype=np.float32)
    found: list[tuple[Keyword, ...]] = [()] * len(ids)
    for fold in range(folds):
        inside = np.flatnonzero(fold_of == fold)
        others = np.flatnonzero(fold_of != fold) if folds > 1 else inside
        place = np.full(len(ids), -1)
        place[others] = np.arange(len(others))
        pairs = place[video_of] >= 0
        tower = fit_tower(pooled[others], embeddings[pairs], place[video_of[pairs]], videotext_config, seed=seed)
        anchors[inside] = tower.videos(pooled[inside])
        scores = bank.seen_by(tower).similarities(anchors[inside], exclude=[ids[i] for i in inside.tolist()])
        for i, row in zip(inside.tolist(), scores, strict=True):
            found[i] = tuple(retrieve(bank, row, keyword_config))
    return anchors, found


class TrainingSet:
    """Draws the batches of an epoch; the same seed and epoch always give the same batches.

    ``looks`` holds the features of each video, then those of its cut-outs: one of them is shown at a time.
    """

    def __init__(
        self,
        videos: Sequence[TrainingVideo],
        looks: Mapping[str, Sequence[VideoFeatures]],
        dims: Mapping[str, int],
        vocabulary: Vocabulary,
        config: TrainConfig,
        *,
        seed: int,
    ) -> None:
        self.videos, self.looks, self.dims, self.vocabulary = videos, looks, dims, vocabulary
        self.config, self.seed = config, seed
        self.batch = config.batch_of(len(videos))

    def drawn(self, config: TrainConfig, seed: int) -> TrainingSet:
        """The same videos, shown by other settings or in another order."""
        return TrainingSet(self.videos, self.looks, self.dims, self.vocabulary, config, seed=seed)

    @cached_property
    def steps(self) -> int:
        """Optimiser steps of all epochs."""
        return sum(-(-len(self._shown(epoch)) // self.batch) for epoch in range(self.config.epochs))

    def _shown(self, epoch: int) -> np.ndarray:
        """Numbers of the videos that take part in an epoch (from 0)."""
        if epoch < round(self.config.further_until * self.config.epochs):
            return np.arange(len(self.videos))
        return self._first_corpus

    @cached_property
    def _first_corpus(self) -> np.ndarray:
        return np.flatnonzero([not video.further for video in self.videos])

    def own_share(self, epoch: int) -> float:
        """Share of sentences that see their own keywords in this epoch (from 0)."""
        keywords = self.config.keywords
        if keywords.source != "mixed":
            return float(keywords.source == "own")
        done = epoch / max(self.config.epochs - 1, 1)
        return keywords.own_start + (keywords.own_end - keywords.own_start) * done

    def epoch(self, epoch: int, *, part: int = 0, parts: int = 1) -> Iterator[list[Batch]]:
        """The steps of an epoch, each ``accumulate`` batches; ``part`` of ``parts`` processes sees its own videos."""
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(self._shown(epoch))
        pieces = self.config.accumulate * parts
        for start in range(0, len(order), self.batch):
            chosen = order[start : start + self.batch]
            step_seed = int(random.integers(2**31))
            # Every choice hangs on the video and the step, not on the piece that it falls into.
            mine = [chosen[piece::pieces] for piece in range(part, pieces, parts)]
            yield [self._batch(videos.tolist(), epoch, step_seed) for videos in mine if len(videos)]

    def _batch(self, videos: list[int], epoch: int, step_seed: int) -> Batch:
        config = self.config
        own_share = self.own_share(epoch)
        sources = [np.random.default_rng([step_seed, video]) for video in videos]
        chosen = [self.videos[video] for video in videos]
        drawn = [self._draw(video, random) for video, random in zip(chosen, sources, strict=True)]
        rows = max(len(sentences) for sentences in drawn)
        sentences, keywords, weights, targets = [], [], [], []
        for video, own, random in zip(chosen, drawn, sources, strict=True):
            for row in range(rows):
                sentence = own[row % len(own)]
                sentences.append(sentence)
                weights.append(0.0 if row >= len(own) else config.pseudo_weight if sentence.pseudo else 1.0)
                targets.append(video.keyword_target)
                words = self._own(sentence) if random.random() < own_share else video.retrieved
                keywords.append(_dropped(words, config.keywords.drop, random))
        inputs, outputs = sentence_batch([s.numbers for s in sentences], config.model.max_words)
        frames = config.model.frames
        seen = [_one(self.looks[video.id], random) for video, random in zip(chosen, sources, strict=True)]
        hidden = np.stack([random.random(frames) < config.frame_drop for random in sources])
        moments = np.stack([random.random(frames) for random in sources]) if config.frames_at_random else None
        weight = torch.tensor(weights)
        counted = torch.tensor([config.word_loss == "all" or s.pseudo for s in sentences])
        return Batch(
            tuple(video.id for video in chosen),
            video_batch(
                seen,
                self.dims,
                config.model,
                anchors=np.stack([video.anchor for video in chosen]),
                hidden=hidden,
                moments=moments,
            ),
            keyword_batch(keywords, self.vocabulary, config.keywords.count),
            keyword_batch([self._own(s) for s in sentences], self.vocabulary, config.keywords.count),
            inputs,
            outputs,
            weight,
            weight * counted * (config.word_loss != "off"),
            torch.from_numpy(np.stack(targets)),
        )

    def _draw(self, video: TrainingVideo, random: np.random.Generator) -> list[Sentence]:
        count = min(self.config.sentences_per_video, len(video.truth))
        truth = random.choice(len(video.truth), count, replace=False, p=self._chances(video))
        pseudo = random.permutation(len(video.pseudo))[: self.config.pseudo_per_video]
        return [video.truth[i] for i in truth] + [video.pseudo[i] for i in pseudo]

    def _chances(self, video: TrainingVideo) -> np.ndarray | None:
        """Of being drawn, by agreement; a sentence that stands alone keeps a small one."""
        agreement = np.array(video.agreement)
        if not agreement.sum():
            return None
        chances = np.maximum(agreement / agreement.mean(), 0.05) ** self.config.agreement
        return np.asarray(chances / chances.sum())

    def _own(self, sentence: Sentence) -> Sequence[Keyword]:
        return [Keyword(word, 1.0) for word in sentence.keywords[: self.config.keywords.count]]


def _one(looks: Sequence[VideoFeatures], random: np.random.Generator) -> VideoFeatures:
    return looks[int(random.integers(len(looks)))]


def _dropped(keywords: Sequence[Keyword], probability: float, random: np.random.Generator) -> list[Keyword]:
    kept = random.random(len(keywords)) >= probability
    return [keyword for keyword, keep in zip(keywords, kept, strict=True) if keep]
