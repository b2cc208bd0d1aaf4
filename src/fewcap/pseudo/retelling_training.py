"""Teaches the retelling model: of two sentences that people wrote about the same video one is given, the other told."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewcap.core.errors import FewcapError
from fewcap.data import msrvtt
from fewcap.data.annotations import Annotations, Problems
from fewcap.data.tables import kind_of, read_json_lines
from fewcap.pseudo.codec import count_words
from fewcap.pseudo.fit import Schedule, fit
from fewcap.pseudo.retelling import BOS, EOS, PAD, Given, Retelling, Sizes
from fewcap.text.embed import SentenceEncoder
from fewcap.text.tagger import load_tagger
from fewcap.text.tokenise import words

log = logging.getLogger("fewcap.pseudo")

HELD_OUT_MODULUS = 60  # a video whose sentences' hash is 0 modulo this measures, and never trains
SHORTEST, LONGEST = 3, 14  # words of a sentence
_BATCHES_SORTED = 16  # drawn together and sorted by length: little padding
_STRANGERS = 0.25  # weight of a pair that shares no noun or verb; each that is shared adds 1
_MOST_COUNTED = 10  # sentences of a video beyond these do not make it more frequent


@dataclass(frozen=True)
class Training:
    """How the model is taught."""

    steps: int = 7000
    pairs: int = 96  # a step
    rate: float = 1e-3
    vocabulary: int = 4600
    seen: int = 5  # a word enters the vocabulary when it occurs this often
    sizes: Sizes = field(default_factory=Sizes)


@dataclass(frozen=True)
class Group:
    """What several people wrote about one video."""

    sentences: tuple[tuple[str, ...], ...]
    content: tuple[frozenset[str], ...]  # nouns and verbs of each

    @property
    def held_out(self) -> bool:
        text = "\n".join(" ".join(sentence) for sentence in self.sentences)
        return int(hashlib.sha256(text.encode()).hexdigest(), 16) % HELD_OUT_MODULUS == 0


def read_groups(path: Path) -> list[Group]:
    """MSR-VTT's JSON, or JSON lines with a list of ``captions`` each (MSVD, VATEX, Flickr8k)."""
    annotations = Annotations(Problems())
    if kind_of(path) == ".json":
        msrvtt.read(annotations, [path])
    else:
        for row in read_json_lines(path, annotations.problems):
            captions = row.cells.get("captions")
            if not isinstance(captions, list):
                found = ", ".join(sorted(row.cells)) or "nothing"
                raise FewcapError(f"{row.where}: needs 'captions', a list of sentences; found {found}.")
            annotations.add(row.where, [str(caption) for caption in captions], where=row.where)
    tagger = load_tagger()
    groups = []
    for video in annotations.videos.values():
        told = dict.fromkeys(tuple(words(caption)) for caption in video.captions)
        sentences = tuple(sentence for sentence in told if SHORTEST <= len(sentence) <= LONGEST)
        if len(sentences) > 1:
            content = (
                frozenset(word for word, counts in zip(s, tagger.content(s), strict=True) if counts) for s in sentences
            )
            groups.append(Group(sentences, tuple(content)))
    return groups


class Pairs:
    """Draws what a step learns from; a step always learns from the same pairs."""

    def __init__(self, corpora: Sequence[tuple[Sequence[Group], float]], each: int, seed: int) -> None:
        """``corpora``: videos of each corpus, and how much more often than by their number they are drawn."""
        self.groups = [group for groups, _ in corpora for group in groups]
        chances = [share * min(len(g.sentences), _MOST_COUNTED) for groups, share in corpora for g in groups]
        self._chances = np.cumsum(chances) / np.sum(chances)
        self.each, self.seed = each, seed
        self._sorted: tuple[int, list[list[tuple[Sequence[str], Sequence[str]]]]] = (-1, [])

    def of_step(self, step: int) -> list[tuple[Sequence[str], Sequence[str]]]:
        number, place = divmod(step, _BATCHES_SORTED)
        if self._sorted[0] != number:
            random = np.random.default_rng([self.seed, number])
            drawn = sorted(
                (self._pair(random) for _ in range(self.each * _BATCHES_SORTED)),
                key=lambda pair: (len(pair[1]), len(pair[0])),
            )
            parts = [drawn[i : i + self.each] for i in range(0, len(drawn), self.each)]
            self._sorted = number, [parts[i] for i in random.permutation(len(parts)).tolist()]
        return self._sorted[1][place]

    def _pair(self, random: np.random.Generator) -> tuple[Sequence[str], Sequence[str]]:
        group = self.groups[int(np.searchsorted(self._chances, random.random()))]
        given = int(random.integers(len(group.sentences)))
        shared = np.array([_STRANGERS + len(group.content[given] & other) for other in group.content])
        shared[given] = 0
        told = int(random.choice(len(shared), p=shared / shared.sum()))
        return group.sentences[given], group.sentences[told]


def as_numbers(model: Retelling, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> tuple[Given, Tensor, Tensor]:
    """Given sentences, and told ones [M, T] from BOS on and up to EOS."""
    given = model.given([source for source, _ in pairs])
    longest = max(len(told) for _, told in pairs) + 1
    inputs, targets = torch.full((len(pairs), longest), PAD), torch.full((len(pairs), longest), PAD)
    for row, ((_, told), extra) in enumerate(zip(pairs, given.extra, strict=True)):
        numbers = [model.number(word, extra) for word in told]
        inputs[row, : len(told) + 1] = torch.tensor([BOS, *numbers])
        targets[row, : len(told) + 1] = torch.tensor([*numbers, EOS])
    return given, inputs, targets


def loss_of(model: Retelling, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> tuple[Tensor, int]:
    """Sum over all told words of −log p(word), and their number."""
    given, inputs, targets = as_numbers(model, pairs)
    real = targets != PAD
    return -model.log_probability(inputs, targets, given)[real].sum(), int(real.sum())


def train_retelling(
    corpora: Mapping[Path, float], out: Path, training: Training, *, encoder: SentenceEncoder, seed: int = 0
) -> Retelling:
    """Writes a folder for ``label.retell.model``; a stopped run goes on from ``OUT/scratch``."""
    read = {path: read_groups(path) for path in corpora}
    learnt = [([g for g in groups if not g.held_out], corpora[path]) for path, groups in read.items()]
    held_out = [group for groups in read.values() for group in groups if group.held_out]
    sentences = [sentence for groups, _ in learnt for group in groups for sentence in group.sentences]
    if not sentences or not held_out:
        names = ", ".join(map(str, corpora))
        raise FewcapError(f"{names}: too few videos with several captions to learn from; give larger files.")
    vocabulary = count_words(sentences, training.seen, training.vocabulary)
    log.info("%d videos, %d held out, %d words", sum(len(g) for g, _ in learnt), len(held_out), len(vocabulary))
    torch.manual_seed(seed)
    model = Retelling(vocabulary, training.sizes)
    _begin_with_meanings(model, encoder)
    pairs = Pairs(learnt, training.pairs, seed)
    measured = Pairs([(held_out, 1.0)], training.pairs, seed=0)

    def mean_loss(source: Pairs, steps: range) -> Tensor:
        parts = [loss_of(model, source.of_step(step)) for step in steps]
        return torch.stack([total for total, _ in parts]).sum() / sum(count for _, count in parts)

    schedule = Schedule(training.steps, training.rate, warmup=min(300, training.steps // 10 + 1), check_every=500)
    fitted = fit(
        model,
        lambda step: mean_loss(pairs, range(step, step + 1)),
        lambda: float(mean_loss(measured, range(8))),
        schedule,
        out / "scratch",
        "training the retelling model",
    )
    model.save(out)
    card: dict[str, Any] = {
        "corpora": {path.name: share for path, share in corpora.items()},
        "videos": sum(len(groups) for groups, _ in learnt),
        "sentences": len(sentences),
        "training": asdict(training),
        "steps": fitted.steps,
        "held_out_perplexity": round(math.exp(fitted.loss), 2),
    }
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return model


def _begin_with_meanings(model: Retelling, encoder: SentenceEncoder) -> None:
    """Words begin where the sentence encoder puts them, so that "puppy" and "dog" are neighbours from the start."""
    width = model.sizes.width
    vectors = encoder.encode(model.vocabulary)
    vectors = vectors - vectors.mean(0)
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    reduced = np.zeros((len(vectors), width), dtype=np.float32)
    kept = (vectors @ directions[:width].T)[:, :width]
    reduced[:, : kept.shape[1]] = kept / max(float(kept.std()), 1e-9) * width**-0.5
    with torch.no_grad():
        model.words.weight.copy_(torch.from_numpy(reduced))
        model.words.weight[PAD] = 0
