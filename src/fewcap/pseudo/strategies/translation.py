"""Back-translation: to another language and back, by MarianMT or by apertium."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence

import torch

from fewcap.core.config.label import LabelConfig
from fewcap.core.errors import FewcapError
from fewcap.core.loading import without_bars
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.text.tokenise import words

Translate = Callable[[Sequence[str], int], list[list[str]]]  # texts, how many each -> translations


class BackTranslation:
    """MarianMT draws several translations on the way there; apertium knows one."""

    name = "translation"
    keeps_keywords = False

    def __init__(self, there: Translate, back: Translate, candidates: int, *, seed: int) -> None:
        self.there, self.back = there, back
        self.chains = candidates
        self.seed = seed

    @classmethod
    def load(cls, config: LabelConfig, *, seed: int) -> BackTranslation:
        rival = config.rival
        if rival.there is not None and rival.back is not None:
            return cls(marian(rival.there, seed), marian(rival.back, seed), config.wanted, seed=seed)
        source, target = rival.apertium.split("-")
        return cls(apertium(f"{source}-{target}"), apertium(f"{target}-{source}"), config.wanted, seed=seed)

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        for source in sources:
            if not words(source.text):
                yield []
                continue
            abroad = self.there([source.text], self.chains)[0]
            home = [texts[0] for texts in self.back(abroad, 1)]
            yield [
                Candidate(tuple(words(text)), ({"action": "translate", "word": foreign},))
                for text, foreign in zip(home, abroad, strict=True)
                if words(text)
            ]


def marian(name: str, seed: int) -> Translate:
    """A MarianMT model; one translation is the best by beam search, several are drawn, seeded by the text."""
    from transformers import MarianMTModel, MarianTokenizer

    try:
        with without_bars():
            tokenizer = MarianTokenizer.from_pretrained(name)
            network = MarianMTModel.from_pretrained(name).eval()
    except (ImportError, OSError, ValueError) as error:
        raise FewcapError(
            f"back-translation model {name} can not be loaded ({str(error).splitlines()[0]}); name a folder with a "
            "MarianMT model (its tokenizer needs the package sentencepiece)."
        ) from None

    @torch.inference_mode()
    def translate(texts: Sequence[str], each: int) -> list[list[str]]:
        result = []
        for text in texts:
            batch = tokenizer([text], return_tensors="pt", truncation=True)
            torch.manual_seed(int.from_bytes(hashlib.sha256(f"{seed}/{text}".encode()).digest()[:7]))
            options = {"num_beams": 4} if each == 1 else {"do_sample": True, "num_beams": 1}
            ids = network.generate(**batch, max_new_tokens=64, num_return_sequences=each, **options)
            result.append(tokenizer.batch_decode(ids, skip_special_tokens=True))
        return result

    return translate


def apertium(pair: str) -> Translate:
    """The program apertium; the words it does not know come back unmarked and untranslated."""
    program = shutil.which("apertium")
    if program is None:
        raise FewcapError(
            "label.strategy translation: apertium is not installed; install apertium with apertium-eng-spa, or name "
            "MarianMT models in label.rival.there and label.rival.back."
        )

    def translate(texts: Sequence[str], each: int) -> list[list[str]]:
        joined = "\n".join(text.replace("\n", " ") for text in texts)
        done = subprocess.run([program, "-u", pair], input=joined, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
            raise FewcapError(f"apertium {pair} failed ({reason}); install the language pair or name MarianMT models.")
        return [[line] for line in done.stdout.split("\n")[: len(texts)]]

    return translate
