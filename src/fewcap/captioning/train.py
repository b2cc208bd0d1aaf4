"""The training stage: from features and sentences to a model folder."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewcap.captioning import warmup
from fewcap.captioning.assemble import Assembled, assemble
from fewcap.captioning.captioner import Captioner
from fewcap.captioning.choice import Ballot, Choice, learn
from fewcap.captioning.commonness import SAMPLE, common_captions
from fewcap.captioning.confidence import find_limits
from fewcap.captioning.folder import METRICS, TrainedCaptioner
from fewcap.captioning.loop import Row, Trainer
from fewcap.captioning.model import CaptionModel, Dims
from fewcap.captioning.ranks import Ranks, joined
from fewcap.captioning.selfcritical import SelfCriticalTrainer
from fewcap.captioning.start import Start, find_start, going_on, mixed
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.config.train import TrainConfig
from fewcap.core.devices import pick_device, torch_threads
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest, Stage, Workspace, run_stage, sha256_file
from fewcap.core.types import CaptionMetric, CaptionReward, VideoFeatures, VideoItem
from fewcap.data.prepare import read_dataset
from fewcap.features.select import select_evenly
from fewcap.features.store import FeatureStore
from fewcap.pseudo.videotext import TwoTower
from fewcap.text.embed import RememberingEncoder, SentenceEncoder

log = logging.getLogger("fewcap.train")

MOST_VECTORS = 12_000  # for principal components
MEMBERS_APART = 1000  # between the seeds of members, so that runs of seeds 0, 1, 2 share none


def train(
    data: Path,
    features: Path,
    pseudo: Path | None,
    out: Path,
    config: TrainConfig,
    *,
    seed: int,
    metric: CaptionMetric,
) -> Manifest:
    """Trains a captioner; ``pseudo`` is the folder of invented sentences, None trains without them.

    Under ``torchrun --nproc-per-node N`` the processes share the work of each step; the first writes the folder.
    """
    inputs = {"data": Manifest.read(data).digest, "features": Manifest.read(features).digest}
    if pseudo is not None:
        inputs["pseudo"] = Manifest.read(pseudo).digest
    inputs |= {f"corpus {path.name}": sha256_file(path) for path in config.warmup.corpus if path.is_file()}
    found = FeatureStore(features)
    kinds = {str(kind): info for kind, info in found.kinds.items()}
    start = find_start(config, kinds, features, data_source=read_dataset(data).source)
    if start is not None:
        inputs["start"] = start.digest
    stage = Stage(out, "model", inputs=inputs, config={**config.model_dump(mode="json"), "seed": seed})
    with joined() as ranks, torch_threads(config.threads), torch.random.fork_rng():
        run = _Run(data, features, pseudo, start, config, seed, metric, ranks)
        if not ranks.first:
            if ranks.share(None):
                run.build(None)
        else:
            manifest = run_stage(stage, lambda workspace: run.build(workspace))
            if not run.started:
                ranks.share(False)
        ranks.share(None)  # the first process has written the manifest
        return manifest if ranks.first else Manifest.read(out)


@dataclass(frozen=True)
class _Shared:
    """What all models of a training are made from."""

    store: FeatureStore
    looks: Mapping[str, Sequence[VideoFeatures]]  # of the training videos
    invented: Mapping[str, Sequence[str]]
    encoder: SentenceEncoder
    warmth: warmup.Warmth | None
    device: torch.device
    workspace: Workspace | None

    @cached_property
    def dims(self) -> dict[str, int]:
        return {str(kind): info.dim for kind, info in self.store.kinds.items()}

    def references(self, items: Sequence[VideoItem]) -> dict[str, tuple[str, ...]]:
        """Given and invented sentences, to judge captions by."""
        return {item.id: (*item.captions, *self.invented.get(item.id, ())) for item in items}

    def videotext(self, assembled: Assembled) -> TwoTower:
        return TwoTower(assembled.tower, self.dims, self.encoder)


class _Run:
    """One training on one process."""

    def __init__(
        self,
        data: Path,
        features: Path,
        pseudo: Path | None,
        start: Start | None,
        config: TrainConfig,
        seed: int,
        metric: CaptionMetric,
        ranks: Ranks,
    ) -> None:
        self.data, self.features, self.pseudo = data, features, pseudo
        self.before = start.captioner() if start is not None else None
        self.config = config if self.before is None else going_on(config, self.before)
        self.seed, self.metric, self.ranks = seed, metric, ranks
        self.started = False

    def build(self, workspace: Workspace | None) -> dict[str, Any]:
        """Trains, and writes the model folder where there is a workspace."""
        self.started = True
        if self.ranks.first:
            self.ranks.share(True)
        config = self.config
        store = FeatureStore(self.features)
        if self.before is not None:
            store = store.only(self.before.kinds)
        items = read_dataset(self.data).items
        training = [item for item in items if item.split == "train" and item.id in store]
        validation = [item for item in items if item.split == "val" and item.id in store and item.captions]
        if not store.kinds:
            raise FewcapError(f"{self.features}: holds no kind of features; extract at least appearance.")
        encoder = SentenceEncoder.load(config.videotext.encoder)
        device = pick_device(config.device)
        looks = {item.id: store.looks(item.id) for item in training}
        warmth = self._warmth(training, encoder, device, workspace)
        if config.choice_folds:  # each fold has most sentences of the whole
            encoder = RememberingEncoder(encoder)
        shared = _Shared(store, looks, self._pseudo_sentences(), encoder, warmth, device, workspace)
        assembled = self._assembled(training, shared)

        def as_captioner(models: Sequence[CaptionModel], decoding: CaptionConfig) -> Captioner:
            trained = self._trained(models, assembled, shared)
            return Captioner(trained, config=decoding, videotext=shared.videotext(assembled), device=device)

        validate = _validator(validation, store, self.metric, as_captioner) if validation else None
        reward = self._reward(training, shared)
        models, history = [], []
        for number in range(config.members):
            trainer = self._trainer(assembled, shared, config, member=number)
            history += self._fit(trainer, validate, reward)
            models.append(trainer.model.eval())
        choice = self._learn_choice(training, shared) if config.choice_folds else None
        counts = _counts(assembled, validation, history, models)
        if workspace is not None:
            if validate is not None and (len(models) > 1 or self.before is not None):  # not the models of any epoch
                counts["best_score"] = validate(models)
                log.info("as finished, %d together: CIDEr-D %.1f on validation", len(models), counts["best_score"])
            finished = self._trained(models, assembled, shared)
            finished = replace(finished, choice=choice or finished.choice)
            if config.rarity and self.before is None:
                finished = replace(finished, common=self._common(training, finished, assembled, shared))
            speaking = Captioner(finished, videotext=shared.videotext(assembled), device=device)
            limits = find_limits(speaking, [store[item.id] for item in validation])
            replace(finished, models=[model.cpu() for model in models], limits=limits).save(workspace)
            workspace.write_jsonl(METRICS, history)
        return counts

    def _common(
        self, training: Sequence[VideoItem], trained: TrainedCaptioner, assembled: Assembled, shared: _Shared
    ) -> dict[str, float]:
        """What the captioner has ready for any video, by what it would say of some training videos."""
        asked = CaptionConfig(rarity=0.0)
        captioner = Captioner(trained, config=asked, videotext=shared.videotext(assembled), device=shared.device)
        told = [item for item in training if not item.further]
        chosen = np.random.default_rng(self.seed).permutation(len(told))[:SAMPLE]
        return common_captions(captioner.ballots([shared.store[told[i].id] for i in np.sort(chosen)]))

    def _assembled(self, items: Sequence[VideoItem], shared: _Shared) -> Assembled:
        return assemble(
            items,
            shared.looks,
            shared.invented,
            shared.dims,
            self.config,
            known_words=shared.warmth.counts if shared.warmth is not None else {},
            encoder=shared.encoder,
            seed=self.seed,
            metric=self.metric,
            before=self.before,
        )

    def _trained(self, models: Sequence[CaptionModel], assembled: Assembled, shared: _Shared) -> TrainedCaptioner:
        """A captioner of these models, that knows what the one it started from has learnt about choosing."""
        kinds = {str(kind): info for kind, info in shared.store.kinds.items()}
        return TrainedCaptioner(
            models,
            self.config,
            assembled.vocabulary,
            assembled.bank,
            assembled.tower,
            kinds,
            Manifest.read(self.features).config,
            choice=self.before.choice if self.before is not None else None,
            common=self.before.common if self.before is not None else {},
        )

    def _reward(self, items: Sequence[VideoItem], shared: _Shared) -> CaptionReward | None:
        settings = self.config.selfcritical
        if not settings.epochs:
            return None
        return self.metric.reward(shared.references(items), settings.reward)

    def _trainer(
        self, assembled: Assembled, shared: _Shared, config: TrainConfig, *, member: int, part: str = ""
    ) -> Trainer:
        """An untrained model with all that trains it; ``part`` as for ``Trainer``."""
        seed = self.seed + MEMBERS_APART * member
        torch.manual_seed(seed)
        model = self._untrained(0 if part else member, assembled, shared)
        return Trainer(
            model,
            assembled.data.drawn(config, seed),
            config,
            seed=seed,
            device=shared.device,
            ranks=self.ranks,
            workspace=shared.workspace,
            member=member,
            part=part,
        )

    def _learn_choice(self, training: Sequence[VideoItem], shared: _Shared) -> Choice | None:
        """Models that have not seen a part of the videos caption it; how their captions do is what is learnt from."""
        told = [item for item in training if item.captions and not item.further]
        folds = min(self.config.choice_folds, len(told))
        if folds < 2:
            log.info("one video with captions teaches nothing about choosing")
            return None
        config = self.config.model_copy(update={"members": folds})  # as the bars count them
        fold_of = np.random.default_rng(self.seed).permutation(len(told)) % folds
        ids: list[str] = []
        ballots: list[Ballot] = []
        for fold in range(folds):
            held = [item for item, own in zip(told, fold_of, strict=True) if own == fold]
            names = {item.id for item in held}
            others = [item for item in training if item.id not in names]
            assembled = self._assembled(others, shared)
            trainer = self._trainer(assembled, shared, config, member=fold, part="fold")
            self._fit(trainer, None, self._reward(others, shared))
            if shared.workspace is not None:
                trained = self._trained([trainer.model.eval()], assembled, shared)
                captioner = Captioner(trained, videotext=shared.videotext(assembled), device=shared.device)
                ballots += captioner.ballots([shared.store[item.id] for item in held])
                ids += [item.id for item in held]
        if shared.workspace is None:  # the first process has it
            return None
        worth = self.metric.worth(shared.references(told))
        said = [(video, " ".join(words)) for video, own in zip(ids, ballots, strict=True) for words in own.captions]
        values = worth([video for video, _ in said], [text for _, text in said])
        ends = np.cumsum([len(ballot.captions) for ballot in ballots])
        return learn(ballots, np.split(values, ends[:-1]))

    def _untrained(self, number: int, assembled: Assembled, shared: _Shared) -> CaptionModel:
        """A member before training: random, or with what an earlier captioner or a text warm-up has learnt."""
        config, vocabulary, warmth = self.config, assembled.vocabulary, shared.warmth
        sizes = Dims(assembled.data.dims, len(vocabulary), shared.encoder.dim, config.keywords.count)
        model = CaptionModel(config.model, sizes)
        if self.before is not None:
            known = self.before.vocabulary.words
            warmup.apply(warmup.Warmth(known, {}, self.before.models[number].state_dict()), model, vocabulary)
            if number == 0:
                new = sizes.vocabulary - len(known)
                log.info("going on from a captioner of %d words; %d are new", len(known), new)
        else:
            _fit_reductions(model, [shared.looks[video.id][0] for video in assembled.data.videos])
        if warmth is not None:
            taken = warmup.apply(warmth, model, vocabulary)
            log.info("text warm-up: %d tensors taken over", taken)
        return model

    def _fit(
        self,
        trainer: Trainer,
        validate: Callable[[Sequence[CaptionModel]], float] | None,
        reward: CaptionReward | None,
    ) -> list[Row]:
        """Trains a member; its model then has the weights that did best on validation."""
        check = None if validate is None else lambda model: validate([model])
        report = _reporter(self.config, trainer)
        start, start_score = {name: weight.clone() for name, weight in trainer.best.items()}, -math.inf
        if self.before is not None and check is not None:
            start_score = self.ranks.share(check(trainer.model) if self.ranks.first else None)
            log.info("the captioner to start from has CIDEr-D %.1f on validation", start_score)
        trainer.fit(check, report)
        history = trainer.history
        if self.before is not None:
            share, known = self.config.start_share, len(self.before.vocabulary)
            trainer.best = mixed(trainer.best, start, share, words=known)
        if _best_score(history) < start_score:  # the few sentences taught it nothing that shows
            log.info("no epoch is better than the captioner that training started from: its weights stay")
            trainer.best = start
        best = trainer.best
        if reward is not None:
            second = SelfCriticalTrainer(trainer, reward)
            second.fit(check, report)
            if _best_score(second.history) >= max(_best_score(history), start_score):
                best = second.best
            history = [*history, *second.history]
        trainer.model.load_state_dict(best)
        return history

    def _pseudo_sentences(self) -> Mapping[str, Sequence[str]]:
        if self.pseudo is None:
            return {}
        from fewcap.pseudo.label import read_pseudo

        return {video: [s.text for s in sentences] for video, sentences in read_pseudo(self.pseudo).items()}

    def _warmth(
        self,
        training: Sequence[VideoItem],
        encoder: SentenceEncoder,
        device: torch.device,
        workspace: Workspace | None,
    ) -> warmup.Warmth | None:
        """The text warm-up's weights, learnt by the first process and kept for a resumed run."""
        settings = self.config.warmup
        if settings.source == "none":
            return None
        warmth = None
        if workspace is not None:
            place = workspace.path("scratch/warmup.safetensors")
            if place.exists():
                warmth = warmup.read(place)
            else:
                given = [caption for item in training for caption in item.captions]
                warmth = warmup.learn(self.config, given, encoder, seed=self.seed, device=device)
                workspace.write_bytes("scratch/warmup.safetensors", warmup.packed(warmth))
        shared: warmup.Warmth = self.ranks.share(warmth)
        return shared


def _fit_reductions(model: CaptionModel, videos: Sequence[VideoFeatures]) -> None:
    """Principal components of at most some ten thousand vectors, taken evenly from the training videos."""
    for kind, reduction in model.video_encoder.reductions.items():
        found = [x for video in videos if (x := getattr(video, kind)) is not None and len(x)]
        each = max(1, MOST_VECTORS // max(len(found), 1))
        reduction.fit(torch.cat([select_evenly(x, each).float() for x in found]))  # type: ignore[operator]


def _validator(
    items: Sequence[VideoItem],
    store: FeatureStore,
    metric: CaptionMetric,
    as_captioner: Callable[[Sequence[CaptionModel], CaptionConfig], Captioner],
) -> Callable[[Sequence[CaptionModel]], float]:
    references = {item.id: item.captions for item in items}
    features: list[VideoFeatures] = [store[item.id] for item in items]

    def validate(models: Sequence[CaptionModel]) -> float:
        captions = as_captioner(models, CaptionConfig(consensus=0)).caption(features)
        return metric({item.id: c.text for item, c in zip(items, captions, strict=True)}, references)

    return validate


def _reporter(config: TrainConfig, trainer: Trainer) -> Callable[[Row], None]:
    """Writes tensorboard's event files when a folder is named for them; each of several members has its own."""
    if config.tensorboard is None or trainer.part:
        return lambda row: None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise FewcapError("train.tensorboard needs the package tensorboard: pip install tensorboard.") from None
    folder = config.tensorboard / f"member-{trainer.member + 1}" if config.members > 1 else config.tensorboard
    writer = SummaryWriter(str(folder))

    def report(row: Row) -> None:
        for name, value in row.items():
            if name not in ("member", "epoch") and value is not None:
                writer.add_scalar(name, value, row["epoch"])
        writer.flush()

    return report


def _best_score(history: Sequence[Row]) -> float:
    return max((row["smoothed"] for row in history if row["smoothed"] is not None), default=-math.inf)


def _counts(
    assembled: Assembled, validation: Sequence[VideoItem], history: Sequence[Row], models: Sequence[CaptionModel]
) -> dict[str, Any]:
    """Of all members, but for the number of epochs and the best of them, which are those of the first."""
    history = [row for row in history if row["member"] == 1]
    smoothed = [row["smoothed"] for row in history]
    scored = [value for value in smoothed if value is not None]
    best = smoothed.index(max(scored)) + 1 if scored else len(history)
    return {
        "videos": len(assembled.data.videos),
        "validation_videos": len(validation),
        "sentences": sum(len(video.truth) for video in assembled.data.videos),
        "pseudo_sentences": sum(len(video.pseudo) for video in assembled.data.videos),
        "words": len(assembled.vocabulary),
        "members": len(models),
        "parameters": sum(p.numel() for model in models for p in model.parameters()),
        "epochs": len(history),
        "best_epoch": best,
        "best_score": max(scored) if scored else history[-1]["score"],
    }
