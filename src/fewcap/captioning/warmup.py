"""Learning language before video (beyond the paper): text is plentiful, pairs are few.

A corpus sentence plays a video: its embedding, disturbed, stands where the video-text model would put a video, and
keywords are retrieved for it from other sentences of the corpus, as they will be for a video. The keyword refiner and
the decoder learn to write the sentence from that; frames and objects do not take part.
"""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from fewcap.captioning.batches import keyword_batch, sentence_batch
from fewcap.captioning.loop import autocast
from fewcap.captioning.losses import sentence_loss
from fewcap.captioning.model import CaptionModel, Dims, VideoBatch
from fewcap.captioning.retrieval import Keyword, SentenceBank, retrieve
from fewcap.core.config.train import TrainConfig, WarmupConfig
from fewcap.core.eightbit import eight_bit, restored
from fewcap.core.errors import FewcapError
from fewcap.core.progress import progress, track
from fewcap.text.corpus import read_lines
from fewcap.text.embed import SentenceEncoder
from fewcap.text.keywords import keywords
from fewcap.text.resemblance import most_like
from fewcap.text.tokenise import words
from fewcap.text.vocabulary import PAD, Vocabulary

log = logging.getLogger("fewcap.warmup")

WORD_ROWS = ("word_embedding.weight", "classifier.weight", "classifier.bias")


@dataclass(frozen=True)
class Warmth:
    """What a warm-up leaves: its words, the most frequent first, their counts, and the weights that it trained."""

    words: tuple[str, ...]
    counts: dict[str, int]
    weights: dict[str, Tensor]


def read_corpus(files: Sequence[Path], config: WarmupConfig, given: Sequence[str], *, seed: int) -> list[str]:
    """Different sentences of the files with four to ``max_words`` words, in a seeded order.

    Of too many those most like the given captions.
    """
    found: dict[str, None] = {}
    for path in files:
        found.update(dict.fromkeys(" ".join(words(line)) for line in read_lines(path)))
    usable = [sentence for sentence in found if 4 <= len(sentence.split()) <= config.max_words]
    if not usable:
        names = ", ".join(str(path) for path in files)
        raise FewcapError(f"{names}: no sentence of 4 to {config.max_words} words; raise warmup.max_words.")
    shuffled = [usable[i] for i in np.random.default_rng(seed).permutation(len(usable))]
    captions = [" ".join(words(caption)) for caption in given] if config.like_given else []
    return most_like(shuffled, captions, config.max_sentences)


def count_words(sentences: Sequence[str], limit: int) -> dict[str, int]:
    """The ``limit`` most frequent words and their counts, in that order."""
    counts = Counter(word for sentence in sentences for word in sentence.split())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit])


def disturbed(embeddings: np.ndarray, closeness: tuple[float, float], random: np.random.Generator) -> np.ndarray:
    """Unit vectors [n, d_s] at a random cosine to the given ones, pulled half at random, half to other sentences."""
    n, d = embeddings.shape
    noise = random.standard_normal((n, d)) / math.sqrt(d) + embeddings[random.permutation(n)]
    noise -= (noise * embeddings).sum(1, keepdims=True) * embeddings
    noise /= np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-9)
    cosine = random.uniform(*closeness, size=(n, 1))
    return np.asarray(cosine * embeddings + np.sqrt(1 - cosine**2) * noise, dtype=np.float32)


def warm_up(
    model: CaptionModel,
    vocabulary: Vocabulary,
    sentences: Sequence[str],
    embeddings: np.ndarray,
    config: TrainConfig,
    *,
    seed: int,
    device: torch.device,
) -> list[float]:
    """Trains the text parts of the model in place and returns the mean loss of every hundred steps.

    The embeddings [n, d_s] are the sentence encoder's.
    """
    warmup = config.warmup
    centred = embeddings.astype(np.float32) - embeddings.astype(np.float32).mean(0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    own = [tuple(keywords(sentence)) for sentence in track(sentences, "keywords of the corpus")]
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(sentences))[: warmup.bank]
    bank = SentenceBank(
        tuple(sentences[i] for i in chosen),
        tuple(str(i) for i in chosen),
        tuple(own[i] for i in chosen),
        centred[chosen],
    )
    numbers = [vocabulary.encode(sentence.split()) for sentence in sentences]
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=warmup.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    batches = [b for _ in range(warmup.epochs) for b in _by_length(numbers, warmup.batch, random)]
    losses: list[float] = []
    total = 0.0
    with progress("text warm-up", len(batches), "steps") as bar:
        for step, rows in enumerate(batches):
            rate = warmup.learning_rate * _rate(step, len(batches))
            for group in optimizer.param_groups:
                group["lr"] = rate
            anchors = disturbed(centred[rows], warmup.closeness, random)
            scores = bank.similarities(anchors, exclude=[str(i) for i in rows])
            given = []
            for i, row in zip(rows.tolist(), scores, strict=True):
                if random.random() < warmup.own_keywords:
                    given.append([Keyword(word, 1.0) for word in own[i] if random.random() >= config.keywords.drop])
                else:
                    given.append(retrieve(bank, row, config.keywords))
            loss = _step(model, vocabulary, anchors, given, [numbers[i] for i in rows], config, device)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            total += float(loss.detach())
            if step % 100 == 99:
                losses.append(total / 100)
                total = 0.0
            bar.advance(1, note=f"loss {float(loss.detach()):.2f}")
    return losses


def _step(
    model: CaptionModel,
    vocabulary: Vocabulary,
    anchors: np.ndarray,
    given: Sequence[Sequence[Keyword]],
    numbers: Sequence[Sequence[int]],
    config: TrainConfig,
    device: torch.device,
) -> Tensor:
    inputs, targets = sentence_batch(numbers, config.model.max_words)
    targets = targets.to(device)
    batch = keyword_batch(given, vocabulary, config.keywords.count)
    with autocast(config.precision, device):
        video = VideoBatch(anchor=torch.from_numpy(anchors).to(device)) if config.model.anchor else None
        output = model(video, batch.to(device), inputs.to(device), targets != PAD)
    weights = torch.ones(len(numbers), device=device)
    return sentence_loss(output.logits, targets, weights, smoothing=config.label_smoothing) / len(numbers)


def _rate(step: int, steps: int) -> float:
    """Two hundred steps upwards, then a cosine downwards."""
    return min((step + 1) / 200, 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.01)


def _by_length(numbers: Sequence[Sequence[int]], batch: int, random: np.random.Generator) -> list[np.ndarray]:
    """Batches of sentences of nearly the same length, in random order."""
    order = random.permutation(len(numbers))
    order = order[np.argsort([len(numbers[i]) for i in order], kind="stable")]
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]
    return [batches[i] for i in random.permutation(len(batches))]


def apply(warmth: Warmth, model: CaptionModel, vocabulary: Vocabulary) -> int:
    """Copies what fits into the model, word by word where rows are words; returns the number of tensors taken over."""
    own = model.state_dict()
    width, here_width = warmth.weights["word_embedding.weight"].shape[1], own["word_embedding.weight"].shape[1]
    if width != here_width:
        raise FewcapError(
            f"the text warm-up has model.width={width}, the configuration model.width={here_width}; "
            "make them equal, or set warmup.source to none or corpus."
        )
    taken = 0
    rows = [(vocabulary[word], row) for row, word in enumerate(warmth.words) if word in vocabulary]
    here, there = (torch.tensor(column, dtype=torch.long) for column in zip(*rows, strict=True))
    with torch.no_grad():
        for name, weight in warmth.weights.items():
            if name in WORD_ROWS and name in own:
                own[name][here] = weight[there].to(own[name])
            elif name in own and own[name].shape == weight.shape:
                own[name].copy_(weight)
            else:
                continue
            taken += 1
    return taken


def learn(
    config: TrainConfig, given: Sequence[str], encoder: SentenceEncoder, *, seed: int, device: torch.device
) -> Warmth:
    """A warm-up on the files of the configuration; ``given``: the captions of the training videos."""
    sentences = read_corpus(config.warmup.corpus, config.warmup, given, seed=seed)
    counts = count_words(sentences, config.warmup.words)
    vocabulary = Vocabulary(list(counts))
    torch.manual_seed(seed)
    model = CaptionModel(config.model, Dims({}, len(vocabulary), encoder.dim, config.keywords.count))
    losses = warm_up(model, vocabulary, sentences, encoder.encode(sentences), config, seed=seed, device=device)
    log.info("text warm-up: %d sentences, loss %.3f", len(sentences), losses[-1] if losses else float("nan"))
    # The word loss takes no part, and a tied classifier is the embedding again.
    left = ("keyword_to_sentence", *(("classifier.weight",) if config.model.tie_words else ()))
    weights = {name: w.detach().cpu() for name, w in model.state_dict().items() if not name.startswith(left)}
    return Warmth(vocabulary.words, counts, weights)


def packed(warmth: Warmth) -> bytes:
    """One safetensors file: matrices as 8-bit rows with a scale each, which is plenty for a start."""
    facts = {"words": list(warmth.words), "counts": warmth.counts}
    return save(eight_bit(warmth.weights), {"facts": json.dumps(facts, ensure_ascii=False)})


def read(path: Path) -> Warmth:
    """Reads what ``packed`` wrote."""
    with safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()["facts"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return Warmth(tuple(facts["words"]), facts["counts"], restored(tensors))
