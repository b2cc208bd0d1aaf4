"""The training loop: optimiser steps, averaged weights, checks on validation, exact checkpoints."""

from __future__ import annotations

import copy
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from fewcap.captioning.losses import sentence_loss, word_loss
from fewcap.captioning.model import CaptionModel
from fewcap.captioning.ranks import Ranks
from fewcap.captioning.trainset import Batch, TrainingSet
from fewcap.core.config.train import TrainConfig
from fewcap.core.devices import has_fast_bfloat16
from fewcap.core.progress import progress
from fewcap.core.store import Workspace
from fewcap.text.vocabulary import PAD

log = logging.getLogger("fewcap.train")

CHECKPOINT_SECONDS = 20.0  # at most this much work is lost, and little time goes into writing

Row = dict[str, float | int | None]


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 where asked for, or where the hardware computes in it."""
    if precision == "auto":
        precision = "bfloat16" if has_fast_bfloat16(device) else "float32"
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Matrices decay; biases and norms do not."""
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return kind(groups, lr=config.learning_rate, betas=(0.9, 0.98), fused=True)


def learning_rate(step: int, steps: int, config: TrainConfig) -> float:
    """Linear warm-up, of a tenth of all steps at most, then a cosine to zero."""
    rising = min(config.warmup_steps, steps // 10)
    if step < rising:
        return config.learning_rate * (step + 1) / rising
    done = (step - rising) / max(steps - rising, 1)
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


class Trainer:
    """A model under training; ``best`` holds the averaged weights of the best epoch so far."""

    what, kept = "train", "checkpoint"

    def __init__(
        self,
        model: CaptionModel,
        data: TrainingSet,
        config: TrainConfig,
        *,
        seed: int,
        device: torch.device,
        ranks: Ranks | None = None,
        workspace: Workspace | None = None,
        member: int = 0,
        epochs_before: int = 0,
        part: str = "",
    ) -> None:
        """``part`` names what is trained beside the members themselves."""
        self.model, self.data, self.config, self.device = model.to(device), data, config, device
        self.seed, self.member, self.epochs_before = seed, member, epochs_before
        self.part = part
        kept = f"{part}-{self.kept}" if part else self.kept
        self.checkpoint = f"scratch/{kept}{f'-{member + 1}' if member else ''}.safetensors"
        self.ranks, self.workspace = ranks or Ranks(), workspace
        self.averaged = copy.deepcopy(self.model).eval()
        self.best = self.averaged.state_dict()
        self.optimizer = make_optimizer(self.model, config)
        self.history: list[Row] = []
        self.step = 0
        self._saved = time.monotonic()

    def fit(
        self,
        validate: Callable[[CaptionModel], float] | None,
        report: Callable[[Row], None] = lambda row: None,
    ) -> None:
        """Trains from where the checkpoint stands until the epochs or the patience run out."""
        self._resume()
        what = f"{self.what} {self.part}" if self.part else self.what
        of_members = f" {self.member + 1}/{self.config.members}" if self.config.members > 1 else ""
        with progress(what + of_members, self.config.epochs, "epochs") as bar:
            bar.advance(len(self.history))
            while len(self.history) < self.config.epochs and not self._stalled():
                row = self._epoch(len(self.history))
                if validate is not None and row["epoch"] >= self.config.validate_from:  # type: ignore[operator]
                    row["score"] = self.ranks.share(validate(self.averaged) if self.ranks.first else None)
                self.history.append(row)
                self._keep_best(row)
                if self.ranks.first:
                    report(row)
                score = row["score"]
                bar.advance(1, note=f"loss {row['loss']:.3f}" + ("" if score is None else f", CIDEr-D {score:.1f}"))
                self._save()
        self._save(now=True)

    def _epoch(self, epoch: int) -> Row:
        # Seeded anew in every epoch: a resumed run draws the same random numbers, on each process its own.
        torch.manual_seed(hash((self.seed, epoch, self.ranks.rank)) % 2**63)
        self.model.train()
        sums = torch.zeros(4, device=self.device)
        rate = 0.0
        for batches in self.data.epoch(epoch, part=self.ranks.rank, parts=self.ranks.count):
            rate = learning_rate(self.step, self.data.steps, self.config)
            sums += self._step(batches, rate)
        return {
            "member": self.member + 1,
            "epoch": self.epochs_before + epoch + 1,
            **self._losses(sums),
            "learning_rate": rate,
            "own_keywords": self.data.own_share(epoch),
            "score": None,
            "smoothed": None,
        }

    def _losses(self, sums: Tensor) -> Row:
        """Of an epoch, from what its calls of ``_backward`` returned."""
        sentence, word = (float(sums[i] / sums[i + 1].clamp(min=1e-9)) for i in (0, 2))
        return {
            "loss": sentence + self.config.word_loss_weight * word,
            "sentence_loss": sentence,
            "word_loss": word if float(sums[3]) else None,
            "reward": None,
        }

    def _step(self, batches: list[Batch], rate: float) -> Tensor:
        totals = torch.zeros(2)  # weights of the sentences and of the word loss, over all parts and processes
        for batch in batches:
            totals += torch.stack([batch.weights.sum(), batch.word_weights.sum()])
        totals = totals.to(self.device)
        self.ranks.sum([totals])
        sums = torch.zeros(4, device=self.device)
        for batch in batches:
            sums += self._backward(batch, totals)
        for parameter in self.model.parameters():
            if parameter.grad is None:  # a process without videos in this step still has a part in the sum
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        self.ranks.sum([*gradients, sums])
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        decay = min(self.config.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averaged.parameters()), list(self.model.parameters()), 1 - decay)
        return sums

    def _backward(self, batch: Batch, totals: Tensor) -> Tensor:
        """Adds the gradient of one part; dividing by the whole step's weights makes the parts add up.

        Returns the sums of sentence loss, its weight, word loss and its weight.
        """
        config, device = self.config, self.device
        weights, word_weights = batch.weights.to(device), batch.word_weights.to(device)
        targets = batch.targets.to(device)
        if config.model.decoder == "parallel":
            targets = nn.functional.pad(targets, (0, max(0, config.model.max_words - targets.shape[1])))
            targets = targets[:, : config.model.max_words]
        with autocast(config.precision, device):
            output = self.model(
                batch.video.to(device),
                batch.keywords.to(device),
                batch.inputs.to(device),
                targets != PAD,
                batch.own_keywords.to(device) if float(totals[1]) else None,
            )
        sentence = sentence_loss(output.logits, targets, weights, smoothing=config.label_smoothing)
        loss = sentence / totals[0]
        word = torch.zeros((), device=device)
        if output.keyword_vector is not None:
            word = word_loss(output.keyword_vector, batch.keyword_targets.to(device), word_weights)
            loss = loss + config.word_loss_weight * word / totals[1]
        loss.backward()
        return torch.stack([sentence.detach(), weights.sum(), word.detach(), word_weights.sum()])

    def _keep_best(self, row: Row) -> None:
        """Smooths the score over the last checks: a single one swings too much to choose or to stop by.

        Until there are as many checks as it takes, the newest weights are the best.
        """
        scores = [r["score"] for r in self.history if r["score"] is not None]
        if row["score"] is None and scores:
            return
        if len(scores) >= self.config.smooth:
            recent = scores[-self.config.smooth :]
            row["smoothed"] = smoothed = sum(recent) / len(recent)
            earlier = [r["smoothed"] for r in self.history[:-1] if r["smoothed"] is not None]
            if max(earlier, default=-math.inf) >= smoothed:
                return
        self.best = {name: weight.detach().clone() for name, weight in self.averaged.state_dict().items()}

    def _stalled(self) -> bool:
        """Patience begins with the first score above zero: before, the model does not yet speak."""
        smoothed = [row["smoothed"] for row in self.history if row["smoothed"] is not None]
        if max(smoothed, default=0.0) <= 0:
            return False
        return len(smoothed) - 1 - smoothed.index(max(smoothed)) >= self.config.patience

    # A checkpoint is one file, written atomically: weights, averages, optimiser and the rows so far. Data order and
    # random numbers follow from seed and epoch.

    def _save(self, *, now: bool = False) -> None:
        if self.workspace is None or not self.ranks.first:
            return
        if not now and time.monotonic() - self._saved < CHECKPOINT_SECONDS:
            return
        tensors: dict[str, Tensor] = {}
        for part, weights in (("model", self.model.state_dict()), ("averaged", self.averaged.state_dict())):
            tensors |= {f"{part}/{name}": weight for name, weight in weights.items()}
        tensors |= {f"best/{name}": weight for name, weight in self.best.items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{number}/{name}": value for name, value in state.items()}
        facts = {"history": self.history, "step": self.step}
        self.workspace.write_tensors(self.checkpoint, _owned(tensors), {"facts": json.dumps(facts)})
        self._saved = time.monotonic()

    def _resume(self) -> None:
        held = None
        if self.workspace is not None and self.ranks.first and self.workspace.exists(self.checkpoint):
            with safe_open(self.workspace.path(self.checkpoint), framework="pt") as file:
                held = ({name: file.get_tensor(name) for name in file.keys()}, file.metadata())  # noqa: SIM118
        held = self.ranks.share(held)
        if held is None:
            return
        tensors, metadata = held
        facts = json.loads(metadata["facts"])
        self.history, self.step = facts["history"], facts["step"]
        self.model.load_state_dict(_part(tensors, "model"))
        self.averaged.load_state_dict(_part(tensors, "averaged"))
        self.best = {name: weight.to(self.device) for name, weight in _part(tensors, "best").items()}
        states: dict[int, dict[str, Tensor]] = {}
        for name, value in _part(tensors, "optimizer").items():
            number, key = name.split("/")
            states.setdefault(int(number), {})[key] = value
        content = self.optimizer.state_dict()
        self.optimizer.load_state_dict({"state": states, "param_groups": content["param_groups"]})
        log.info("going on after epoch %d of %d", len(self.history), self.config.epochs)


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    return {name.removeprefix(part + "/"): value for name, value in tensors.items() if name.startswith(part + "/")}


def _owned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Safetensors refuses tensors that share memory: tied weights are written twice."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
