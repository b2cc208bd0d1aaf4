"""Train the shipped language models of the pseudo-labeller on, from the ones that are shipped now.

    python tools/train_language_models.py ../shared/data/corpus/{coco,flickr,video_other}.txt.gz --out models

One process on one core. A run that was stopped goes on from its last checkpoint (`OUT/scratch`) when the same command
is given again; delete that folder when the run is over. Copy the rest of OUT over `src/fewcap/assets/xlnet` and bring
the tables of its README.md up to date with `card.json` to ship the result.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import torch

from fewcap.core.config.label import ModelsConfig
from fewcap.pseudo.training import train_models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="+", help="text files with one caption a line")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--base", default="fewcap", help="models to start from: fewcap (shipped) or a folder")
    parser.add_argument("--forward", type=float, default=0.6, help="passes over the corpus")
    parser.add_argument("--backward", type=float, default=1.5)
    parser.add_argument("--masked", type=float, default=0.4)
    parser.add_argument("--classifier", type=float, default=2.5)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(1)
    config = ModelsConfig(
        corpus=tuple(args.corpus),
        base=args.base,
        forward_epochs=args.forward,
        backward_epochs=args.backward,
        masked_epochs=args.masked,
        classifier_epochs=args.classifier,
        rate=1e-3,
    )
    train_models(config, args.out, scratch=args.out / "scratch", seed=0)


if __name__ == "__main__":
    main()
