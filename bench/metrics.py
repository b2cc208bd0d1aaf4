"""BLEU, ROUGE-L and CIDEr-D against pycocoevalcap in one run: seconds, ratio, and whether the scores are equal.

    python bench/metrics.py                      # 3,000 captions x 20 references, made up
    python bench/metrics.py --references test_videodatainfo.json   # real references, COCO or MSR-VTT JSON, JSONL, CSV

Both sides get the same tokenised captions; building the reference side is part of both times.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fewcap.evaluation.bleu import bleu_counts
from fewcap.evaluation.cider import CiderD
from fewcap.evaluation.files import read_references
from fewcap.evaluation.ngrams import ReferenceSet
from fewcap.evaluation.ptb import tokenise
from fewcap.evaluation.rouge import rouge_l


def made_up(items: int, references: int, seed: int = 0) -> tuple[list[str], dict[str, list[str]]]:
    """Sentences of about ten words, drawn as words of captions are: few often, many rarely."""
    draw = np.random.default_rng(seed)
    words = np.array([f"w{number}" for number in range(8000)])
    share = 1 / (np.arange(8000) + 5)
    share /= share.sum()

    def sentence(topic: Any) -> str:
        common = draw.choice(words, size=draw.integers(3, 9), p=share)
        own = draw.choice(topic, size=draw.integers(2, 7))
        return " ".join(draw.permutation(np.concatenate([common, own])))

    captions, groups = [], {}
    for item in range(items):
        topic = draw.choice(words, size=12, p=share)
        groups[str(item)] = [sentence(topic) for _ in range(references)]
        captions.append(sentence(topic))
    return captions, groups


def real(path: Path, items: int) -> tuple[list[str], dict[str, list[str]]]:
    """One reference of each item becomes its caption; small sets are repeated until there are enough items."""
    draw = random.Random(0)
    groups = [[tokenise(text) for text in group] for group in read_references(path).values() if len(group) > 1]
    captions, references = [], {}
    for number in range(items):
        group = list(groups[number % len(groups)])
        captions.append(group.pop(draw.randrange(len(group))))
        references[str(number)] = group
    return captions, references


def ours(captions: list[str], references: dict[str, list[str]]) -> dict[str, float]:
    prepared = ReferenceSet(references)
    bleu = bleu_counts(captions, prepared).corpus()
    rouge = rouge_l(captions, list(references.values())).mean()
    cider = CiderD(prepared).tokenised_scores(captions).mean()
    return {"bleu4": float(bleu[3]), "rouge_l": float(rouge), "cider_d": float(cider)}


def theirs(captions: list[str], references: dict[str, list[str]]) -> dict[str, float]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    results = {key: [caption] for key, caption in zip(references, captions, strict=True)}
    with contextlib.redirect_stdout(io.StringIO()):
        bleu, _ = Bleu(4).compute_score(references, results)
        rouge, _ = Rouge().compute_score(references, results)
        cider, _ = Cider().compute_score(references, results)
    return {"bleu4": bleu[3], "rouge_l": float(rouge), "cider_d": float(cider)}


def timed(work: Callable[[], dict[str, float]], repeat: int) -> tuple[float, dict[str, float]]:
    best, found = float("inf"), {}
    for _ in range(repeat):
        started = time.perf_counter()
        found = work()
        best = min(best, time.perf_counter() - started)
    return best, found


def main() -> None:
    parser = argparse.ArgumentParser(description="Metrics against pycocoevalcap.")
    parser.add_argument("--captions", type=int, default=3000, help="captions to score")
    parser.add_argument("--references-each", type=int, default=20, help="references a caption, when made up")
    parser.add_argument("--references", type=Path, help="a file of real references")
    parser.add_argument("--repeat", type=int, default=2, help="runs of each, of which the fastest counts")
    arguments = parser.parse_args()
    if arguments.references:
        captions, references = real(arguments.references, arguments.captions)
    else:
        captions, references = made_up(arguments.captions, arguments.references_each)
    own_seconds, own = timed(lambda: ours(captions, references), arguments.repeat)
    their_seconds, other = timed(lambda: theirs(captions, references), arguments.repeat)
    result = {
        "captions": len(captions),
        "references": sum(map(len, references.values())),
        "fewcap_seconds": round(own_seconds, 3),
        "pycocoevalcap_seconds": round(their_seconds, 3),
        "ratio": round(their_seconds / own_seconds, 1),
        "largest_difference": max(abs(own[name] - other[name]) for name in own),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
