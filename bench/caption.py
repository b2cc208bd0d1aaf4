"""What captioning files costs, through the command line, against decoding alone in the same run.

    python bench/caption.py                  64 clips of about ten seconds
    python bench/caption.py --model PROJECT  with another model than the shipped one
    python bench/caption.py --json out.json

1. Cold start: seconds from the command to the first caption, for one clip and for many.
2. Clips a second after the first caption, and the same from the processor's seconds: what free cores would do.
3. Decoding every frame of the same clips with as many processes, and how many times that captioning takes.

Takes the clips in ../shared/data/msrvtt/clips whose length is nearest to ten seconds, or renders synthetic ones.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import av

from fewcap.core.config.data import DataConfig, SyntheticConfig
from fewcap.data.prepare import prepare, read_dataset
from fewcap.features.engines import cores

CLIPS = Path(__file__).resolve().parents[2] / "shared" / "data" / "msrvtt" / "clips"
SECONDS = 10.0


def length(path: Path) -> float:
    with av.open(str(path)) as container:
        return float((container.duration or 0) / 1e6)


def find_clips(count: int, scratch: Path) -> list[Path]:
    """Real clips of about ten seconds, or rendered ones."""
    found = sorted(CLIPS.glob("*.mp4"))
    if not found:
        world = SyntheticConfig(train=count, val=0, test=0, seconds=SECONDS)
        prepare(scratch / "data", DataConfig(source="synthetic", synthetic=world), seed=0)
        found = [item.path for item in read_dataset(scratch / "data").items if item.path is not None]
    return sorted(found, key=lambda path: abs(length(path) - SECONDS))[:count]


def decode_all(path: Path) -> None:
    """Every frame of a file and nothing else."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        for _ in container.decode(stream):
            pass


def children_seconds() -> float:
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class Run:
    """One call of the command: seconds until the first and the last caption, and what the processor worked."""

    first: float
    last: float
    processor: float


def caption(paths: list[Path], model: Path | None) -> Run:
    command = [str(Path(sys.executable).with_name("fewcap")), "--quiet", "caption", *map(str, paths), "--json"]
    command += [] if model is None else ["--model", str(model)]
    before, started = children_seconds(), time.perf_counter()
    times = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in process.stdout:
            times.append(time.perf_counter() - started)
    if process.returncode or len(times) != len(paths):
        sys.exit(f"{len(times)} of {len(paths)} clips were captioned (exit code {process.returncode}).")
    return Run(times[0], times[-1], children_seconds() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--model", type=Path, help="a project or model folder; without it the shipped captioner")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        paths = find_clips(args.clips, Path(folder))
        playing = sum(map(length, paths))
        cold = [caption(paths[:1], args.model) for _ in range(3)]
        workers = cores()
        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            pool.map(decode_all, paths[:workers])  # warm
            started = time.perf_counter()
            pool.map(decode_all, paths, chunksize=1)
            decoding = time.perf_counter() - started
        started_core = time.process_time()
        for path in paths:
            decode_all(path)
        decoding_core = time.process_time() - started_core
        many = caption(paths, args.model)
        few = caption(paths[: len(paths) // 4], args.model)
    rest = len(paths) - 1
    # Two runs of different length differ by clips alone: starting up cancels out.
    core_each = (many.processor - few.processor) / (len(paths) - len(paths) // 4)
    result = {
        "clips": len(paths),
        "mean_clip_s": playing / len(paths),
        "cold_start_s": statistics.median(run.first for run in cold),
        "cold_start_core_s": statistics.median(run.processor for run in cold),
        "first_of_many_s": many.first,
        "clips_a_second": rest / (many.last - many.first),
        "clips_a_second_on_free_cores": workers / core_each,
        "core_s_a_clip": core_each,
        "decoding_s": decoding,
        "captioning_over_decoding": (many.last - many.first) / decoding,
        "captioning_over_decoding_core": core_each * len(paths) / decoding_core,
        "share_of_playing_time": many.last / playing,
        "load_average": os.getloadavg()[0],
    }
    for name, value in result.items():
        print(f"{name:30s} {value:10.3f}")
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
