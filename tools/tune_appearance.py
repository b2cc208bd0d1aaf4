"""Trains the last stages of an appearance network on captions: python tools/tune_appearance.py PROJECT --out FILE

ImageNet taught the network to tell breeds of dogs apart; captions teach it what people say of a video. The early
stages stay as they are, so what they see of every picture, whole and through cut-outs, is computed once and kept in
FILE.maps; a second call goes on with it. The last stages (EfficientNet-Lite0: five blocks and the head; PP-LCNetV2:
two blocks and what mixes channels before them) then learn to bring a picture's vector near the sentences of its video
in the sentence encoder's space, and away from other videos' (InfoNCE, and the cosine to the mean of the video's
sentences). After each epoch it says how near a ridge regression from the new vectors comes to the captions of
validation videos, and writes FILE, so that it may be stopped when it has learnt enough. Take FILE by
``features.weights``:

    features: {weights: {efficientnet_lite0: FILE}}  # or pplcnet_v2, as --network says

PROJECT is a project folder. Never use FILE in an experiment that is to know few captions of the same videos.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from fewcap.core import weights
from fewcap.core.config.features import FeaturesConfig
from fewcap.core.config.train import VideoTextConfig
from fewcap.core.errors import FewcapError
from fewcap.core.progress import progress
from fewcap.core.types import VideoItem
from fewcap.data.prepare import read_dataset
from fewcap.features.backbones import efficientnet_lite0, pplcnet_v2
from fewcap.features.picture import WHOLE, Crop, View
from fewcap.features.sources import open_source
from fewcap.features.video import Views, sample_parts
from fewcap.pipeline import Project, prepare
from fewcap.pseudo.videotext import fit_tower, ridge
from fewcap.text.embed import SentenceEncoder

FRAMES, LOOKS = 4, 4  # frames of a clip; looks at a frame, the first one whole
CONFIG = FeaturesConfig(min_frames=FRAMES, max_frames=FRAMES, motion=None, objects=None)


class Late(nn.Module):
    """The part that learns: maps of the early stages [B, c, 14, 14] → [B, d]. Its norms keep ImageNet's statistics."""

    def __init__(self, stages: nn.Sequential) -> None:
        super().__init__()
        self.stages = stages
        self.requires_grad_().eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(x).mean((2, 3))


@dataclass(frozen=True)
class Network:
    """An appearance network in two parts."""

    name: str
    early: Callable[[np.ndarray], Tensor]  # frames uint8 [B, 224, 224, 3] → [B, *shape]
    shape: tuple[int, int, int]
    late: Late
    dim: int
    published: Callable[[], dict[str, Tensor]]  # all weights in the layout of the published file, the late ones as now


def lite0() -> Network:
    """The last five blocks and the head learn; before them lie 112 channels of 14 × 14 cells."""
    source, early = weights.resolve("efficientnet_lite0"), 11
    network = efficientnet_lite0.EfficientNetLite0.load(source)

    def see(frames: np.ndarray) -> Tensor:
        x = network.stem(efficientnet_lite0.scaled(frames, torch.float32, torch.device("cpu")))
        return network.blocks[:early](x)

    def published() -> dict[str, Tensor]:
        state = network.state_dict()
        tuned = {efficientnet_lite0.published_name(name): tensor.contiguous() for name, tensor in state.items()}
        return {**load_file(source), **tuned}

    stages = nn.Sequential(*list(network.blocks)[early:], network.head)
    return Network("efficientnet_lite0", see, (112, 14, 14), Late(stages), efficientnet_lite0.DIM, published)


def pplcnet() -> Network:
    """The last two blocks learn, and what mixes the channels before them, where there are only 256 of 14 × 14 cells."""
    source = weights.resolve("pplcnet_v2")
    network = pplcnet_v2.PPLCNetV2.load(source)
    *early, before = list(network.blocks)[:10]
    assert isinstance(before, pplcnet_v2.Block)

    def see(frames: np.ndarray) -> Tensor:
        x = network.stem(pplcnet_v2.scaled(frames, torch.float32, torch.device("cpu")))
        for block in early:
            x = block(x)
        return before.before_mixing(x)

    stages = nn.Sequential(before.mix, *list(network.blocks)[10:])
    return Network(
        pplcnet_v2.NAME, see, (256, 14, 14), Late(stages), pplcnet_v2.DIM, lambda: pplcnet_v2.published(network)
    )


NETWORKS = {"efficientnet_lite0": lite0, "pplcnet_v2": pplcnet}


@dataclass(frozen=True)
class Pictures:
    """Frames of all videos behind the early stages."""

    maps: np.ndarray  # [n, LOOKS, c, 14, 14]
    video: np.ndarray  # [n], number of the video


def pictures_of(item: VideoItem) -> Iterator[np.ndarray]:
    """uint8 [LOOKS, 224, 224, 3] for each frame."""
    looks = []
    for look in range(LOOKS):
        crop = Crop.drawn(f"{item.id}#{look}") if look else WHOLE
        assert item.path is not None
        with closing(open_source(Path(item.path), CONFIG)) as source:
            views = Views(View(efficientnet_lite0.SIZE, efficientnet_lite0.SIZE))
            looks.append(next(sample_parts(source, [(None, None)], CONFIG, views, crop)).frames)
    yield from np.stack(looks, 1)


@torch.inference_mode()
def look(items: list[VideoItem], network: Network, folder: Path) -> Pictures:
    """Reads all videos, or what an earlier call has kept of the same ones."""
    done, ids = folder / "videos.json", [item.id for item in items]
    kept = json.loads(done.read_text()) if done.exists() else {}
    if kept.get("videos") != ids or kept.get("network") != network.name:
        folder.mkdir(parents=True, exist_ok=True)
        video_of: list[int] = []
        with (folder / "maps.f16").open("wb") as out, progress("look", len(items), "videos") as bar:
            for number, item in enumerate(items):
                try:
                    for frame in pictures_of(item):
                        out.write(network.early(frame).half().contiguous().numpy().tobytes())
                        video_of.append(number)
                except FewcapError as error:
                    print(f"left out: {error}")
                bar.advance()
        kept = {"network": network.name, "videos": ids, "of_frames": video_of}
        done.write_text(json.dumps(kept))
    video = np.array(kept["of_frames"])
    return Pictures(np.memmap(folder / "maps.f16", np.float16, "r", shape=(len(video), LOOKS, *network.shape)), video)


def batch_of(maps: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(maps)).float().contiguous(memory_format=torch.channels_last)


@torch.inference_mode()
def vectors_of(late: Late, dim: int, pictures: Pictures, videos: int) -> np.ndarray:
    """[videos, d]: the mean over the frames, seen whole, of length one."""
    sums = np.zeros((videos, dim))
    for start in range(0, len(pictures.video), 64):
        part = slice(start, start + 64)
        with torch.autocast("cpu", torch.bfloat16):
            found = late(batch_of(pictures.maps[part, 0]))
        np.add.at(sums, pictures.video[part], F.normalize(found.float(), dim=1).numpy())
    return sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)


def nearness(vectors: np.ndarray, items: list[VideoItem], sentences: list[np.ndarray]) -> float:
    """Mean cosine of a validation video's place, by a ridge from training videos, and the mean of its captions."""
    training = [i for i, item in enumerate(items) if item.split == "train" and not item.further]
    validation = [i for i, item in enumerate(items) if item.split == "val"]
    video_of = np.repeat(np.arange(len(training)), [len(sentences[i]) for i in training])
    tower = fit_tower(
        vectors[training].astype(np.float32),
        np.concatenate([sentences[i] for i in training]),
        video_of,
        VideoTextConfig(),
        seed=0,
    )
    places = tower.videos(vectors[validation].astype(np.float32))
    wanted = np.stack([unit(sentences[i] - tower.text_centre).mean(0) for i in validation])
    return float((unit(places) * unit(wanted)).sum(1).mean())


def unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-9))


def first_guess(late: Late, pictures: Pictures, training: np.ndarray, means: np.ndarray) -> nn.Linear:
    """From a picture's vector to its video's sentences, as the untrained network's vectors allow it."""
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        parts = [
            late(batch_of(pictures.maps[part, 0])).float() for part in np.array_split(training, len(training) // 64 + 1)
        ]
    x = torch.cat(parts).numpy().astype(np.float64)
    scale, centre = np.linalg.norm(x, axis=1).mean(), x.mean(0)
    guess = ridge((x - centre) / scale, means[pictures.video[training]].astype(np.float64), 3.0) / scale
    project = nn.Linear(x.shape[1], means.shape[1])
    project.weight.data = torch.from_numpy(guess.T.copy()).float()
    project.bias.data = torch.from_numpy(-centre @ guess).float()
    return project


def contrast(places: Tensor, texts: Tensor, video: Tensor, warmth: Tensor) -> Tensor:
    """InfoNCE in both directions; other sentences of the same video are no strangers. [B, d], [B, d], [B]."""
    logits = places @ texts.T * warmth.exp()
    akin = (video[:, None] == video[None]) & ~torch.eye(len(video), dtype=torch.bool)
    logits = logits.masked_fill(akin, -1e4)
    right = torch.arange(len(video))
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


def tune(
    network: Network,
    pictures: Pictures,
    items: list[VideoItem],
    texts: list[np.ndarray],
    args: argparse.Namespace,
    keep: Callable[[], None],
) -> None:
    """Trains the late part of ``network``; ``keep`` is called after each epoch, when it is the average of the steps."""
    centre = np.concatenate([t for item, t in zip(items, texts, strict=True) if not item.further]).mean(0)
    sentences = [unit(own - centre) for own in texts]
    means = np.stack([own.mean(0) for own in sentences]).astype(np.float32)
    averaged = network.late
    late = copy.deepcopy(averaged).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    training = np.flatnonzero([items[i].split == "train" for i in pictures.video])

    def judged(late: Late) -> float:
        return nearness(vectors_of(late, network.dim, pictures, len(items)), items, texts)

    print(f"before: nearness {judged(late):.4f}", flush=True)
    project = first_guess(late, pictures, training, means)
    warmth = nn.Parameter(torch.tensor(math.log(15.0)))
    groups = [(list(late.parameters()), args.rate), (list(project.parameters()), 3 * args.rate), ([warmth], 1e-3)]
    optimiser = torch.optim.AdamW([{"params": own, "weight_decay": 0.02} for own, _ in groups])
    random = np.random.default_rng(0)
    steps = args.epochs * (len(training) // args.batch)
    step = 0
    with progress("tune", steps, "steps") as bar:
        for epoch in range(args.epochs):
            order = random.permutation(training)
            for start in range(0, len(order) - args.batch + 1, args.batch):
                share = min(1.0, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / steps))
                for group, (_, rate) in zip(optimiser.param_groups, groups, strict=True):
                    group["lr"] = rate * share
                chosen = np.sort(order[start : start + args.batch])
                video = pictures.video[chosen]
                seen = batch_of(np.stack([pictures.maps[i, int(random.integers(LOOKS))] for i in chosen]))
                said = torch.from_numpy(np.stack([sentences[v][random.integers(len(sentences[v]))] for v in video]))
                with torch.autocast("cpu", torch.bfloat16):
                    vectors = late(seen)
                places = F.normalize(project(F.dropout(vectors.float(), 0.1)), dim=1)
                cosine = (places * F.normalize(torch.from_numpy(means[video]), dim=1)).sum(1).mean()
                loss = contrast(places, said.float(), torch.from_numpy(video), warmth) + 2 * (1 - cosine)
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(late.parameters(), 1.0)
                optimiser.step()
                step += 1
                decay = min(0.995, (1 + step) / (10 + step))
                with torch.no_grad():
                    torch._foreach_lerp_(list(averaged.parameters()), list(late.parameters()), 1 - decay)
                bar.advance(1, note=f"loss {loss.item():.3f}")
            keep()
            print(f"epoch {epoch + 1}: nearness {judged(averaged):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("project", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="weights in the layout of the published file")
    parser.add_argument("--network", choices=sorted(NETWORKS), default="efficientnet_lite0")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=96, help="pictures a step")
    parser.add_argument("--rate", type=float, default=3e-4)
    args = parser.parse_args()
    torch.manual_seed(0)
    project = Project.open(args.project, [])
    prepare(project)
    items = [i for i in read_dataset(project.data).items if i.split != "test" and i.path and i.captions]
    network = NETWORKS[args.network]()
    pictures = look(items, network, args.out.with_suffix(".maps"))
    encoder = SentenceEncoder.load()
    embeddings = encoder.encode([caption for item in items for caption in item.captions])
    bounds = np.cumsum([len(item.captions) for item in items])[:-1]

    def keep() -> None:
        part = args.out.with_suffix(".part")
        save_file(network.published(), part)
        part.replace(args.out)

    tune(network, pictures, items, np.split(embeddings, bounds), args, keep)


if __name__ == "__main__":
    main()
