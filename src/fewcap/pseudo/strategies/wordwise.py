"""Rivals that change single words: synonym replacement, random insertion, masked-model replacement."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fewcap.core.config.label import LabelConfig
from fewcap.core.errors import FewcapError
from fewcap.core.loading import without_bars
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.language import LanguageModels
from fewcap.pseudo.strategies.wordnet import load_synonyms
from fewcap.text.tokenise import words

Edit = dict[str, Any]


class Wordwise(ABC):
    """Changes a share of a sentence's words; subclasses say how one candidate comes about."""

    name = ""
    keeps_keywords = False

    def __init__(self, config: LabelConfig, *, seed: int) -> None:
        self.share = config.rival.share
        self.chains = config.wanted
        self.seed = seed

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        for source in sources:
            sentence = words(source.text)
            found = []
            for chain in range(self.chains if sentence else 0):
                generator = random.Random(source.key(self.seed, chain))
                changed, edits = self.changed(sentence, max(1, round(self.share * len(sentence))), generator)
                found.append(Candidate(tuple(changed), tuple(edits)))
            yield found

    @abstractmethod
    def changed(self, sentence: list[str], times: int, generator: random.Random) -> tuple[list[str], list[Edit]]:
        """The sentence with so many of its words changed, and the changes."""


class SynonymReplacement(Wordwise):
    """Random words become random synonyms of theirs (WordNet)."""

    name = "synonyms"

    def __init__(self, config: LabelConfig, *, seed: int) -> None:
        super().__init__(config, seed=seed)
        self.synonyms = load_synonyms()

    def changed(self, sentence: list[str], times: int, generator: random.Random) -> tuple[list[str], list[Edit]]:
        result, edits = list(sentence), []
        able = [i for i, word in enumerate(sentence) if self.synonyms.of(word)]
        for position in sorted(generator.sample(able, min(times, len(able)))):
            result[position] = generator.choice(self.synonyms.of(sentence[position]))
            edits.append(
                {
                    "action": "replace",
                    "position": position + 1,
                    "word": result[position],
                    "instead_of": sentence[position],
                }
            )
        return result, edits


class RandomInsertion(SynonymReplacement):
    """Synonyms of random words go to random places."""

    name = "insertion"

    def changed(self, sentence: list[str], times: int, generator: random.Random) -> tuple[list[str], list[Edit]]:
        result, edits = list(sentence), []
        able = [word for word in sentence if self.synonyms.of(word)]
        for _ in range(times if able else 0):
            word = generator.choice(self.synonyms.of(generator.choice(able)))
            position = generator.randrange(len(result) + 1)
            result.insert(position, word)
            edits.append({"action": "insert", "position": position + 1, "word": word})
        return result, edits


Proposals = Callable[[list[str], int], list[tuple[str, float]]]


class MaskedReplacement(Wordwise):
    """Random words are masked one after another and drawn anew from what a masked language model proposes."""

    name = "masked"
    TOP = 10

    def __init__(self, config: LabelConfig, *, seed: int) -> None:
        super().__init__(config, seed=seed)
        name = config.rival.masked_model
        self.proposals: Proposals = (
            _of_fewcap(config.models, self.TOP) if name == "fewcap" else _of_transformers(name, self.TOP)
        )

    def changed(self, sentence: list[str], times: int, generator: random.Random) -> tuple[list[str], list[Edit]]:
        result, edits = list(sentence), []
        for position in generator.sample(range(len(sentence)), min(times, len(sentence))):
            found = [(w, p) for w, p in self.proposals(result, position) if w != result[position]]
            if not found:
                continue
            word, probability = generator.choices(found, [p for _, p in found])[0]
            edit = {"action": "replace", "position": position + 1, "word": word, "instead_of": result[position]}
            edits.append({**edit, "word_probability": float(f"{probability:.3g}")})
            result[position] = word
        return result, edits


def _of_fewcap(models: str, top: int) -> Proposals:
    loaded = LanguageModels.load(models)
    codec, network = loaded.codec, loaded.masked
    allowed = torch.full((len(codec),), float("-inf"))
    allowed[codec.proposable()] = 0.0

    @torch.inference_mode()
    def proposals(sentence: list[str], position: int) -> list[tuple[str, float]]:
        pieces = [codec.pieces(word) for word in sentence]
        pieces[position] = [codec.mask]
        ids = [codec.bos, *(i for word in pieces for i in word), codec.eos]
        at = 1 + sum(map(len, pieces[:position]))
        hidden = network.transformer(torch.tensor([ids]), use_mems=False)[0][0, at]
        best = (network.lm_loss(hidden).float() + allowed).softmax(-1).topk(top)
        return [(codec.word(i), p) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)]

    return proposals


def _of_transformers(name: str, top: int) -> Proposals:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    try:
        with without_bars():
            tokenizer = AutoTokenizer.from_pretrained(name)
            network = AutoModelForMaskedLM.from_pretrained(name).eval()
    except (OSError, ValueError) as error:
        raise FewcapError(
            f"label.rival.masked_model {name}: no masked language model can be had under this name "
            f"({str(error).splitlines()[0]}); name a folder, or use fewcap."
        ) from None

    @torch.inference_mode()
    def proposals(sentence: list[str], position: int) -> list[tuple[str, float]]:
        text = " ".join([*sentence[:position], tokenizer.mask_token, *sentence[position + 1 :]])
        batch = tokenizer(text, return_tensors="pt", truncation=True)
        at = (batch["input_ids"][0] == tokenizer.mask_token_id).nonzero()
        if not len(at):  # cut off with the end of a long sentence
            return []
        probs = network(**batch).logits[0, at[0, 0]].softmax(-1)
        best = probs.topk(min(3 * top, len(probs)))
        found = zip(tokenizer.batch_decode(best.indices[:, None]), best.values.tolist(), strict=True)
        whole = [(text.strip().lower(), p) for text, p in found]
        return [(word, p) for word, p in whole if word.isalpha()][:top]

    return proposals
