"""The stage: the same bytes however it is run, resumed or disturbed."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from media import picture, write_video
from PIL import Image

from fewcap.core.config.data import DataConfig
from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import read_jsonl
from fewcap.data.prepare import prepare, read_dataset
from fewcap.features import engines
from fewcap.features import extract as stage
from fewcap.features.extract import Extractor, extract
from fewcap.features.picture import View
from fewcap.features.store import FeatureStore
from fewcap.features.video import Views, sample_video

CONFIG = FeaturesConfig(appearance="efficientnet_lite0", workers=1, min_frames=3, max_frames=3, max_clips=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven videos of different lengths, a folder of images, a photograph, and a file that breaks while it is read."""
    folder = tmp_path_factory.mktemp("data")
    videos = folder / "videos"
    videos.mkdir()
    for i in range(11):
        write_video(videos / f"v{i}.mp4", frames=8 + 3 * i)
    (videos / "pair").mkdir()
    for i in range(2):
        Image.fromarray(picture(9 * i)).save(videos / "pair" / f"{i}.png")
    Image.fromarray(picture(5)).save(videos / "photo.jpg")
    names = [*(f"v{i}.mp4" for i in range(11)), "pair", "photo.jpg"]
    captions = folder / "captions.csv"
    captions.write_text("video,caption\n" + "".join(f"{name},a red square moves\n" for name in names))
    config = DataConfig(source="folder", captions=(captions,), videos=(videos,))
    prepare(folder / "prepared", config, seed=0)
    return folder / "prepared"


@pytest.fixture(scope="module")
def reference(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("reference") / "features"
    extract(data, out, CONFIG)
    return out


def content(folder: Path) -> dict[str, bytes]:
    """Every file of the artefact, without the journal of the run."""
    skipped = {"journal.jsonl", ".lock"}
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


def test_index_shards_and_counts(data: Path, reference: Path) -> None:
    store = FeatureStore(reference)
    assert len(store) == 13
    assert set(store.kinds) == {"appearance", "motion", "objects"}
    features = store["v3"]
    assert features.appearance is not None
    assert features.motion is not None
    assert features.objects is not None
    assert features.appearance.dtype == torch.float16
    assert features.appearance.shape == (3, store.kinds["appearance"].dim)
    assert features.motion.shape == (1, store.kinds["motion"].dim)
    assert features.objects.shape == (15, store.kinds["objects"].dim)
    assert store.facts("v3")["counts"] == {"appearance": 3, "motion": 1, "objects": 15}
    assert len(store.facts("v3")["timestamps"]) == 3
    pair, photo = store["pair"], store["photo"]
    assert pair.appearance is not None
    assert len(pair.appearance) == 2  # no invented frames
    assert photo.appearance is not None
    assert len(photo.appearance) == 1
    assert photo.motion is not None
    assert photo.motion.shape == (0, store.kinds["motion"].dim)
    with pytest.raises(FewcapError, match="no features of video 'v33'. Did you mean"):
        store["v33"]


def test_videos_of_few_frames_are_looked_at_through_cut_outs(data: Path, reference: Path, tmp_path: Path) -> None:
    cropped = CONFIG.model_copy(update={"crops": 2})
    assert extract(data, tmp_path / "a", cropped).counts["videos"] == 13
    extract(data, tmp_path / "b", cropped.model_copy(update={"workers": 2}))
    assert content(tmp_path / "a") == content(tmp_path / "b")
    plain, store = FeatureStore(reference), FeatureStore(tmp_path / "a")
    assert len(store) == len(plain)
    training = {item.id for item in read_dataset(data).items if item.split == "train"}
    for video in store.ids:
        looks = store.looks(video)
        assert len(looks) == (3 if video in training & {"pair", "photo"} else 1)
        for kind in plain.kinds:
            assert torch.equal(getattr(looks[0], kind), getattr(plain[video], kind))
        vectors = [look.appearance for look in looks if look.appearance is not None]
        assert {x.shape for x in vectors} == {vectors[0].shape}
        assert all(not torch.equal(a, b) for i, a in enumerate(vectors) for b in vectors[:i])
    assert training & {"pair", "photo"}


def test_other_training_videos_need_other_cut_outs(data: Path, tmp_path: Path) -> None:
    resplit = tmp_path / "data"
    shutil.copytree(data, resplit)
    plain, cropped = CONFIG, CONFIG.model_copy(update={"crops": 1})
    before = {name: extract(resplit, tmp_path / name, config) for name, config in (("p", plain), ("c", cropped))}
    videos = resplit / "videos.jsonl"
    rows = [{**row, "split": "train"} for row in read_jsonl(videos)]
    videos.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert extract(resplit, tmp_path / "p", plain).key == before["p"].key
    assert extract(resplit, tmp_path / "c", cropped).key != before["c"].key
    store = FeatureStore(tmp_path / "c")
    assert [len(store.looks(video)) for video in ("pair", "photo", "v0")] == [2, 2, 1]


def test_videos_of_further_corpora_have_no_cut_outs(data: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "data"
    shutil.copytree(data, mixed)
    videos = mixed / "videos.jsonl"
    rows = [{**row, "split": "train", "corpus": int(row["id"] == "photo")} for row in read_jsonl(videos)]
    videos.write_text("".join(json.dumps(row) + "\n" for row in rows))
    extract(mixed, tmp_path / "features", CONFIG.model_copy(update={"crops": 1}))
    store = FeatureStore(tmp_path / "features")
    assert [len(store.looks(video)) for video in ("pair", "photo")] == [2, 1]


def test_store_can_be_sent_to_another_process(reference: Path) -> None:
    store = FeatureStore(reference)
    first = store["v0"].appearance
    again = pickle.loads(pickle.dumps(store))["v0"].appearance
    assert first is not None
    assert torch.equal(first, again)


@pytest.mark.slow
def test_number_of_workers_does_not_change_a_bit(data: Path, reference: Path, tmp_path: Path) -> None:
    extract(data, tmp_path / "two", CONFIG.model_copy(update={"workers": 2}))
    assert content(tmp_path / "two") == content(reference)


def test_single_files_have_the_same_features(data: Path, reference: Path) -> None:
    extractor = Extractor(CONFIG)
    store = FeatureStore(reference)
    for name in ("v2.mp4", "v10.mp4"):
        alone = extractor.features_of(data.parent / "videos" / name)
        stored = store[name.removesuffix(".mp4")]
        for kind in ("appearance", "motion", "objects"):
            assert torch.equal(getattr(alone, kind), getattr(stored, kind)), kind
    part = extractor.features_of(data.parent / "videos" / "v10.mp4", start=1.0, end=2.0)
    assert part.appearance is not None
    assert stored.appearance is not None
    assert not torch.equal(part.appearance, stored.appearance)


def test_interrupted_run_goes_on_and_ends_the_same(
    data: Path, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    original = engines.run_here

    def stops_after_four(units: list[engines.Unit], config: FeaturesConfig) -> Iterator[engines.Done]:
        for result in original(units, config):
            if len(done) == 4:
                raise KeyboardInterrupt
            done.append(result.unit.name)
            yield result

    monkeypatch.setattr(stage, "run_here", stops_after_four)
    with pytest.raises(KeyboardInterrupt):
        extract(data, tmp_path / "out", CONFIG)
    assert not (tmp_path / "out" / "manifest.json").exists()
    asked: list[str] = []

    def remembers(units: list[engines.Unit], config: FeaturesConfig) -> Iterator[engines.Done]:
        asked.extend(unit.name for unit in units)
        yield from original(units, config)

    monkeypatch.setattr(stage, "run_here", remembers)
    extract(data, tmp_path / "out", CONFIG)
    assert not set(done) & set(asked)  # nothing is done twice
    assert content(tmp_path / "out") == content(reference)


def test_captions_do_not_invalidate_features(data: Path, reference: Path) -> None:
    before = (reference / "manifest.json").stat().st_mtime_ns
    extract(data, reference, CONFIG.model_copy(update={"time_limit": 77.0}))
    assert (reference / "manifest.json").stat().st_mtime_ns == before


@contextmanager
def one_killed(name: bytes, after: float) -> Iterator[list[int]]:
    """Kills a process below this one whose command line holds ``name``, so many seconds after it was seen."""
    stopped = threading.Event()
    killed: list[int] = []

    def below(process: Path) -> bool:
        number = int(process.name)
        while number > 1:
            if number == os.getpid():
                return True
            number = int(Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[1])
        return False

    def kill() -> None:
        while not stopped.is_set() and not killed:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    found = name in (process / "cmdline").read_bytes() and below(process)
                except OSError:
                    continue
                if found:
                    time.sleep(after)
                    with suppress(ProcessLookupError):  # ended by itself: the next one
                        os.kill(int(process.name), signal.SIGKILL)
                        killed.append(int(process.name))
                        break
            time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        stopped.set()
        thread.join()


@pytest.mark.slow
def test_killed_worker_loses_nothing(data: Path, reference: Path, tmp_path: Path) -> None:
    with one_killed(b"fewcap.features.worker", after=0.5) as killed:
        extract(data, tmp_path / "out", CONFIG.model_copy(update={"workers": 2}))
    assert killed
    assert content(tmp_path / "out") == content(reference)


def test_broken_video_is_a_row_and_the_run_goes_on(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    copy.mkdir()
    for name in ("videos.jsonl", "manifest.json", "sources.json"):
        (copy / name).write_bytes((data / name).read_bytes())
    rows = read_jsonl(copy / "videos.jsonl")[:4]
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"\0" * 1000)
    rows[1]["path"] = str(broken)
    rows[2]["path"] = str(tmp_path / "absent.mp4")
    (copy / "videos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = extract(copy, tmp_path / "out", CONFIG)
    assert manifest.counts["videos"] == 2
    assert manifest.counts["errors"] == 2
    problems = {row["id"]: row["error"] for row in read_jsonl(tmp_path / "out" / "problems.jsonl")}
    assert "broken.mp4: not a video that can be read" in problems[rows[1]["id"]]
    assert "absent.mp4: there is no such video file" in problems[rows[2]["id"]]
    assert FeatureStore(tmp_path / "out").ids == (rows[0]["id"], rows[3]["id"])


@pytest.mark.slow
def test_memory_limit_ends_a_hostile_file_and_not_the_run(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    copy.mkdir()
    for name in ("videos.jsonl", "manifest.json", "sources.json"):
        (copy / name).write_bytes((data / name).read_bytes())
    rows = read_jsonl(copy / "videos.jsonl")[:6]
    bomb = tmp_path / "bomb.png"  # small on disk, 300 megabytes as a picture
    Image.new("RGB", (14_000, 7_000)).save(bomb)
    rows[2]["path"] = str(bomb)
    (copy / "videos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    limited = CONFIG.model_copy(update={"workers": 2, "memory_limit": 256, "max_pixels": 10**9})
    manifest = extract(copy, tmp_path / "out", limited)
    assert manifest.counts["videos"] == 5
    (problem,) = read_jsonl(tmp_path / "out" / "problems.jsonl")
    assert problem["id"] == rows[2]["id"]
    assert "bomb.png" in problem["error"]


def test_packed_features_are_taken_over(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, object] = {}
    for name in ("a", "b"):
        arrays[name] = rng.integers(0, 256, (20, 8), dtype=np.uint8)
        arrays[f"{name}.scale"] = np.float32(5.1)
    np.savez(tmp_path / "vgg.npz", **arrays)  # type: ignore[arg-type]
    captions = tmp_path / "captions.jsonl"
    rows = [{"video_id": name, "vid": name, "split": "train", "captions": ["a b c"]} for name in ("a", "b")]
    captions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = DataConfig(source="msvd", captions=(captions,), packed_features=tmp_path / "vgg.npz", val_share=0)
    prepare(tmp_path / "data", config, seed=0)
    extract(tmp_path / "data", tmp_path / "out", FeaturesConfig())
    store = FeatureStore(tmp_path / "out")
    assert set(store.kinds) == {"appearance"}
    assert store.kinds["appearance"].dim == 8
    found = store["a"]
    assert found.motion is None
    assert found.appearance is not None
    expected = torch.from_numpy(np.asarray(arrays["a"], np.float32) / 255 * 5.1)
    assert torch.allclose(found.appearance.float(), expected, atol=3e-3)


def test_random_reads_are_faster_than_decoding(data: Path, reference: Path) -> None:
    store = FeatureStore(reference)
    picks = random.Random(0).choices(store.ids, k=1000)
    started = time.perf_counter()
    for video in picks:
        assert store[video].appearance is not None
    reading = (time.perf_counter() - started) / 1000
    started = time.perf_counter()
    for _ in range(3):
        sample_video(data.parent / "videos" / "v10.mp4", CONFIG, Views(View(224, 224), View(64, 64)))
    decoding = (time.perf_counter() - started) / 3
    assert decoding > 20 * reading


@pytest.mark.slow
def test_ray_gives_the_same_bytes(data: Path, reference: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    extract(data, tmp_path / "out", CONFIG.model_copy(update={"engine": "ray", "workers": 2}))
    assert content(tmp_path / "out") == content(reference)


@pytest.mark.slow
def test_killed_ray_worker_loses_nothing(data: Path, reference: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with one_killed(b"ray::_RayWorker", after=0.0) as killed:
        extract(data, tmp_path / "out", CONFIG.model_copy(update={"engine": "ray", "workers": 2}))
    assert killed
    assert content(tmp_path / "out") == content(reference)


def test_ray_without_ray_says_what_to_install(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FewcapError, match=r'pip install "fewcap\[ray\]"'):
        extract(data, tmp_path / "out", CONFIG.model_copy(update={"engine": "ray"}))
