"""Bad input gets a sentence that names the file, the value and a remedy; never a traceback of something else."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from fewcap.core.config.data import DataConfig
from fewcap.core.config.load import load_config
from fewcap.core.errors import FewcapError, UsageError
from fewcap.data.packed import PackedFeatures
from fewcap.data.prepare import prepare

MakeFolder = Callable[[Sequence[str]], Path]

# name of the captions file, its content, what the error says
BAD_CAPTIONS = [
    ("a.csv", b"", "the file is empty; its first line must name the columns"),
    ("a.csv", b"video,caption\n", "has a header (video, caption) but no rows"),
    ("a.csv", b"video,captoin\na.mp4,x\n", "no column for the caption among 'video', 'captoin'; rename one to"),
    ("a.csv", b"video,captoin\na.mp4,x\n", "Is it 'captoin'?"),
    ("a.csv", b"vidoe,caption\na.mp4,x\n", "Is it 'vidoe'?"),
    ("a.csv", b"when,caption\n1,x\n", "no column for the video among 'when', 'caption'"),
    ("a.csv", b"a.mp4,a dog runs\nb.mp4,a cat sits\n", "its first line, 'a.mp4', 'a dog runs', looks like a caption"),
    ("a.csv", b"a.mp4,a dog runs\n", "has a header (a.mp4, a dog runs) but no rows"),
    ("a.csv", b'video,caption\na.mp4,"never closed\n' + b"x" * 200_000, "not valid CSV"),
    ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "this is not a text file"),
    ("a.csv", b"\xff\xfea\0b", "broken utf-16 text"),
    ("a.csv", b"video,caption\na.mp4,\n", "None of the 1 videos"),
    ("a.csv", b"video,caption\nother.mp4,a dog\n", "for example 'other.mp4'"),
    ("a.jsonl", b'{"video": "a.mp4", "caption": "x"}\n{"video": "a.mp4", \n', "a.jsonl, line 2: not valid JSON"),
    ("a.jsonl", b'["a.mp4", "x"]\n', "line 1: must hold a JSON object"),
    ("a.jsonl", b"\n\n", "holds no captions"),
    ("a.json", b'[{"video": "a.mp4",\n "caption": }]', "a.json, line 2: not valid JSON"),
    ("a.json", b"3", "must hold a list of objects"),
    ("a.json", b"[]", "holds no captions"),
    ("a.csv.gz", b"video,caption\na.mp4,x\n", "is named .gz but is not gzip data"),
    ("a.csv.gz", gzip.compress(b"video,caption\na.mp4,x\n" * 99, mtime=0)[:-30], "damaged gzip data"),
    ("a.xlsx", b"PK", "captions can be read from .csv, .tsv, .json and .jsonl files, not from '.xlsx'"),
    ("a", b"video,caption\n", "not from ''"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), BAD_CAPTIONS, ids=range(len(BAD_CAPTIONS)))
def test_bad_captions_files(tmp_path: Path, video_folder: MakeFolder, name: str, content: bytes, message: str) -> None:
    captions = tmp_path / name
    captions.write_bytes(content)
    config = DataConfig(source="folder", videos=video_folder(["a.mp4"]), captions=captions)
    with pytest.raises(FewcapError) as error:
        prepare(tmp_path / "data", config, seed=0)
    assert message in str(error.value)
    assert str(captions) in str(error.value)
    assert not (tmp_path / "data" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("source", "name", "content", "message"),
    [
        ("msvd", "a.jsonl", '{"video": "x", "captions": []}', "need 'video_id' (text) and 'captions' (a list)"),
        ("msvd", "a.csv", "VideoID,Start,Language,Description\nx,1,English,y\n", "no column 'end'"),
        ("msvd", "a.txt", "nothing of use\n", "no captions found"),
        ("msrvtt", "a.json", '{"videos": []}', "it has no list 'sentences'"),
        ("msrvtt", "a.json", "[1, 2]", "it has no list 'videos'"),
        ("msrvtt", "a.json", '{"videos": [], "sentences": []}', "no captions found"),
        ("vatex", "a.json", '{"videoID": "x"}', "must hold a list of videos with 'videoID' and 'enCap'"),
        (
            "vatex",
            "a.json",
            '[{"video": "x", "enCap": []}]',
            "item 1: a VATEX video needs 'videoID'; found video, enCap",
        ),
    ],
)
def test_files_that_are_not_of_the_corpus(
    tmp_path: Path, video_folder: MakeFolder, source: str, name: str, content: str, message: str
) -> None:
    captions = tmp_path / name
    captions.write_text(content, encoding="utf-8")
    config = DataConfig(source=source, videos=video_folder(["x.mp4"]), captions=captions)
    with pytest.raises(FewcapError) as error:
        prepare(tmp_path / "data", config, seed=0)
    assert message in str(error.value)
    assert str(captions) in str(error.value)


def test_bad_places(tmp_path: Path, video_folder: MakeFolder) -> None:
    captions = tmp_path / "captions.csv"
    captions.write_text("video,caption\na.mp4,a dog\n")
    videos = video_folder(["a.mp4"])
    empty = tmp_path / "empty"
    empty.mkdir()
    no_tar = tmp_path / "no.tar"
    no_tar.write_text("no tar")
    only_broken = tmp_path / "broken"
    only_broken.mkdir()
    (only_broken / "a.mp4").write_text("no video")
    for places, file, message in [
        (tmp_path / "gone", captions, "gone: there is no such folder of videos"),
        (empty, captions, "empty: no videos found (looked for .3gp"),
        (no_tar, captions, "no.tar: neither a folder of videos nor a tar file of images"),
        (only_broken, captions, "no file is a video that can be decoded; the first one: a.mp4: Invalid data"),
        (videos, tmp_path / "gone.csv", "gone.csv: there is no such captions file"),
        (videos, videos, "videos is a folder; name the captions file in it"),
    ]:
        with pytest.raises(FewcapError) as error:
            prepare(tmp_path / "data", DataConfig(source="folder", videos=places, captions=file), seed=0)
        assert message in str(error.value)


def test_a_column_that_is_asked_for_and_missing(tmp_path: Path, video_folder: MakeFolder) -> None:
    captions = tmp_path / "captions.csv"
    captions.write_text("video,caption,beschreibung\na.mp4,a dog,ein Hund\n")
    videos = video_folder(["a.mp4"])
    config = DataConfig(source="folder", videos=videos, captions=captions, caption_column="Beschreibungen")
    with pytest.raises(FewcapError, match=r"has no column 'Beschreibungen'.*Did you mean 'beschreibung'"):
        prepare(tmp_path / "data", config, seed=0)
    config = DataConfig(source="folder", videos=videos, captions=captions, caption_column="BESCHREIBUNG")
    assert prepare(tmp_path / "data", config, seed=0).counts["videos"] == 1


def test_bad_packed_features(tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    with pytest.raises(FewcapError, match="there is no such file of packed features"):
        PackedFeatures(path)
    path.write_bytes(b"PK\3\4 not really")
    with pytest.raises(FewcapError, match="not an npz file"):
        PackedFeatures(path)
    np.savez(path, a=np.zeros((2, 3), np.uint8), b=np.zeros(3, np.float32))
    packed = PackedFeatures(path)
    with pytest.raises(FewcapError, match=r"'a' is packed as uint8 but has no 'a.scale'"):
        packed["a"]
    with pytest.raises(FewcapError, match=r"have shape \(3,\), not \[n, d\]"):
        packed["b"]
    with pytest.raises(FewcapError, match="has no features of video 'c'"):
        packed["c"]
    np.savez(path, a=np.array([{"a": 1}], dtype=object))
    with pytest.raises((FewcapError, ValueError)):
        PackedFeatures(path)["a"]
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(FewcapError, match="holds a single array"):
        PackedFeatures(tmp_path / "one.npy")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.source=folde"], "Did you mean 'folder'"),
        (["data.source=folder"], "source 'folder' needs 'captions'"),
        (["data.source=msvd", "data.captions=a.csv"], "needs 'videos' (a folder of videos) or 'packed_features'"),
        (["data.captions=a.csv"], "source 'synthetic' renders its own data"),
        (["data.sentences=0"], "at least one sentence per training video is needed"),
        (["data.val_share=0.6", "data.test_share=0.4"], "leave no video to train on"),
        (["data.split_column=fold"], "only source 'folder' has columns to name"),
        (["data.synthetic.train=-1"], "'data.synthetic.train' can not be -1"),
        (["data.vidoes=x"], "Did you mean 'videos'"),
    ],
)
def test_bad_configuration(overrides: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        load_config(None, overrides)
    assert message in str(error.value)


def test_no_clips_at_all(tmp_path: Path) -> None:
    config = load_config(None, [f"data.synthetic.{split}=0" for split in ("train", "val", "test")]).data
    with pytest.raises(FewcapError, match="train, val and test are all 0"):
        prepare(tmp_path / "data", config, seed=0)
