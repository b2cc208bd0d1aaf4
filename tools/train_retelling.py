"""Train the retelling model of the pseudo-labeller: what somebody else says of the same video.

    python tools/train_retelling.py videodatainfo.json.gz=2 validation.jsonl.gz captions.jsonl.gz=0.5 --out models

Files are MSR-VTT's JSON, or JSON lines with a list of captions each; =2 draws a file's videos twice as often. One
process on one core. A run that was stopped goes on from its last checkpoint (`OUT/scratch`) when the same command is
given again; delete that folder when the run is over. Copy the rest of OUT over `src/fewcap/assets/retelling` and bring
its README.md up to date with `card.json` to ship the result.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import torch

from fewcap.pseudo.retelling_training import Training, train_retelling
from fewcap.text.embed import SentenceEncoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="+", help="FILE or FILE=WEIGHT")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=Training.steps)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    named = [name.partition("=") for name in args.corpora]
    corpora = {Path(file): float(weight or 1) for file, _, weight in named}
    train_retelling(corpora, args.out, Training(steps=args.steps), encoder=SentenceEncoder.load())


if __name__ == "__main__":
    main()
