"""The four networks behind the edits, all of them transformers' XLNet.

B chains, L tokens, V vocabulary, 4 actions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import XLNetConfig, XLNetForTokenClassification, XLNetLMHeadModel

from fewcap.core.assets import asset
from fewcap.core.config.label import ModelsConfig
from fewcap.core.devices import has_fast_bfloat16
from fewcap.core.eightbit import eight_bit, restored
from fewcap.core.errors import FewcapError
from fewcap.core.loading import without_bars
from fewcap.core.store import fingerprint, sha256_file
from fewcap.pseudo.codec import Codec

COPY, REPLACE, INSERT, DELETE = range(4)
ACTIONS = ("copy", "replace", "insert", "delete")
ROLES = ("forward", "backward", "masked", "classifier")
TIED = "lm_loss.weight"  # the output layer shares the word embedding


@dataclass(frozen=True)
class LanguageModels:
    """Forward, backward and masked language model, and the action classifier, over one vocabulary."""

    codec: Codec
    forward: XLNetLMHeadModel
    backward: XLNetLMHeadModel
    masked: XLNetLMHeadModel
    classifier: XLNetForTokenClassification
    digest: str = ""

    @classmethod
    def load(cls, name: str, precision: str = "float32") -> LanguageModels:
        """The shipped models ("fewcap") or a folder that `train_models` wrote."""
        folder = models_folder(name)
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        codec = Codec.load(folder)
        networks = {}
        for role in ROLES:
            network = _empty(role, XLNetConfig(**settings))
            weights = restored(load_file(folder / f"{role}.safetensors"))
            missing, unexpected = network.load_state_dict(weights, strict=False)
            if set(missing) - {TIED} or unexpected:
                raise FewcapError(
                    f"{folder / role}.safetensors: does not fit {folder / 'config.json'} "
                    f"({(*missing, *unexpected)[0]}); train the models again or use label.models: fewcap."
                )
            network.tie_weights()
            _share_positions(network)
            networks[role] = network.eval().to(_dtype(precision))
        return cls(codec, **networks, digest=models_digest(name))

    def save(self, folder: Path) -> None:
        """Half precision; the masked model, which only proposes words, in bytes; the tied output layer once."""
        folder.mkdir(parents=True, exist_ok=True)
        self.codec.save(folder)
        (folder / "config.json").write_text(json.dumps(_settings(self.forward.config), indent=1) + "\n")
        for role in ROLES:
            save_role(getattr(self, role), folder / f"{role}.safetensors", in_bytes=role == "masked")


def _share_positions(network: Any) -> None:
    """XLNet copies its relative positions for every row before it projects them; one copy gives the same sums."""
    encode = network.transformer.relative_positional_encoding
    network.transformer.relative_positional_encoding = lambda qlen, klen, bsz=None, device=None: encode(
        qlen, klen, device=device
    )


def _dtype(precision: str) -> torch.dtype:
    if precision == "auto":
        return torch.bfloat16 if has_fast_bfloat16(torch.device("cpu")) else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def save_role(network: torch.nn.Module, path: Path, *, in_bytes: bool = False) -> None:
    weights = {name: weight.float().contiguous() for name, weight in network.state_dict().items() if name != TIED}
    save_file(eight_bit(weights) if in_bytes else {name: w.half() for name, w in weights.items()}, path)


def models_folder(name: str) -> Path:
    folder = asset("xlnet") if name == "fewcap" else Path(name)
    if not (folder / "config.json").exists():
        raise FewcapError(
            f"{folder}: no language models here (config.json is missing); "
            "train some with fewcap label --train-models, or set label.models: fewcap."
        )
    return folder


def is_ours(name: str) -> bool:
    """Whether a name or folder means a set of models that fewcap trained, not a published checkpoint."""
    return name == "fewcap" or all((Path(name) / f"{role}.safetensors").exists() for role in ROLES)


def models_digest(name: str) -> str:
    """What the result of a run depends on: the contents of the models' folder."""
    folder = models_folder(name)
    weights = [folder / f"{role}.safetensors" for role in ROLES]
    for path in weights:
        if not path.exists():
            raise FewcapError(f"{path}: this network is missing; train the models again or use label.models: fewcap.")
    files = [folder / "config.json", *weights, *sorted(folder.glob("words.json")), *sorted(folder.glob("token*.json"))]
    return fingerprint({path.name: sha256_file(path) for path in files})


_KEPT = ("vocab_size", "d_model", "n_layer", "n_head", "d_inner", "ff_activation", "layer_norm_eps")


def _settings(config: XLNetConfig) -> dict[str, Any]:
    return {key: getattr(config, key) for key in _KEPT}


def _empty(role: str, config: XLNetConfig) -> Any:
    directed = role in ("forward", "backward")
    settings = XLNetConfig(
        **_settings(config),
        attn_type="uni" if directed else "bi",
        num_labels=len(ACTIONS),
        dropout=0.0,
        use_mems_eval=False,
        use_mems_train=False,
    )
    return XLNetForTokenClassification(settings) if role == "classifier" else XLNetLMHeadModel(settings)


def new_network(role: str, config: ModelsConfig, codec: Codec, start: Any = None) -> Any:
    """A network to train: small and random, from a published checkpoint, or from a trained one of another role."""
    if start is not None:
        network = _empty(role, start.config)
        network.transformer.load_state_dict(start.transformer.state_dict())
        if role != "classifier":
            network.lm_loss.bias.data.copy_(start.lm_loss.bias.data)
            network.tie_weights()
        return network
    if config.base is not None:
        try:
            with without_bars():
                published = XLNetLMHeadModel.from_pretrained(config.base)
        except OSError as error:
            raise FewcapError(
                f"label.training.base {config.base}: no XLNet checkpoint can be had under this name "
                f"({str(error).splitlines()[0]}); name a folder, or null for small networks."
            ) from None
        return new_network(role, config, codec, published)
    return _empty(
        role,
        XLNetConfig(
            vocab_size=len(codec),
            d_model=config.width,
            n_layer=config.layers,
            n_head=config.heads,
            d_inner=config.inner,
        ),
    )


def padded(sequences: Sequence[Sequence[int]], pad: int, length: int | None = None) -> Tensor:
    """[B, L] with pads on the right."""
    longest = length or max(map(len, sequences))
    return torch.tensor([[*s, *[pad] * (longest - len(s))] for s in sequences], dtype=torch.long)
