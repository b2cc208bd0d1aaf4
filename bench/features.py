"""What feature extraction costs, as ratios measured in one run.

    python bench/features.py                 50 clips: against decoding alone, the plain loop and the playing time
    python bench/features.py --memory        also the peak memory of a worker for 50 and 500 clips
    python bench/features.py --network       only the forms of the appearance network: milliseconds a frame, difference
    python bench/features.py --json out.json

Takes the clips in ../shared/data/msrvtt/clips, or renders synthetic ones without them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image

from fewcap.core import weights
from fewcap.core.config.data import DataConfig, SyntheticConfig
from fewcap.core.config.features import FeaturesConfig
from fewcap.data.prepare import prepare, read_dataset
from fewcap.features.backbones import build
from fewcap.features.backbones.efficientnet_lite0 import SIZE, EfficientNetLite0, Folded, scaled
from fewcap.features.compute import Job
from fewcap.features.engines import Unit, cores, run_processes
from fewcap.features.extract import extract
from fewcap.features.store import FeatureStore
from fewcap.features.video import sample_video

CLIPS = Path(__file__).resolve().parents[2] / "shared" / "data" / "msrvtt" / "clips"


def find_clips(count: int, scratch: Path) -> list[Path]:
    """Real clips, or rendered ones; repeated when there are too few."""
    found = sorted(CLIPS.glob("*.mp4"))
    if not found:
        world = SyntheticConfig(train=min(count, 60), val=0, test=0)
        prepare(scratch / "data", DataConfig(source="synthetic", synthetic=world), seed=0)
        found = [item.path for item in read_dataset(scratch / "data").items if item.path is not None]
    return (found * (count // len(found) + 1))[:count]


def decode_all(path: Path) -> float:
    """Every frame of a file and nothing else; returns the playing time in seconds."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for _ in container.decode(stream):
            pass
        return float((container.duration or 0) / 1e6)


def plain_loop(paths: list[Path], config: FeaturesConfig) -> None:
    """What one writes first: one process, all frames to RGB, one frame at a time through the network as published."""
    network = EfficientNetLite0.load(weights.resolve("efficientnet_lite0"))
    backbones = build(config)
    for path in paths:
        sample = sample_video(path, config, backbones.views)  # for the moments; its time is taken off below
        wanted = set(sample.frame_times)
        maps = []
        with av.open(str(path)) as container, torch.inference_mode():
            for frame in container.decode(video=0):
                image = Image.fromarray(frame.to_ndarray(format="rgb24"))
                if round(frame.time or 0.0, 3) in wanted:
                    small = np.array(image.resize((SIZE, SIZE), Image.Resampling.BICUBIC))[None]
                    maps.append(network(scaled(small, torch.float32, torch.device("cpu")).contiguous()))
            joined = torch.cat(maps)
            _ = joined.mean((2, 3))
            assert backbones.motion is not None
            assert backbones.objects is not None
            backbones.motion(sample, joined)
            backbones.objects(sample, joined)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def processor(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def run_default(paths: list[Path], config: FeaturesConfig, workers: int) -> None:
    jobs = [Job(str(i), str(path)) for i, path in enumerate(paths)]
    units = [Unit(str(i), tuple(jobs[i : i + 8])) for i in range(0, len(jobs), 8)]
    for _ in run_processes(units, config, workers):
        pass


def startup(config: FeaturesConfig, paths: list[Path], workers: int) -> float:
    """Starting the workers, with one video each: part of any run, however long."""
    units = [Unit(str(i), (Job(str(i), str(paths[0])),)) for i in range(workers)]
    return timed(lambda: list(run_processes(units, config, workers)))


def read_ratio(paths: list[Path], config: FeaturesConfig, scratch: Path) -> dict[str, float]:
    """1,000 random reads of stored features against decoding."""
    captions = scratch / "captions.csv"
    some = sorted(set(paths))[:16]
    captions.write_text("video,caption\n" + "".join(f"{path.name},a clip\n" for path in some))
    data = DataConfig(source="folder", captions=(captions,), videos=(some[0].parent,))
    prepare(scratch / "reads", data, seed=0)
    extract(scratch / "reads", scratch / "features", config)
    store = FeatureStore(scratch / "features")
    picks = random.Random(0).choices(store.ids, k=1000)
    reading = timed(lambda: [float(store[video].appearance[0, 0]) for video in picks]) / 1000  # type: ignore[index]
    decoding = timed(lambda: [decode_all(path) for path in some]) / len(some)
    return {"read_ms": 1e3 * reading, "decode_ms": 1e3 * decoding, "reads_faster_than_decoding": decoding / reading}


def processor_time(network: torch.nn.Module, x: torch.Tensor) -> float:
    """Seconds of the processor, which other work on the machine disturbs less than seconds of the clock."""
    started = time.process_time()
    network(x)
    return time.process_time() - started


def network_forms() -> None:
    """Milliseconds of one core a frame, and the relative difference of the vectors to the network as published."""
    path = weights.resolve("efficientnet_lite0")
    published = EfficientNetLite0.load(path)
    cpu = torch.device("cpu")
    frames = np.random.default_rng(0).integers(0, 256, (16, 14, 14, 3), dtype=np.uint8)
    pictures = np.stack(
        [np.asarray(Image.fromarray(frame).resize((SIZE, SIZE), Image.Resampling.BICUBIC)) for frame in frames]
    )
    last: dict[str, Any] = {"memory_format": torch.channels_last}
    forms: dict[str, tuple[torch.nn.Module, torch.dtype, bool]] = {
        "as published": (published, torch.float32, False),
        "as published, channels-last": (EfficientNetLite0.load(path).to(**last), torch.float32, True),
        "as published, bfloat16": (EfficientNetLite0.load(path).bfloat16().to(**last), torch.bfloat16, True),
        "folded and fused": (Folded(published, torch.float32, cpu), torch.float32, True),
        "folded and fused, bfloat16": (Folded(published, torch.bfloat16, cpu), torch.bfloat16, True),
        "compiled": (torch.compile(EfficientNetLite0.load(path), dynamic=False), torch.float32, False),  # type: ignore[dict-item]
    }
    torch._inductor.config.freezing = True
    with torch.inference_mode():
        expected = published(scaled(pictures, torch.float32, cpu)).mean((2, 3))
        for name, (network, dtype, channels_last) in forms.items():
            figures = []
            difference = 0.0
            for batch in (1, 4) if name == "compiled" else (1, 4, 8, 16):
                x = scaled(pictures[:batch], dtype, cpu)
                x = x if channels_last else x.contiguous()
                found = network(x).float().mean((2, 3))
                difference = float((found - expected[:batch]).norm() / expected[:batch].norm())
                best = min(processor_time(network, x) for _ in range(12))
                figures.append(f"{batch}: {1e3 * best / batch:6.2f}")
            print(f"{name:30s} ms a frame in batches of {'  '.join(figures)}   difference {difference:.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=50)
    parser.add_argument("--loop-clips", type=int, default=10, help="clips for the plain loop, which is slow")
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--memory", action="store_true", help="also run 500 clips and compare peak memory")
    parser.add_argument("--network", action="store_true", help="only compare forms of the appearance network")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.network:
        network_forms()
        return
    av.logging.set_level(None)
    # the plain loop knows this network; the default one is timed by bench/caption.py
    config = FeaturesConfig(appearance="efficientnet_lite0", frame_rate=2, min_frames=8, max_frames=20)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        paths = find_clips(args.clips, scratch)
        few = paths[: args.loop_clips]
        with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
            pool.map(decode_all, paths[: args.workers])  # warm
            playing = 0.0

            def decode() -> None:
                nonlocal playing
                playing = sum(pool.imap_unordered(decode_all, paths))

            decoding = timed(decode)
        start = statistics.median(startup(config, paths, args.workers) for _ in range(2))
        before = processor(resource.RUSAGE_CHILDREN)
        default = timed(lambda: run_default(paths, config, args.workers))
        default_core = processor(resource.RUSAGE_CHILDREN) - before
        memory = {"worker_peak_mb_50": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024}
        views = build(config).views
        start_core = processor(resource.RUSAGE_SELF)
        sampling = timed(lambda: [sample_video(path, config, views) for path in few])
        sampling_core = processor(resource.RUSAGE_SELF) - start_core
        loop = (timed(lambda: plain_loop(few, config)) - sampling) / len(few) * len(paths)
        loop_core = processor(resource.RUSAGE_SELF) - start_core - 2 * sampling_core
        loop_core *= len(paths) / len(few)
        net = max(default - start, 1e-9)
        result: dict[str, float] = {
            "clips": len(paths),
            "workers": args.workers,
            "playing_s": playing,
            "decoding_s": decoding,
            "default_s": default,
            "startup_s": start,
            "plain_loop_s": loop,
            "default_over_decoding": net / decoding,
            "faster_than_plain_loop": loop / net,
            # On a machine with other work the processor's seconds say what free cores would do.
            "default_core_s": default_core,
            "plain_loop_core_s": loop_core,
            "faster_on_free_cores": loop_core / (default_core / args.workers),
            "share_of_playing_time": default / playing,
            **read_ratio(paths, config, scratch),
        }
        if args.memory:
            run_default(find_clips(500, scratch), config, args.workers)
            memory["worker_peak_mb_500"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        result |= memory
    for name, value in result.items():
        print(f"{name:28s} {value:10.3f}")
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
