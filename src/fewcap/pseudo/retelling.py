"""What somebody else says of the same video: a given sentence in, another person's sentence out (beyond the paper).

Captions of one video by several people teach it, of other data sets than the one at hand: which words others would use
("puppy": "dog"), what they would leave out and what they would say beside. It is a transformer that may copy words of
the given sentence, so that words it has never learnt survive (a pointer-generator network).

    M sentences, S words of the given one, T words of the told one, V vocabulary, d width
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fewcap.core.assets import asset
from fewcap.core.eightbit import eight_bit, restored
from fewcap.core.errors import FewcapError
from fewcap.core.store import fingerprint, sha256_file
from fewcap.text.tokenise import words

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BOS, EOS, UNK = range(len(SPECIAL))
MOST_WORDS = 24  # of a given sentence; the rest is not read
_POSITIONS = 32
_FILES = ("config.json", "words.json", "model.safetensors")
TAUGHT_BY = ("msrvtt", "vatex")  # data sets whose captions the shipped model has read


@dataclass(frozen=True)
class Sizes:
    """Of the network."""

    width: int = 256
    heads: int = 4
    inner: int = 512
    reading: int = 2  # layers over the given sentence
    telling: int = 3  # layers over the told one
    dropout: float = 0.1


@dataclass(frozen=True)
class Given:
    """Given sentences as numbers; words that the vocabulary lacks are numbered from V on, in each sentence anew."""

    known: Tensor  # [M, S], UNK for words that the vocabulary lacks, PAD behind the end
    copied: Tensor  # [M, S], what copying a word means; -1 behind the end
    extra: tuple[tuple[str, ...], ...]  # of each sentence the words that the vocabulary lacks

    def select(self, rows: Tensor) -> Given:
        return Given(self.known[rows], self.copied[rows], tuple(self.extra[row] for row in rows.tolist()))


class Retelling(nn.Module):
    """Probabilities of the words of another person's sentence."""

    def __init__(self, words: Sequence[str], sizes: Sizes) -> None:
        super().__init__()
        self.vocabulary = (*SPECIAL, *words)
        self.sizes = sizes
        self._number = {word: number for number, word in enumerate(self.vocabulary)}
        d = sizes.width
        self.words = nn.Embedding(len(self.vocabulary), d, padding_idx=PAD)
        self.positions = nn.Parameter(torch.randn(_POSITIONS, d) * 0.02)
        layer = {"dropout": sizes.dropout, "batch_first": True, "norm_first": True}
        self.reader = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d, sizes.heads, sizes.inner, **layer),  # type: ignore[arg-type]
            sizes.reading,
            enable_nested_tensor=False,
        )
        self.teller = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(d, sizes.heads, sizes.inner, **layer),  # type: ignore[arg-type]
            sizes.telling,
        )
        self.reader_norm, self.teller_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.copy_query, self.copy_key = nn.Linear(d, d), nn.Linear(d, d)
        self.copy_gate = nn.Linear(d, 1)
        self.bias = nn.Parameter(torch.zeros(len(self.vocabulary)))
        self.dropout = nn.Dropout(sizes.dropout)

    def given(self, sentences: Sequence[Sequence[str]]) -> Given:
        """Numbers of the words that will be read."""
        cut = [list(sentence[:MOST_WORDS]) for sentence in sentences]
        extra = tuple(tuple(dict.fromkeys(word for word in sentence if word not in self._number)) for sentence in cut)
        known = torch.full((len(cut), max(map(len, cut), default=1)), PAD)
        copied = torch.full_like(known, -1)
        for row, (sentence, new) in enumerate(zip(cut, extra, strict=True)):
            for place, word in enumerate(sentence):
                known[row, place] = self._number.get(word, UNK)
                copied[row, place] = self.number(word, new)
        return Given(known, copied, extra)

    def number(self, word: str, extra: Sequence[str] = ()) -> int:
        """Of a word of the vocabulary, or of one that a given sentence brings along; UNK for any other."""
        if word in self._number:
            return self._number[word]
        return len(self.vocabulary) + extra.index(word) if word in extra else UNK

    def word(self, number: int, extra: Sequence[str] = ()) -> str:
        size = len(self.vocabulary)
        return self.vocabulary[number] if number < size else extra[number - size]

    def read(self, given: Given) -> Tensor:
        """Given sentences as vectors [M, S, d]."""
        x = self._embedded(given.known)
        states: Tensor = self.reader_norm(self.reader(x, src_key_padding_mask=given.known == PAD))
        return states

    def hidden(self, told: Tensor, read: Tensor, given: Given) -> Tensor:
        """Told words so far [M, T], BOS first → [M, T, d], from which the next words follow."""
        size = told.shape[1]
        later = torch.ones(size, size, dtype=torch.bool, device=told.device).triu(1)
        x = self._embedded(told.masked_fill(told >= len(self.vocabulary), UNK))
        states: Tensor = self.teller(
            x, read, tgt_mask=later, tgt_is_causal=True, memory_key_padding_mask=given.known == PAD
        )
        told_states: Tensor = self.teller_norm(states)
        return told_states

    def parts(self, hidden: Tensor, read: Tensor, given: Given) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the vocabulary [M, T, V], of copying each given word [M, T, S], and share of copying [M, T, 1]."""
        logits = (hidden @ self.words.weight.T + self.bias).float()
        match = (self.copy_query(hidden) @ self.copy_key(read).transpose(1, 2)).float() / self.sizes.width**0.5
        copying = match.masked_fill((given.known == PAD)[:, None], -1e9).softmax(-1)
        return logits, copying, torch.sigmoid(self.copy_gate(hidden).float())

    def log_probability(self, told: Tensor, targets: Tensor, given: Given) -> Tensor:
        """Of each target word [M, T], by the words before it and the given sentence."""
        read = self.read(given)
        logits, copying, share = self.parts(self.hidden(told, read, given), read, given)
        size = len(self.vocabulary)
        chosen = logits.log_softmax(-1).gather(-1, targets.clamp(max=size - 1).unsqueeze(-1)).exp()  # [M, T, 1]
        chosen = chosen.squeeze(-1) * (targets < size)
        copied = (copying * (given.copied[:, None] == targets[..., None])).sum(-1)
        share = share.squeeze(-1)
        return ((1 - share) * chosen + share * copied + 1e-9).log()

    def next_probabilities(self, told: Tensor, read: Tensor, given: Given) -> Tensor:
        """Of the word that follows: [M, V + words that the given sentences bring along]."""
        logits, copying, share = self.parts(self.hidden(told, read, given)[:, -1:], read, given)
        size = len(self.vocabulary) + max(map(len, given.extra), default=0)
        found = torch.zeros(len(told), size)
        found[:, : len(self.vocabulary)] = ((1 - share) * logits.softmax(-1))[:, 0]
        return found.scatter_add_(1, given.copied.clamp(min=0), (share * copying)[:, 0] * (given.copied >= 0))

    def _embedded(self, numbers: Tensor) -> Tensor:
        x = self.words(numbers) * self.sizes.width**0.5 + self.positions[: numbers.shape[1]]
        dropped: Tensor = self.dropout(x)
        return dropped

    def save(self, folder: Path) -> None:
        """A byte a weight."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(vars(self.sizes), indent=1) + "\n", encoding="utf-8")
        text = json.dumps(self.vocabulary[len(SPECIAL) :], ensure_ascii=False, separators=(",", ":"))
        (folder / "words.json").write_text(text, encoding="utf-8")
        save_file(eight_bit(self.state_dict()), folder / "model.safetensors")

    @classmethod
    def load(cls, name: str) -> Retelling:
        """The shipped model ("fewcap") or a folder that training wrote."""
        folder = retelling_folder(name)
        try:
            sizes = Sizes(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
            words = json.loads((folder / "words.json").read_text(encoding="utf-8"))
            model = cls(words, sizes)
            model.load_state_dict(restored(load_file(folder / "model.safetensors")))
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise FewcapError(
                f"{folder}: its parts do not fit together ({reason}); train it again or use label.retell.model: fewcap."
            ) from None
        return model.eval()


def retelling_folder(name: str) -> Path:
    folder = asset("retelling") if name == "fewcap" else Path(name)
    for file in _FILES:
        if not (folder / file).exists():
            raise FewcapError(
                f"{folder / file}: there is no such file; name a folder that tools/train_retelling.py wrote, or "
                "label.retell.model: fewcap."
            )
    return folder


def has_read(name: str, source: str) -> bool:
    return name == "fewcap" and source in TAUGHT_BY


def known_words(name: str, sentences: Sequence[str]) -> float:
    """Share of the words of these sentences that the model knows."""
    known = set(json.loads((retelling_folder(name) / "words.json").read_text(encoding="utf-8")))
    said = [word for sentence in sentences for word in words(sentence)]
    return sum(word in known for word in said) / max(len(said), 1)


def refuse_if_read(name: str, source: str) -> None:
    """Few sentences of a data set mean that the others do not exist: whoever has read them may not retell."""
    if has_read(name, source):
        raise FewcapError(
            f"the shipped retelling model has read the captions of {source}, so it can not retell a few of them; use "
            "label.strategy: edit, or a model taught without them (tools/train_retelling.py, label.retell.model)."
        )


def retelling_digest(name: str) -> str:
    """What the result of a run depends on: the contents of the model's folder."""
    folder = retelling_folder(name)
    return fingerprint({file: sha256_file(folder / file) for file in _FILES})
