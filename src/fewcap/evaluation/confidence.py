"""How sure a score is: bootstrap intervals of one run, significance of the difference between two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewcap.evaluation.measure import Measurement, metrics_of

Floats = NDArray[np.float64]

_ROWS = 250  # samples at once, to bound memory


@dataclass(frozen=True)
class Difference:
    """Run B minus run A in one metric."""

    difference: float
    low: float
    high: float
    p_value: float  # chance of so large a difference if it made no difference which run a caption came from


def bootstrap_intervals(
    run: Measurement, *, samples: int, confidence: float, seed: int
) -> dict[str, tuple[float, float]]:
    """Percentile intervals: items drawn with replacement, each metric computed anew from the drawn ones."""
    if samples == 0 or not run.ids:
        return {}
    draws = [metrics_of(weights @ run.columns) for weights in _draws(len(run.ids), samples, seed)]
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    intervals = {}
    for name in draws[0]:
        low, high = np.percentile(np.concatenate([draw[name] for draw in draws]), tails)
        intervals[name] = (float(low), float(high))
    return intervals


def differences(
    first: Measurement, second: Measurement, *, samples: int, confidence: float, seed: int
) -> dict[str, Difference]:
    """Second minus first on the same items: a paired bootstrap interval and a paired randomisation test."""
    if first.ids != second.ids:
        raise ValueError("the runs must have the same items in the same order")
    width = min(first.columns.shape[1], second.columns.shape[1])  # METEOR only if both have it
    a, b = first.columns[:, :width], second.columns[:, :width]
    ones = np.ones((1, len(a)))
    observed = _subtract(ones @ a, ones @ b)
    draws = [_subtract(weights @ a, weights @ b) for weights in _draws(len(a), samples, seed)]
    generator = np.random.default_rng([seed, 1])
    swapped = []
    for size in _sizes(samples):
        swap = generator.integers(0, 2, size=(size, len(a))).astype(np.float64)
        sum_a, sum_b = swap @ a, swap @ b
        swapped.append(_subtract(a.sum(0) - sum_a + sum_b, b.sum(0) - sum_b + sum_a))
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    found = {}
    for name, value in observed.items():
        low, high = np.percentile(np.concatenate([draw[name] for draw in draws]), tails) if draws else (np.nan, np.nan)
        chance = np.concatenate([part[name] for part in swapped]) if swapped else np.zeros(0)
        # The observed split is one of the possible ones, hence the added ones.
        p_value = (1 + np.count_nonzero(np.abs(chance) >= abs(value[0]) - 1e-12)) / (1 + len(chance))
        found[name] = Difference(float(value[0]), float(low), float(high), float(p_value))
    return found


def _subtract(a: Floats, b: Floats) -> dict[str, Floats]:
    of_a, of_b = metrics_of(a), metrics_of(b)
    return {name: of_b[name] - of_a[name] for name in of_a}


def _sizes(samples: int) -> list[int]:
    return [min(_ROWS, samples - start) for start in range(0, samples, _ROWS)]


def _draws(items: int, samples: int, seed: int) -> list[Floats]:
    """How often each item is drawn in each sample."""
    generator = np.random.default_rng([seed, 0])
    return [
        generator.multinomial(items, np.full(items, 1 / items), size=size).astype(np.float64)
        for size in _sizes(samples)
    ]
