from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fewcap.core.config.data import DataConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import read_jsonl
from fewcap.data.choose import choose_sentences
from fewcap.data.packed import PackedFeatures
from fewcap.data.prepare import prepare, read_dataset

MakeFolder = Callable[[Sequence[str]], Path]


def kinds(folder: Path) -> list[tuple[str, str]]:
    return sorted((row["kind"], row["value"]) for row in read_jsonl(folder / "problems.jsonl"))


def image_bytes() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (32, 24), (200, 30, 30)).save(buffer, "WEBP")
    return buffer.getvalue()


@pytest.fixture
def untidy(tmp_path: Path, video_folder: MakeFolder) -> DataConfig:
    """A folder of videos with one of each of the usual faults."""
    videos = video_folder(
        ["a.mp4", "b.MP4", "deep/c.mp4", "d.mp4", "twin.mp4", "twin.avi", "lonely.mp4", ".hidden.mp4"]
    )
    (videos / "broken.mp4").write_text("this is no video")
    (videos / "empty.mp4").write_bytes(b"")
    (videos / "notes.txt").write_text("nor is this")
    captions = tmp_path / "captions.csv"
    captions.write_text(
        "\n".join(
            [
                "video,caption,split",
                "a.mp4,a ball bounces,train",
                "a,the ball is bouncing,",
                "a.mp4,,train",
                "B.mp4,a cat,validation",
                "c.mp4,a fish,test",
                "deep/c.mp4,another fish,train",
                "d.mp4,a robot,holdout",
                "twin,two files could be meant,train",
                "gone.mp4,nothing to see,train",
                "broken.mp4,a broken file,train",
                "empty.mp4,an empty file,train",
                "notes.txt,some notes,train",
                ",a caption of nothing,train",
            ]
        ),
        encoding="utf-8",
    )
    return DataConfig(source="folder", videos=(videos,), captions=(captions,), sentences=2)


def test_problems_are_listed_and_the_rest_is_used(tmp_path: Path, untidy: DataConfig) -> None:
    out = tmp_path / "data"
    manifest = prepare(out, untidy, seed=0)
    data = read_dataset(out)
    assert {item.id: item.split for item in data.items} == {
        "a": "train",
        "b": "val",
        "deep/c": "test",
        "d": "train",
        "twin.avi": "train",
    }
    assert sorted(data.by_id["a"].captions) == ["a ball bounces", "the ball is bouncing"]
    assert data.by_id["deep/c"].captions == ("a fish", "another fish")
    assert kinds(out) == [
        ("ambiguous_name", "twin"),
        ("caption_without_video", "gone.mp4"),
        ("conflicting_split", "deep/c.mp4: train"),
        ("empty_caption", "a.mp4"),
        ("missing_id", "a caption of nothing"),
        ("missing_split", "d"),
        ("not_a_video", "broken.mp4: Invalid data found when processing input"),
        ("not_a_video", "empty.mp4: the file is empty"),
        ("not_a_video", "notes.txt: Invalid data found when processing input"),
        ("unknown_split", "holdout"),
        ("video_without_caption", "lonely"),
    ]
    assert manifest.counts["problems"]["not_a_video"] == 3
    assert sum(manifest.counts["problems"].values()) == len(kinds(out))
    assert str(tmp_path) not in (out / "problems.jsonl").read_text(encoding="utf-8")


def test_unchanged_data_are_skipped_and_changed_data_are_not(tmp_path: Path, untidy: DataConfig) -> None:
    out = tmp_path / "data"
    first = prepare(out, untidy, seed=0)
    before = (out / "videos.jsonl").stat().st_mtime_ns
    assert prepare(out, untidy, seed=0).digest == first.digest
    assert (out / "videos.jsonl").stat().st_mtime_ns == before
    shutil.copy(untidy.videos[0] / "a.mp4", untidy.videos[0] / "gone.mp4")
    assert prepare(out, untidy, seed=0).counts["videos"] == first.counts["videos"] + 1


def test_a_seeded_split_when_none_is_stated(tmp_path: Path, video_folder: MakeFolder) -> None:
    names = [f"v{number}.mp4" for number in range(20)]
    captions = tmp_path / "captions.jsonl"
    captions.write_text("".join(json.dumps({"video": n, "captions": [f"{n} one", f"{n} two"]}) + "\n" for n in names))
    config = DataConfig(source="folder", videos=video_folder(names), captions=captions)
    splits = []
    for seed in (0, 0, 1):
        out = tmp_path / f"data{len(splits)}"
        manifest = prepare(out, config, seed=seed)
        assert [manifest.counts[split] for split in ("train", "val", "test")] == [14, 2, 4]
        assert manifest.counts["problems"] == {}
        splits.append({item.id: item.split for item in read_dataset(out).items})
    assert splits[0] == splits[1] != splits[2]
    rows = {row["id"]: row for row in read_jsonl(tmp_path / "data0" / "videos.jsonl")}
    for row in rows.values():
        name = f"{row['id']}.mp4"
        if row["split"] == "train":
            assert row["chosen"] == choose_sentences(row["id"], ["one", "two"], 1)
            assert row["captions"] == [[f"{name} one", f"{name} two"][row["chosen"][0]]]
            assert row["available"] == 2
        else:
            assert row["captions"] == [f"{name} one", f"{name} two"]


def test_validation_comes_out_of_training_when_only_that_is_missing(tmp_path: Path, video_folder: MakeFolder) -> None:
    names = [f"v{number}.mp4" for number in range(10)]
    captions = tmp_path / "captions.csv"
    rows = [f"{name},words of {name},{'test' if i < 3 else 'train'}" for i, name in enumerate(names)]
    captions.write_text("\n".join(["video,caption,split", *rows]))
    config = DataConfig(source="folder", videos=video_folder(names), captions=captions)
    manifest = prepare(tmp_path / "data", config, seed=0)
    assert [manifest.counts[split] for split in ("train", "val", "test")] == [6, 1, 3]
    assert kinds(tmp_path / "data") == [("empty_split", "no video")]


def test_cleaning_changes_training_and_leaves_references(tmp_path: Path, video_folder: MakeFolder) -> None:
    names = [f"v{number:02d}" for number in range(40)]
    captions = tmp_path / "captions.jsonl"
    rows = [
        {"id": n, "caption": ["pasted on every video", f"what {n} shows"], "split": "train" if i < 30 else "test"}
        for i, n in enumerate(names)
    ]
    captions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    videos = video_folder([f"{name}.mp4" for name in names])
    config = DataConfig(source="folder", videos=videos, captions=captions, cleaning=True, val_share=0)
    prepare(tmp_path / "data", config, seed=0)
    data = read_dataset(tmp_path / "data")
    assert all(item.captions == (f"what {item.id} shows",) for item in data.split("train"))
    assert all("pasted on every video" in item.captions for item in data.split("test"))
    cleaned = [
        row["where"] for row in read_jsonl(tmp_path / "data" / "problems.jsonl") if row["kind"] == "cleaned_caption"
    ]
    assert cleaned == [n for n in names[:30] if choose_sentences(n, ["pasted", "own"], 1) == [0]]


def write_images(path: Path, names: Sequence[str]) -> None:
    """A tar file of images."""
    with tarfile.open(path, "w") as archive:
        for name in names:
            content = image_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def test_msrvtt_clips_and_frames_of_a_tar_file(tmp_path: Path, fixtures: Path, video_folder: MakeFolder) -> None:
    clips = video_folder(["video0.mp4", "video9999.mp4"])
    frames = tmp_path / "frames.tar"
    names = ("video1/10.webp", "video1/2.webp", "video6513/0.webp", "video0/0.webp", "../video7010/0.webp")
    write_images(frames, names)
    config = DataConfig(
        source="msrvtt",
        captions=(fixtures / "train_val_videodatainfo.json", fixtures / "test_videodatainfo.json"),
        videos=(clips, frames),
    )
    out = tmp_path / "data"
    prepare(out, config, seed=0)
    rows = {row["id"]: row["path"] for row in read_jsonl(out / "videos.jsonl")}
    assert rows == {
        "video0": str(clips / "video0.mp4"),  # a clip is better than its frames
        "video1": "frames/video1",
        "video6513": "frames/video6513",
        "video7010": "frames/video7010",
    }
    assert sorted(p.name for p in (out / "frames" / "video1").iterdir()) == ["10.webp", "2.webp"]
    assert ("video_without_caption", "video9999") in kinds(out)
    assert not (tmp_path / "video7010").exists()
    assert read_dataset(out).by_id["video1"].path == out / "frames" / "video1"


def test_further_photographs_train_beside_the_videos(tmp_path: Path, video_folder: MakeFolder) -> None:
    videos = video_folder(["a.mp4", "b.mp4", "c.mp4"])
    captions = tmp_path / "captions.csv"
    captions.write_text("video,caption,split\na,a clip,train\nb,another,val\nc,a third,test\n")
    photographs = tmp_path / "photographs.tar"
    write_images(photographs, ["x.webp", "./y.webp", "z.webp", "a.webp"])
    described = tmp_path / "photographs.jsonl"
    described.write_text(
        '{"image_id": "x", "captions": ["a dog", "a brown dog"]}\n{"image_id": "y", "captions": ["a cat"]}\n'
        '{"image_id": "z", "captions": ["a cow"], "split": "test"}\n{"image_id": "a", "captions": ["a hen"]}\n'
    )
    further = DataConfig(
        source="folder", captions=described, videos=photographs, video_column="image_id", sentences="all"
    )
    config = DataConfig(source="folder", videos=videos, captions=captions, further=(further,))
    out = tmp_path / "data"
    prepare(out, config, seed=0)
    data = read_dataset(out)
    assert [(item.id, item.captions) for item in data.split("train")] == [
        ("a", ("a clip",)),
        ("x", ("a brown dog", "a dog")),
        ("y", ("a cat",)),
    ]
    assert [item.id for item in data.split("val") + data.split("test")] == ["b", "c"]
    assert data.by_id["x"].path == out / "frames" / "x"
    assert set(kinds(out)) == {("duplicate_id", "a"), ("other_split", "z: test")}


def test_a_folder_of_images_is_a_video(tmp_path: Path, video_folder: MakeFolder) -> None:
    videos = video_folder(["a.mp4"])
    (videos / "b").mkdir()
    (videos / "b" / "0.webp").write_bytes(image_bytes())
    (videos / "c").mkdir()
    (videos / "c" / "0.png").write_text("no image")
    captions = tmp_path / "captions.csv"
    captions.write_text("video,caption,split\na,a clip,train\nb,some pictures,val\nc,broken pictures,test\n")
    config = DataConfig(source="folder", videos=videos, captions=captions)
    prepare(tmp_path / "data", config, seed=0)
    data = read_dataset(tmp_path / "data")
    assert data.by_id["b"].path == videos / "b"
    assert [kind for kind, _ in kinds(tmp_path / "data")] == ["empty_split", "not_a_video"]


def test_links_that_lead_round_or_nowhere_and_names_that_are_not_text(tmp_path: Path, video_folder: MakeFolder) -> None:
    videos = video_folder(["a.mp4", "deep/b.mp4"])
    (videos / "deep" / "up").symlink_to(videos)
    (videos / "dangling.mp4").symlink_to(tmp_path / "nowhere.mp4")
    shutil.copy(videos / "a.mp4", os.fsencode(videos) + b"/caf\xe9.mp4")
    captions = tmp_path / "captions.jsonl"
    rows = [("a", "half a character: \ud83d", "train"), ("deep/b", "b", "val"), ("dangling", "c", "test")]
    captions.write_text("".join(json.dumps({"video": v, "caption": c, "split": s}) + "\n" for v, c, s in rows))
    config = DataConfig(source="folder", videos=videos, captions=captions)
    prepare(tmp_path / "data", config, seed=0)
    data = read_dataset(tmp_path / "data")
    assert [item.id for item in data.items] == ["a", "deep/b"]
    assert data.by_id["a"].captions == ("half a character: ?",)
    assert [kind for kind, _ in kinds(tmp_path / "data")] == ["broken_name", "empty_split", "not_a_video"]


def test_packed_features_stand_for_videos(tmp_path: Path, fixtures: Path) -> None:
    rng = np.random.default_rng(0)
    features = {name: rng.random((20, 8), np.float32) for name in ("aaBBccDDee1_5_15", "kkLLmmNNoo3_1_8", "stranger")}
    packed: dict[str, Any] = {"ffGGhhIIjj2_10_20": features["stranger"]}
    for name, feature in features.items():
        packed[name] = np.round(feature / feature.max() * 255).astype(np.uint8)
        packed[f"{name}.scale"] = np.float32(feature.max())
    path = tmp_path / "features.npz"
    np.savez(path, **packed)
    config = DataConfig(source="msvd", captions=fixtures / "msvd.jsonl", packed_features=path)
    prepare(tmp_path / "data", config, seed=0)
    data = read_dataset(tmp_path / "data")
    assert [item.id for item in data.items] == ["aaBBccDDee1_5_15", "ffGGhhIIjj2_10_20", "kkLLmmNNoo3_1_8"]
    assert all(item.path is None and data.hashes[item.id] is None for item in data.items)
    assert data.packed_features == path
    unpacked = PackedFeatures(path)
    np.testing.assert_allclose(unpacked["aaBBccDDee1_5_15"], features["aaBBccDDee1_5_15"], atol=1 / 255)
    np.testing.assert_array_equal(unpacked["ffGGhhIIjj2_10_20"], features["stranger"])
    assert kinds(tmp_path / "data") == [
        ("caption_without_video", "ppQQrrSStt4_33_40"),
        ("empty_split", "no video"),
        ("video_without_caption", "stranger"),
    ]


def test_real_msvd_features(tmp_path: Path, shared_data: Path) -> None:
    folder = shared_data / "msvd"
    config = DataConfig(
        source="msvd", captions=folder / "captions.jsonl.gz", packed_features=folder / "vgg16_fc7_20x4096_u8.npz"
    )
    manifest = prepare(tmp_path / "data", config, seed=0)
    assert [manifest.counts[split] for split in ("train", "val", "test")] == [883, 70, 234]
    assert manifest.counts["captions"]["train"] == 883
    assert prepare(tmp_path / "data", config, seed=7).digest == manifest.digest  # its split is official: no seed
    feature = PackedFeatures(folder / "vgg16_fc7_20x4096_u8.npz")["-8y1Q0rA3n8_108_115"]
    assert (feature.shape, feature.dtype) == ((20, 4096), np.float32)
    assert 0 < feature.max() < 100


@pytest.mark.slow
def test_real_msrvtt_clips(tmp_path: Path, shared_data: Path) -> None:
    folder = shared_data / "msrvtt"
    clips = tmp_path / "clips"
    clips.mkdir()
    for number in (0, 1, 10, 100):
        shutil.copy(folder / "clips" / f"video{number}.mp4", clips)
    config = DataConfig(
        source="msrvtt",
        captions=(folder / "train_val_videodatainfo.json.gz", folder / "test_videodatainfo.json.gz"),
        videos=clips,
    )
    manifest = prepare(tmp_path / "data", config, seed=0)
    assert [manifest.counts[split] for split in ("train", "val", "test")] == [3, 1, 0]
    assert manifest.counts["problems"] == {"caption_without_video": 6513 + 497 + 1499 - 4, "empty_split": 2}


def test_another_artefact_is_not_data(tmp_path: Path, untidy: DataConfig) -> None:
    out = tmp_path / "data"
    prepare(out, untidy, seed=0)
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(manifest | {"kind": "features"}))
    with pytest.raises(FewcapError, match="holds 'features', not prepared data"):
        read_dataset(out)
    with pytest.raises(FewcapError, match=r"unfinished|not there"):
        read_dataset(tmp_path / "nowhere")
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FewcapError, match=r"'tets' is no split.*Did you mean 'test'"):
        read_dataset(out).split("tets")  # type: ignore[arg-type]
