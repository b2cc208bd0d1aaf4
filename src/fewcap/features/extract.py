"""The stage that looks at videos: every backbone's vectors of every video, in shards with an index."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.core.progress import progress
from fewcap.core.store import Manifest, Stage, Workspace, fingerprint, run_stage, sha256_file
from fewcap.core.types import KINDS, VideoFeatures
from fewcap.data.packed import PackedFeatures
from fewcap.data.prepare import Dataset, read_dataset
from fewcap.features.backbones import build
from fewcap.features.compute import Computer, Job
from fewcap.features.engines import Done, Unit, cores, run_here, run_processes, run_ray
from fewcap.features.sight import Sight
from fewcap.features.store import INDEX, tensor_key

log = logging.getLogger("fewcap.features")

KIND = "features"
PROBLEMS = "problems.jsonl"
REVISION = 1

_SHARD = 256  # videos in a shard
_UNIT = 8  # videos that a worker takes at a time
_FEW = 4  # so few videos are done sooner without starting workers


def extract(data: Path, out: Path, config: FeaturesConfig) -> Manifest:
    """Writes ``shards/*.safetensors``, ``index.json`` and ``problems.jsonl`` for the videos of a data folder."""
    dataset = read_dataset(data)
    with_files = [item for item in dataset.items if item.path is not None]
    if not with_files and dataset.packed_features is not None:
        return _import_packed(dataset, dataset.packed_features, out)
    cards = build(config).cards  # says what is missing before work begins
    # Captions are no input: another choice of sentences leaves the features as they are.
    inputs = {"videos": fingerprint([[item.id, dataset.hashes[item.id]] for item in dataset.items])}
    inputs |= {f"backbone {kind}": card.hash for kind, card in cards.items()}
    if config.crops:
        inputs["training videos"] = fingerprint(sorted(_training(dataset)))
    stage = Stage(
        out,
        KIND,
        inputs=inputs,
        config=config.content(),
        revision=REVISION,
    )
    backbones: dict[str, Any] = {
        kind: {"name": card.name, "dim": card.dim, "hash": card.hash} for kind, card in cards.items()
    }
    return run_stage(stage, lambda workspace: _build(workspace, dataset, config, backbones))


class Extractor:
    """Features of single files, the same as ``extract`` gives: for captioning a video that is not in a data set."""

    def __init__(self, config: FeaturesConfig) -> None:
        self.config = config
        self.computer = Computer(config)

    @property
    def kinds(self) -> dict[str, str]:
        """The hash of each kind, to compare with that of the features a model was trained on."""
        return {kind: card.hash for kind, card in self.computer.backbones.cards.items()}

    def features_of(self, path: Path | str, *, start: float | None = None, end: float | None = None) -> VideoFeatures:
        """Features of a video, a folder of images or a photograph, or of its part from ``start`` to ``end`` seconds."""
        return self.look(path, start=start, end=end)[0]

    def look(
        self, path: Path | str, *, start: float | None = None, end: float | None = None
    ) -> tuple[VideoFeatures, Sight | None]:
        """The same, and what is to be seen when it is nothing but one colour or noise."""
        seen = self.computer.look(Path(path), start, end)
        for warning in seen.facts.get("warnings", ()):
            log.warning("%s: %s", path, warning)
        assert seen.features is not None
        return seen.features, seen.facts.get("sight")


def _build(
    workspace: Workspace, dataset: Dataset, config: FeaturesConfig, backbones: Mapping[str, Any]
) -> dict[str, Any]:
    jobs = [Job(item.id, str(item.path)) for item in dataset.items if item.path is not None]
    errors = {
        item.id: "only ready features of it exist, and they do not mix with extracted ones; give its file as well."
        for item in dataset.items
        if item.path is None
    }
    units = _units(jobs)
    _run_all(workspace, "features", units, config)
    video_of = _cropped(workspace, dataset, units, config)
    paths = {job.id: job.path for job in jobs}
    crop_jobs = [Job(name, paths[video], cropped=True) for name, video in video_of.items()]
    crop_units = _units(crop_jobs, "crops-")
    _run_all(workspace, "cut-outs", crop_units, config)
    writer = _ShardWriter(workspace)
    videos: dict[str, Any] = {}
    warnings: dict[str, list[str]] = {}
    for row, tensors in _unit_rows(workspace, units):
        if row["error"] is not None:
            errors[row["id"]] = row["error"]
            continue
        facts = dict(row["facts"])
        if noted := facts.pop("warnings", None):
            warnings[row["id"]] = noted
        videos[row["id"]] = {"shard": writer.add(tensors), **facts}
    for row, tensors in _unit_rows(workspace, crop_units):
        if row["error"] is None:
            videos[video_of[row["id"]]].setdefault("crops", {})[row["id"]] = writer.add(tensors)
    writer.flush()
    return _finish(workspace, backbones, videos, errors, warnings)


def _run_all(workspace: Workspace, what: str, units: Sequence[Unit], config: FeaturesConfig) -> None:
    """Runs the units that an earlier run has not finished."""
    missing = [unit for unit in units if not workspace.exists(_unit_file(unit.name))]
    total = sum(len(unit.jobs) for unit in units)
    if not total:
        return
    with progress(what, total, "videos") as bar:
        bar.advance(total - sum(len(unit.jobs) for unit in missing))
        for done in _run(missing, config):
            _save_unit(workspace, done)
            bar.advance(len(done.unit.jobs))


def _run(units: Sequence[Unit], config: FeaturesConfig) -> Iterator[Done]:
    if not units:
        return iter(())
    if config.engine == "ray":
        return run_ray(units, config, config.workers)
    workers = config.workers or cores()
    if workers == 1 or sum(len(unit.jobs) for unit in units) <= _FEW:
        return run_here(units, config)
    return run_processes(units, config, workers)


def _cropped(workspace: Workspace, dataset: Dataset, units: Sequence[Unit], config: FeaturesConfig) -> dict[str, str]:
    """Names of the cut-outs to look at, each with its video: training videos of which there are few frames.

    Further corpora have none: they train in some epochs only, and may be many times as large.
    """
    if not config.crops:
        return {}
    ids = {item.id for item in dataset.items}
    training = _training(dataset)
    found: dict[str, str] = {}
    for row, _ in _unit_rows(workspace, units):
        video = row["id"]
        if video in training and row["error"] is None and len(row["facts"]["timestamps"]) < config.min_frames:
            found |= {f"{video} (cut-out {number})": video for number in range(1, config.crops + 1)}
    if clash := ids & found.keys():
        raise FewcapError(f"a video is called '{min(clash)}', as a cut-out of another would be; rename it.")
    return found


def _training(dataset: Dataset) -> set[str]:
    return {item.id for item in dataset.items if item.split == "train" and not item.further}


def _units(jobs: Sequence[Job], prefix: str = "") -> list[Unit]:
    """Parts of the work that do not depend on who does it, so that any number of workers can go on with it."""
    size = min(max(len(jobs) // 8, 1), _UNIT)
    return [Unit(f"{prefix}{first:08d}", tuple(jobs[first : first + size])) for first in range(0, len(jobs), size)]


def _unit_file(name: str) -> str:
    return f"scratch/units/{name}.safetensors"


def _save_unit(workspace: Workspace, done: Done) -> None:
    lost = {seen.id: seen.error for seen in done.lost}
    if lost:
        workspace.write_json(f"scratch/units/{done.unit.name}.lost.json", lost)
    for video, error in lost.items():
        log.warning("%s: %s", video, error)
    workspace.write_bytes(_unit_file(done.unit.name), done.content)


def _unit_rows(workspace: Workspace, units: Sequence[Unit]) -> Iterator[tuple[dict[str, Any], dict[str, torch.Tensor]]]:
    """The rows of all units in the order of the data set, each with its tensors."""
    for unit in units:
        lost_file = f"scratch/units/{unit.name}.lost.json"
        for video, error in (workspace.read_json(lost_file) if workspace.exists(lost_file) else {}).items():
            yield {"id": video, "facts": {}, "error": error}, {}
        with safe_open(workspace.path(_unit_file(unit.name)), framework="pt") as file:
            for row in json.loads(file.metadata()["videos"]):
                keys = [tensor_key(kind, row["id"]) for kind in row["facts"].get("counts", ())]
                yield row, {key: file.get_tensor(key) for key in keys}


class _ShardWriter:
    """Collects videos and writes a shard whenever one is full."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._tensors: dict[str, torch.Tensor] = {}
        self._shards = self._videos = 0

    def add(self, tensors: Mapping[str, torch.Tensor]) -> str:
        """Takes the tensors of a video; returns the name of the shard that will hold them."""
        if self._videos == _SHARD:
            self.flush()
        self._tensors.update(tensors)
        self._videos += 1
        return self._name()

    def flush(self) -> None:
        if self._videos:
            self._workspace.write_tensors(self._name(), self._tensors)
            self._tensors, self._videos = {}, 0
            self._shards += 1

    def _name(self) -> str:
        return f"shards/{self._shards:05d}.safetensors"


def _finish(
    workspace: Workspace,
    backbones: Mapping[str, Any],
    videos: Mapping[str, Any],
    errors: Mapping[str, str],
    warnings: Mapping[str, list[str]],
) -> dict[str, Any]:
    if not videos:
        first = next(iter(errors.items()), ("", "the data folder names no videos."))
        raise FewcapError(f"no video gave features; the first one, '{first[0]}': {first[1]}")
    if errors:
        log.warning("%d of %d videos gave no features; see %s", len(errors), len(errors) + len(videos), PROBLEMS)
    if warnings:
        log.warning("%d videos are damaged and were read in part; see %s", len(warnings), PROBLEMS)
    workspace.write_json(INDEX, {"backbones": dict(backbones), "videos": dict(videos)})
    rows = [{"id": video, "error": error} for video, error in errors.items()]
    rows += [{"id": video, "warning": text} for video, texts in warnings.items() for text in texts]
    workspace.write_jsonl(PROBLEMS, rows)
    totals = {
        kind: sum(facts["counts"].get(kind, 0) for facts in videos.values()) for kind in KINDS if kind in backbones
    }
    return {"videos": len(videos), "errors": len(errors), "damaged": len(warnings), "vectors": totals}


def _import_packed(dataset: Dataset, path: Path, out: Path) -> Manifest:
    """Features that somebody else extracted, as they came with the data: appearance only."""
    packed = PackedFeatures(path)
    digest = sha256_file(path)
    stage = Stage(
        out,
        KIND,
        inputs={"videos": fingerprint([item.id for item in dataset.items]), "packed": digest},
        config={"packed": path.name},
        revision=REVISION,
    )

    def build_packed(workspace: Workspace) -> dict[str, Any]:
        writer = _ShardWriter(workspace)
        videos: dict[str, Any] = {}
        errors: dict[str, str] = {}
        dim = 0
        for item in dataset.items:
            try:
                x = torch.from_numpy(packed[item.id]).half()  # [n, d]
            except (FewcapError, KeyError) as error:
                errors[item.id] = str(error)
                continue
            if dim and x.shape[1] != dim:
                raise FewcapError(f"{path}: features of '{item.id}' have {x.shape[1]} numbers, others {dim}.")
            dim = x.shape[1]
            shard = writer.add({tensor_key("appearance", item.id): x})
            videos[item.id] = {"shard": shard, "counts": {"appearance": len(x)}, "timestamps": None, "clips": []}
        writer.flush()
        backbones = {"appearance": {"name": path.stem, "dim": dim, "hash": digest}}
        return _finish(workspace, backbones, videos, errors, {})

    return run_stage(stage, build_packed)
