"""Which motion features are worth their cost: what a linear model reads from them about MSR-VTT clips.

    python bench/motion.py NAME=FEATURES [NAME=FEATURES ...]

Each FEATURES is a folder of extracted features of ../shared/data/msrvtt/clips. Two probes on the means of a video's
vectors, by ridge regression, five folds, three shuffles: the category of the clip (20 of them), and the clip's
captions among those of the fold (embedded by MiniLM; recall at 1 and 10 in per cent). Only clips that are videos count.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from fewcap.core.types import KINDS
from fewcap.features.store import FeatureStore
from fewcap.text.embed import SentenceEncoder

MSRVTT = Path(__file__).resolve().parents[2] / "shared" / "data" / "msrvtt"
FOLDS, SHUFFLES, CAPTIONS = 5, 3, 5


def read_annotations() -> tuple[dict[str, int], dict[str, list[str]]]:
    categories: dict[str, int] = {}
    captions: dict[str, list[str]] = defaultdict(list)
    for name in ("train_val", "test"):
        with gzip.open(MSRVTT / f"{name}_videodatainfo.json.gz", "rt", encoding="utf-8") as handle:
            content = json.load(handle)
        categories |= {video["video_id"]: video["category"] for video in content["videos"]}
        for sentence in content["sentences"]:
            captions[sentence["video_id"]].append(sentence["caption"])
    return categories, captions


def means(store: FeatureStore, ids: list[str], kind: str) -> np.ndarray:
    """Standardised means of a video's vectors, each kind with the same total weight: [n, d]."""
    rows = [getattr(store[video], kind).float().mean(0).numpy() for video in ids]
    x = np.nan_to_num(np.stack(rows))
    return (x - x.mean(0)) / (x.std(0) + 1e-6) / np.sqrt(x.shape[1])


def ridge(x: np.ndarray, y: np.ndarray, test: np.ndarray, strength: float) -> np.ndarray:
    """Predictions for ``test`` [m, k], by the kernel form: there are fewer clips than numbers."""
    gram = x @ x.T
    offset = y.mean(0)
    return test @ (x.T @ np.linalg.solve(gram + strength * np.eye(len(x)), y - offset)) + offset


def probe(x: np.ndarray, categories: np.ndarray, texts: np.ndarray) -> dict[str, float]:
    """The best of a few strengths for each figure, in per cent."""
    best: dict[str, float] = defaultdict(float)
    one_hot = np.eye(categories.max() + 1)[categories]
    for strength in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        found: dict[str, list[float]] = defaultdict(list)
        for shuffle in range(SHUFFLES):
            order = np.random.default_rng(shuffle).permutation(len(x))
            for fold in range(FOLDS):
                held = order[fold::FOLDS]
                seen = np.setdiff1d(order, held)
                label = ridge(x[seen], one_hot[seen], x[held], strength).argmax(1)
                found["category"].append(float((label == categories[held]).mean()))
                guess = ridge(x[seen], texts[seen], x[held], strength)
                guess /= np.linalg.norm(guess, axis=1, keepdims=True)
                similarity = guess @ texts[held].T  # [m, m]
                rank = (similarity > np.diag(similarity)[:, None]).sum(1)
                found["recall@1"].append(float((rank < 1).mean()))
                found["recall@10"].append(float((rank < 10).mean()))
        for name, values in found.items():
            best[name] = max(best[name], 100 * float(np.mean(values)))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="+", help="name=folder")
    args = parser.parse_args()
    stores = {name: FeatureStore(Path(folder)) for name, folder in (entry.split("=", 1) for entry in args.features)}
    clips = {path.stem for path in (MSRVTT / "clips").glob("*.mp4")}
    ids = [video for video in next(iter(stores.values())).ids if video in clips]
    ids = [video for video in ids if all(video in store for store in stores.values())]
    categories, captions = read_annotations()
    encoder = SentenceEncoder.load()
    flat = encoder.encode([caption for video in ids for caption in captions[video][:CAPTIONS]])
    texts = flat.reshape(len(ids), CAPTIONS, -1).mean(1)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    labels = np.array([categories[video] for video in ids])
    print(f"{len(ids)} clips")
    parts: dict[str, np.ndarray] = {}
    for name, store in stores.items():
        parts |= {f"{name} {kind}": means(store, ids, kind) for kind in KINDS if kind in store.kinds}
    first = next(iter(stores))
    sets = [[key] for key in parts]
    sets += [[f"{first} appearance", f"{name} motion"] for name in stores]
    sets += [[f"{first} appearance", f"{first} objects", f"{name} motion"] for name in stores]
    for keys in sets:
        figures = probe(np.concatenate([parts[key] for key in keys], axis=1), labels, texts)
        print(f"{' + '.join(keys):60s}", "  ".join(f"{name} {value:5.1f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
