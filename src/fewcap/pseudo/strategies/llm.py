"""Paraphrases by a large language model: an OpenAI-compatible server, or a causal model of transformers."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from fewcap.core.config.label import LabelConfig, RivalConfig
from fewcap.core.errors import FewcapError
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.pseudo.strategies.causal import MOST_TOKENS, CausalModel
from fewcap.text.tokenise import words

SIDE_BY_SIDE = 8  # answers that an endpoint is asked for at once
TOGETHER = 16  # questions that are put at once
Answers = Callable[[Sequence[str], Sequence[Sequence[int]]], list[list[str]]]  # prompts, seeds of each -> answers


class Paraphrase:
    """One question a sentence, an answer for each candidate; many questions are put at once."""

    name = "llm"
    keeps_keywords = False

    def __init__(self, answers: Answers, prompt: str, candidates: int, *, seed: int) -> None:
        self.answers = answers
        self.prompt = prompt
        self.chains = candidates
        self.seed = seed

    @classmethod
    def load(cls, config: LabelConfig, *, seed: int) -> Paraphrase:
        rival = config.rival
        answers = by_endpoint(rival) if rival.endpoint else CausalModel(rival.llm).answers
        return cls(answers, rival.prompt, config.wanted, seed=seed)

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        for start in range(0, len(sources), TOGETHER):
            group = sources[start : start + TOGETHER]
            asked = [source for source in group if words(source.text)]
            found = iter(self._answers(asked) if asked else [])
            for source in group:
                texts = [first_sentence(answer) for answer in next(found)] if words(source.text) else []
                yield [Candidate(tuple(words(text)), ({"action": "paraphrase", "word": text},)) for text in texts]

    def _answers(self, asked: Sequence[Source]) -> list[list[str]]:
        prompts = [self.prompt.replace("{caption}", source.text) for source in asked]
        return self.answers(prompts, [[self._seed(source, n) for n in range(self.chains)] for source in asked])

    def _seed(self, source: Source, chain: int) -> int:
        return int.from_bytes(hashlib.sha256(source.key(self.seed, chain).encode()).digest()[:4]) % 2**31


def first_sentence(answer: str) -> str:
    """The first line that says something, without quotation marks and introductions such as "Caption:"."""
    for line in answer.splitlines():
        text = line.strip().strip("\"'* ")
        text = text.rsplit(":", 1)[-1].strip().strip("\"'* ") if ":" in text else text
        if words(text):
            return text.split(". ")[0]
    return ""


def by_endpoint(config: RivalConfig) -> Answers:
    """POST /chat/completions, some at once; the key, if any, comes from the environment."""
    address = f"{(config.endpoint or '').rstrip('/')}/chat/completions"
    if not address.startswith(("http://", "https://")):
        raise FewcapError(f"label.rival.endpoint {config.endpoint}: not a web address; write http://host:port/v1.")
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(config.key_variable):
        headers["Authorization"] = f"Bearer {key}"

    def answer(prompt: str, seed: int) -> str:
        question = {
            "model": config.llm,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": MOST_TOKENS,
            "temperature": 1.0,
            "seed": seed,
        }
        request = urllib.request.Request(address, json.dumps(question).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=config.timeout) as response:
                return str(json.load(response)["choices"][0]["message"]["content"])
        except (urllib.error.URLError, TimeoutError, OSError) as error:
            raise FewcapError(
                f"{address} does not answer ({error}); check label.rival.endpoint and the server."
            ) from None
        except (ValueError, KeyError, IndexError, TypeError):
            raise FewcapError(f"{address}: the answer is not one of an OpenAI-compatible server.") from None

    def answers(prompts: Sequence[str], seeds: Sequence[Sequence[int]]) -> list[list[str]]:
        questions = [(prompt, seed) for prompt, own in zip(prompts, seeds, strict=True) for seed in own]
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            said = pool.map(lambda question: answer(*question), questions)
            return [[next(said) for _ in own] for own in seeds]

    return answers
