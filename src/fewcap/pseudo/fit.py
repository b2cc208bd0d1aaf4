"""One training loop for the four small networks: resumable, early stopping by a held-out loss.

A run that was stopped goes on from its last checkpoint with the same weights, optimiser state and order of batches,
so it ends where an uninterrupted run would have ended.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fewcap.core.progress import progress

log = logging.getLogger("fewcap.pseudo")


@dataclass(frozen=True)
class Schedule:
    """How long and how fast; learning rate rises over `warmup` steps and falls linearly to zero."""

    steps: int
    rate: float = 1.5e-3
    warmup: int = 150
    check_every: int = 300
    patience: int = 3  # checks without a better held-out loss before training stops
    half: bool = True  # bfloat16 autocast

    def rate_at(self, step: int) -> float:
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        return self.rate * max(0.0, 1 - (step - self.warmup) / max(1, self.steps - self.warmup))


@dataclass(frozen=True)
class Fitted:
    """What a finished run says of itself."""

    steps: int
    loss: float  # the best held-out loss, whose weights the network now has
    history: list[float]


def fit(
    network: nn.Module,
    loss_at: Callable[[int], Tensor],
    held_out_loss: Callable[[], float],
    schedule: Schedule,
    folder: Path,
    what: str,
) -> Fitted:
    """Trains `network` in place; `loss_at(step)` must depend on the step alone, never on earlier calls."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=schedule.rate, betas=(0.9, 0.98), weight_decay=0.01)
    folder.mkdir(parents=True, exist_ok=True)
    step, history = _resume(network, optimiser, folder)
    with progress(what, schedule.steps, "steps") as bar:
        bar.advance(step)
        while step < schedule.steps:
            if _checks_without_gain(history) >= schedule.patience:
                log.info("%s: stopped early after %d steps", what, step)
                break
            for group in optimiser.param_groups:
                group["lr"] = schedule.rate_at(step)
            with torch.autocast("cpu", torch.bfloat16) if schedule.half else contextlib.nullcontext():
                loss = loss_at(step)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            step += 1
            held_out = f", held-out {history[-1]:.3f}" if history else ""
            bar.advance(1, note=f"loss {loss.item():.3f}{held_out}")
            if step % schedule.check_every == 0 or step == schedule.steps:
                network.eval()
                with torch.no_grad():
                    history.append(held_out_loss())
                network.train()
                _save(network, optimiser, folder, step, history)
    network.load_state_dict(load_file(folder / "best.safetensors"))
    network.eval()
    return Fitted(step, min(history), history)


def _checks_without_gain(history: list[float]) -> int:
    return len(history) - 1 - history.index(min(history)) if history else 0


def _save(network: nn.Module, optimiser: torch.optim.Optimizer, folder: Path, step: int, history: list[float]) -> None:
    weights = {name: value.detach().clone() for name, value in network.state_dict().items()}
    if history[-1] == min(history):
        _write(weights, folder / "best.safetensors")
    moments = {
        f"{index}.{name}": value
        for index, state in optimiser.state_dict()["state"].items()
        for name, value in state.items()
    }
    _write(weights, folder / f"weights-{step}.safetensors")
    _write(moments, folder / f"moments-{step}.safetensors")
    state = folder / "state.json.tmp"
    state.write_text(json.dumps({"step": step, "history": history}))
    state.replace(folder / "state.json")
    for old in folder.glob("*-*.safetensors"):
        if not old.stem.endswith(f"-{step}"):
            old.unlink()


def _write(tensors: Mapping[str, Tensor], path: Path) -> None:
    temporary = path.with_name(path.name + ".tmp")
    save_file(dict(tensors), temporary)
    temporary.replace(path)


def _resume(network: nn.Module, optimiser: torch.optim.Optimizer, folder: Path) -> tuple[int, list[float]]:
    if not (folder / "state.json").exists():
        return 0, []
    state = json.loads((folder / "state.json").read_text())
    step = state["step"]
    network.load_state_dict(load_file(folder / f"weights-{step}.safetensors"))
    moments: dict[int, dict[str, Tensor]] = {}
    for key, value in load_file(folder / f"moments-{step}.safetensors").items():
        index, name = key.split(".", 1)
        moments.setdefault(int(index), {})[name] = value
    optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
    return step, state["history"]
