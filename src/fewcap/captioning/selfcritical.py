"""Training by reward (beyond the paper): captions that the model finds itself are judged by CIDEr-D.

Self-critical sequence training: the log-probability of a caption is raised by how much its reward exceeds that
of the video's other samples. It follows the training by sentence loss, which it can not replace: a model that knows
nothing samples nothing worth a reward.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fewcap.captioning.batches import sentence_batch
from fewcap.captioning.decode import beam_search, sample
from fewcap.captioning.generate import CachedDecoder
from fewcap.captioning.loop import Row, Trainer, autocast
from fewcap.captioning.losses import sentence_loss, word_losses
from fewcap.captioning.model import KeywordBatch
from fewcap.captioning.trainset import Batch
from fewcap.core.types import CaptionReward
from fewcap.text.vocabulary import PAD


class SelfCriticalTrainer(Trainer):
    """Keywords are retrieved, as they will be for new videos."""

    what, kept = "train by reward", "selfcritical"

    def __init__(self, before: Trainer, reward: CaptionReward) -> None:
        """Goes on from the best weights of a finished trainer, with its data, processes and folder."""
        settings, keywords = before.config.selfcritical, before.config.keywords
        config = before.config.model_copy(
            update={
                "epochs": settings.epochs,
                "batch": settings.batch,
                "learning_rate": settings.learning_rate,
                "sentences_per_video": 1,
                "pseudo_per_video": 0,
                "further_until": 0.0,
                "word_loss": "off",
                "keywords": keywords.model_copy(update={"source": "retrieved"}),
            }
        )
        before.model.load_state_dict(before.best)
        super().__init__(
            before.model,
            before.data.drawn(config, before.seed),
            config,
            seed=before.seed,
            device=before.device,
            ranks=before.ranks,
            workspace=before.workspace,
            member=before.member,
            epochs_before=len(before.history),
            part=before.part,
        )
        self.reward, self.samples, self.sentence_weight = reward, settings.samples, settings.sentence_weight
        self.draw, self.temperature = settings.draw, settings.temperature if settings.draw == "sample" else 1.0

    def _losses(self, sums: Tensor) -> Row:
        sentence, reward = (float(sums[i] / sums[i + 1].clamp(min=1e-9)) for i in (0, 2))
        return {"loss": sentence, "sentence_loss": sentence, "word_loss": None, "reward": reward}

    def _backward(self, batch: Batch, totals: Tensor) -> Tensor:
        """Returns the sums of sentence loss, its weight, reward and number of samples."""
        device = self.device
        video, keywords = batch.video.to(device), batch.keywords.to(device)
        said = self._sample(batch, keywords)  # S sentences of each video
        rewards = self._rewards(batch.ids, said)  # [B, S]
        rows = self.samples + 1
        inputs, targets = (x.to(device) for x in self._with_truth(batch, said))  # [B · (S + 1), T]
        with autocast(self.config.precision, device):
            logits = self.model(video, keywords, inputs, targets != PAD).logits  # [n, V]
        truth = torch.zeros_like(targets, dtype=torch.bool)
        truth[::rows] = True
        of_truth = truth[targets != PAD]  # [n]
        spoken = targets.unflatten(0, (-1, rows))[:, 1:].flatten(0, 1)  # [B · S, T]
        log_probability = -word_losses(logits[~of_truth] / self.temperature, spoken).sum(1)
        # One length for all: with its own, a word of a short caption would weigh more, and captions would shrink.
        words = (spoken != PAD).sum(1).float().mean()
        policy = policy_loss((log_probability / words).view(-1, self.samples), torch.from_numpy(rewards).to(device))
        weights = batch.weights.to(device)
        sentence = sentence_loss(logits[of_truth], targets[::rows], weights, smoothing=self.config.label_smoothing)
        ((policy + self.sentence_weight * sentence) / totals[0]).backward()
        reward, count = float(rewards.sum()), float(rewards.size)
        return torch.stack([sentence.detach(), weights.sum(), sentence.new_tensor(reward), sentence.new_tensor(count)])

    @torch.no_grad()
    def _sample(self, batch: Batch, keywords: KeywordBatch) -> list[list[tuple[int, ...]]]:
        self.model.eval()
        with autocast(self.config.precision, self.device):
            decoder = CachedDecoder(self.model, self.model.remember(batch.video.to(self.device), keywords))
            videos, max_words = len(batch.ids), self.config.model.max_words
            if self.draw == "beam":
                found = beam_search(decoder, videos, beam=self.samples, max_words=max_words, device=self.device)
            else:
                found = sample(
                    decoder,
                    videos,
                    count=self.samples,
                    max_words=max_words,
                    temperature=self.temperature,
                    device=self.device,
                )
        self.model.train()
        # A beam may hold fewer sentences than asked for: its last one stands for those that lack.
        return [[own[min(place, len(own) - 1)].words for place in range(self.samples)] for own in found]

    def _rewards(self, ids: tuple[str, ...], said: list[list[tuple[int, ...]]]) -> np.ndarray:
        videos = [video for video in ids for _ in range(self.samples)]
        captions = [" ".join(self.data.vocabulary.decode(words)) for own in said for words in own]
        return np.asarray(self.reward(videos, captions), dtype=np.float32).reshape(len(ids), self.samples)

    def _with_truth(self, batch: Batch, said: list[list[tuple[int, ...]]]) -> tuple[Tensor, Tensor]:
        """Inputs and targets [B · (S + 1), T]: the ground-truth sentence of each video, then its samples.

        T is the length of the longest sample: a few long true sentences would double the work.
        """
        inputs, targets = sentence_batch([words for own in said for words in own], self.config.model.max_words)
        length = inputs.shape[1]
        joined = []
        for truth, sampled in ((batch.inputs, inputs), (batch.targets, targets)):
            truth = F.pad(truth, (0, max(length - truth.shape[1], 0)), value=PAD)[:, :length]
            joined.append(torch.cat([truth.unsqueeze(1), sampled.unflatten(0, (-1, self.samples))], 1).flatten(0, 1))
        return joined[0], joined[1]


def policy_loss(log_probability: Tensor, reward: Tensor) -> Tensor:
    """Sum over videos of the mean over samples of -(reward - mean reward of the other samples) · log p.

    Both [B, S]; a sum over videos, so that parts of a batch add up.
    """
    samples = reward.shape[1]
    others = (reward.sum(1, keepdim=True) - reward) / (samples - 1)
    return -((reward - others) * log_probability).mean(1).sum()
