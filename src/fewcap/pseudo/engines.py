"""Who runs the chains: this process, or Ray workers. A part of the videos gives the same rows everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fewcap.core.config.label import LabelConfig
from fewcap.core.errors import FewcapError
from fewcap.pseudo.candidates import Source, Strategy

Rows = list[dict[str, Any]]


def invent(strategy: Strategy, sources: Sequence[Source]) -> Rows:
    """Candidates of some sources as rows that can be written down or sent."""
    return [
        {**asdict(source), "candidates": [asdict(candidate) for candidate in candidates]}
        for source, candidates in zip(sources, strategy.candidates(sources), strict=True)
    ]


def run_here(strategy: Strategy, parts: Mapping[str, Sequence[Source]]) -> Iterator[tuple[str, Rows]]:
    """One part after another in this process."""
    for name, sources in parts.items():
        yield name, invent(strategy, sources)


def run_ray(config: LabelConfig, parts: Mapping[str, Sequence[Source]], *, seed: int) -> Iterator[tuple[str, Rows]]:
    """Parts spread over Ray actors, in the order in which they are done."""
    try:
        import ray
    except ImportError:
        raise FewcapError("label.engine is 'ray', which is not installed; run 'pip install \"fewcap[ray]\"'.") from None
    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, include_dashboard=False)
    try:
        actor = ray.remote(num_cpus=1)(_RayWorker)
        idle = [actor.remote(config.model_dump_json(), seed) for _ in range(min(config.workers, len(parts)))]
        waiting = list(parts.items())
        busy: dict[Any, tuple[str, Any]] = {}
        while waiting or busy:
            while waiting and idle:
                (name, sources), worker = waiting.pop(0), idle.pop()
                busy[worker.run.remote([asdict(source) for source in sources])] = (name, worker)
            ready, _ = ray.wait(list(busy), num_returns=1)
            name, worker = busy.pop(ready[0])
            idle.append(worker)
            yield name, ray.get(ready[0])
    finally:
        if started:
            ray.shutdown()


class _RayWorker:
    """What a Ray actor does: the same as this process would."""

    def __init__(self, config: str, seed: int) -> None:
        import torch

        from fewcap.pseudo.strategies import load_strategy

        torch.set_num_threads(1)
        self._strategy = load_strategy(LabelConfig.model_validate_json(config), seed=seed)

    def run(self, sources: list[dict[str, Any]]) -> Rows:
        return invent(self._strategy, [Source(**{**row, "keywords": tuple(row["keywords"])}) for row in sources])
