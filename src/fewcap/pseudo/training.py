"""Trains the four networks on a caption corpus, and says how good they became."""

from __future__ import annotations

import itertools
import json
import logging
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fewcap.core.config.label import ModelsConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest, Stage, Workspace, run_stage, sha256_file
from fewcap.pseudo.codec import Codec, count_words
from fewcap.pseudo.corpus import Corpus, batches_of_equal_length, read_corpus
from fewcap.pseudo.fit import Fitted, Schedule, fit
from fewcap.pseudo.language import ACTIONS, LanguageModels, is_ours, models_folder, new_network
from fewcap.pseudo.synthetic import Creator
from fewcap.text.tagger import load_tagger

log = logging.getLogger("fewcap.pseudo")

MASKED_SHARE = 0.3
HELD_OUT_SENTENCES = 2000


def train_stage(out: Path, config: ModelsConfig, *, seed: int) -> Manifest:
    """Trains language models into an artefact folder that `label.models` can name; a stopped run goes on."""
    if not config.corpus:
        raise FewcapError("label.training.corpus is empty; name text files with one caption a line.")
    for path in config.corpus:
        if not path.is_file():
            raise FewcapError(f"{path}: there is no such corpus file; name a text file with one caption a line.")
    inputs = {f"corpus {number}: {path.name}": sha256_file(path) for number, path in enumerate(config.corpus)}
    settings = config.model_dump(mode="json", exclude={"corpus"})
    stage = Stage(out, "language-models", inputs=inputs, config={**settings, "seed": seed})

    def build(workspace: Workspace) -> dict[str, Any]:
        train_models(config, workspace.folder, scratch=workspace.path("scratch"), seed=seed)
        return {"card": workspace.read_json("card.json")}

    return run_stage(stage, build)


def train_models(config: ModelsConfig, out: Path, *, scratch: Path, seed: int = 0) -> LanguageModels:
    """Forward, backward, masked, classifier, in this order; each starts from what an earlier one learned."""
    torch.manual_seed(seed)
    corpus = read_corpus(config.corpus, longest=config.longest)
    codec = _codec(config, corpus)
    train = [codec.encode(sentence) for sentence in corpus.train]
    held_out = [codec.encode(sentence) for sentence in corpus.held_out[:HELD_OUT_SENTENCES]]
    log.info("corpus: %d sentences, %d held out, %d tokens", len(train), len(corpus.held_out), len(codec))
    data = Sentences(train, held_out, config.tokens_per_batch, seed)
    card: dict[str, Any] = {"training_sentences": len(train), "held_out_sentences": len(held_out)}
    card |= {"vocabulary": len(codec), "settings": config.model_dump(mode="json", exclude={"corpus"})}
    card["corpus"] = [path.name for path in config.corpus]

    earlier = LanguageModels.load(config.base) if config.base and is_ours(config.base) else None
    forward = earlier.forward if earlier else new_network("forward", config, codec)
    fitted = data.fit(forward, directed_loss, config.forward_epochs, config.rate, scratch / "forward")
    card["forward"] = _perplexity(fitted)
    backward = earlier.backward if earlier else new_network("backward", config, codec, forward)
    fitted = data.fit(backward, reversed_loss, config.backward_epochs, config.rate, scratch / "backward")
    card["backward"] = _perplexity(fitted)
    masked = earlier.masked if earlier else new_network("masked", config, codec, forward)
    fitted = data.fit(masked, masked_loss(codec, seed), config.masked_epochs, config.rate, scratch / "masked")
    card["masked"] = _perplexity(fitted)

    creator = Creator(masked, codec, config.noise, frequencies(train, len(codec)))
    log.info("making synthetic pairs for the action classifier")
    generator = random.Random(seed)
    # Each pass damages the sentences anew; pairs cost a pass of the masked model: no more than will be learned from.
    needed = math.ceil(config.classifier_epochs * len(corpus.train))
    sentences = itertools.islice(itertools.cycle(corpus.train), needed)
    learned = synthetic_pairs(creator, list(sentences), codec, generator)
    measured = synthetic_pairs(creator, corpus.held_out[:HELD_OUT_SENTENCES], codec, generator)
    classifier = earlier.classifier if earlier else new_network("classifier", config, codec, masked)
    pairs = Sentences(learned, measured, 2 * config.tokens_per_batch, seed)
    fitted = pairs.fit(classifier, action_loss, 1.0, config.rate, scratch / "classifier")
    card["classifier"] = {"steps": fitted.steps, **_precision_and_recall(classifier, measured)}

    models = LanguageModels(codec, forward, backward, masked, classifier)
    models.save(out)
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return models


class Sentences:
    """Encoded sentences in seeded batches of equal length."""

    def __init__(self, train: Sequence[list[int]], held_out: Sequence[list[int]], tokens: int, seed: int) -> None:
        self.train = train
        self.held_out = held_out
        self.tokens = tokens
        self.seed = seed
        self._epoch: tuple[int, list[list[int]]] = (-1, [])
        self.steps_per_epoch = len(batches_of_equal_length(train, tokens, seed))

    def batch(self, step: int) -> Tensor:
        """[B, L] ids of one step, the same ones whenever it is asked for."""
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, batches_of_equal_length(self.train, self.tokens, self.seed + epoch))
        return torch.tensor([self.train[i] for i in self._epoch[1][index]])

    def fit(
        self,
        network: nn.Module,
        loss: Callable[[nn.Module, Tensor, int], tuple[Tensor, int]],
        epochs: float,
        rate: float,
        folder: Path,
    ) -> Fitted:
        steps = max(1, round(epochs * self.steps_per_epoch))
        check = min(steps, max(25, self.steps_per_epoch // 3))
        schedule = Schedule(steps, rate, warmup=min(150, steps // 10 + 1), check_every=check)

        def loss_at(step: int) -> Tensor:
            total, count = loss(network, self.batch(step), step)
            return total / count

        def held_out_loss() -> float:
            groups = batches_of_equal_length(self.held_out, self.tokens, seed=0)
            parts = [
                loss(network, torch.tensor([self.held_out[i] for i in group]), -1 - number)
                for number, group in enumerate(groups)
            ]
            return sum(total.item() for total, _ in parts) / sum(count for _, count in parts)

        return fit(network, loss_at, held_out_loss, schedule, folder, f"training the {folder.name} model")


def directed_loss(network: Any, ids: Tensor, step: int) -> tuple[Tensor, int]:
    """Sum over all tokens of −log p(token | tokens before it), and their number."""
    hidden = network.transformer(ids[:, :-1], use_mems=False)[0]  # [B, L-1, d]
    logits = network.lm_loss(hidden).float().flatten(0, 1)
    return F.cross_entropy(logits, ids[:, 1:].flatten(), reduction="sum"), ids[:, 1:].numel()


def reversed_loss(network: Any, ids: Tensor, step: int) -> tuple[Tensor, int]:
    """The same from the last token to the first."""
    return directed_loss(network, ids.flip(1), step)


def masked_loss(codec: Codec, seed: int) -> Callable[[Any, Tensor, int], tuple[Tensor, int]]:
    def loss(network: Any, ids: Tensor, step: int) -> tuple[Tensor, int]:
        generator = torch.Generator().manual_seed((seed * 1_000_003 + step) % 2**63)
        chosen = torch.rand(ids.shape, generator=generator) < MASKED_SHARE  # [B, L]
        chosen[:, 1] |= ~chosen[:, 1:-1].any(1)
        chosen[:, 0] = chosen[:, -1] = False
        hidden = network.transformer(ids.masked_fill(chosen, codec.mask), use_mems=False)[0]
        logits = network.lm_loss(hidden[chosen]).float()
        return F.cross_entropy(logits, ids[chosen], reduction="sum"), int(chosen.sum())

    return loss


def action_loss(network: Any, pairs: Tensor, step: int) -> tuple[Tensor, int]:
    """Sum of −log p(action) over all tokens; a row holds the tokens of a sentence, then their actions."""
    ids, actions = pairs.chunk(2, dim=1)  # [B, L] each
    logits = network.classifier(network.transformer(ids, use_mems=False)[0]).float()  # [B, L, 4]
    return F.cross_entropy(logits.flatten(0, 1), actions.flatten(), reduction="sum"), ids.numel()


def synthetic_pairs(
    creator: Creator, sentences: Sequence[Sequence[str]], codec: Codec, generator: random.Random
) -> list[list[int]]:
    tagger = load_tagger()
    ids, contents = [], []
    for sentence in sentences:
        pieces = [codec.pieces(word) for word in sentence]
        ids.append([i for word in pieces for i in word])
        flags = tagger.content(sentence)
        contents.append([flag for word, flag in zip(pieces, flags, strict=True) for _ in word])
    return [[*pair.tokens, *pair.actions] for pair in creator.pairs(ids, contents, generator)]


@torch.inference_mode()
def _precision_and_recall(network: Any, pairs: Sequence[list[int]]) -> dict[str, Any]:
    """Per action, in percent, over held-out pairs; the classifier's choice is its likeliest action."""
    confusion = torch.zeros(len(ACTIONS), len(ACTIONS))  # true action x chosen action
    for pair in pairs:
        ids, actions = torch.tensor([pair]).chunk(2, dim=1)
        chosen = network.classifier(network.transformer(ids, use_mems=False)[0]).argmax(-1)
        confusion.index_put_((actions.flatten(), chosen.flatten()), torch.ones(ids.numel()), accumulate=True)
    correct = confusion.diagonal()
    precision, recall = correct / confusion.sum(0).clamp(min=1), correct / confusion.sum(1).clamp(min=1)
    return {
        name: {"precision": round(100 * p, 1), "recall": round(100 * r, 1)}
        for name, p, r in zip(ACTIONS, precision.tolist(), recall.tolist(), strict=True)
    }


def frequencies(sentences: Sequence[Sequence[int]], size: int) -> list[int]:
    counts = [0] * size
    for sentence in sentences:
        for token in sentence:
            counts[token] += 1
    return counts


def _perplexity(fitted: Fitted) -> dict[str, Any]:
    return {"steps": fitted.steps, "held_out_perplexity": round(math.exp(fitted.loss), 2)}


def _codec(config: ModelsConfig, corpus: Corpus) -> Codec:
    if config.base is None:
        return Codec.of_words(count_words(corpus.train, config.seen, config.vocabulary))
    if is_ours(config.base):
        return Codec.load(models_folder(config.base))
    from transformers import AutoTokenizer

    try:
        return Codec.of_tokenizer(AutoTokenizer.from_pretrained(config.base))
    except OSError as error:
        raise FewcapError(
            f"label.training.base {config.base}: no tokenizer can be had under this name "
            f"({str(error).splitlines()[0]}); name a folder, or null for small networks."
        ) from None
