"""Readers of public corpora: on small files of the same layout, and on the real ones where they are."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from fewcap.data import msrvtt, msvd, vatex
from fewcap.data.annotations import AnnotatedVideo, Annotations, Problems


def videos_of(corpus: object, *paths: Path) -> tuple[dict[str, AnnotatedVideo], Problems]:
    annotations = Annotations(Problems())
    corpus.read(annotations, paths)  # type: ignore[attr-defined]
    return annotations.videos, annotations.problems


def test_msvd_json_lines(fixtures: Path) -> None:
    videos, problems = videos_of(msvd, fixtures / "msvd.jsonl")
    assert [video.split for video in videos.values()] == ["train", "train", "val", "test"]
    assert videos["aaBBccDDee1_5_15"].captions[1] == "a brown dog swims in a pool"
    assert videos["aaBBccDDee1_5_15"].aliases == ("vid3",)
    assert len(problems) == 0


def test_msvd_corpus_table(fixtures: Path) -> None:
    videos, problems = videos_of(msvd, fixtures / "msvd_corpus.csv")
    assert {video.id: len(video.captions) for video in videos.values()} == {
        "aaBBccDDee1_5_15": 2,
        "ffGGhhIIjj2_10_20": 1,
        "kkLLmmNNoo3_1_8": 0,
    }
    assert videos["aaBBccDDee1_5_15"].captions[1] == "A brown dog swims, slowly."
    assert problems.counts() == {"empty_caption": 1, "other_language": 2}
    assert [(p.value, p.what_was_done) for p in problems.of_kind("other_language")] == [
        ("German", "2 descriptions left out"),
        ("Slovene", "1 descriptions left out"),
    ]


def test_msvd_description_lines(fixtures: Path) -> None:
    videos, problems = videos_of(msvd, fixtures / "AllVideoDescriptions.txt")
    assert videos["aaBBccDDee1_5_15"].captions == ["a dog is swimming", "a brown dog swims"]
    assert videos["f_GhhI-Ijj2_10_20"].captions == ["a man is slicing bread"]
    assert problems.counts() == {"broken_row": 1, "empty_caption": 1}


def test_msvd_split_goes_by_rank_when_all_videos_are_there(tmp_path: Path) -> None:
    names = sorted(f"id{number:04d}_{number}_{number + 9}" for number in range(1970))
    lines = [f"{name} a caption of {name}" for name in reversed(names)]
    path = tmp_path / "AllVideoDescriptions.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    videos, _ = videos_of(msvd, path)
    assert Counter(video.split for video in videos.values()) == {"train": 1200, "val": 100, "test": 670}
    assert (videos[names[0]].aliases, videos[names[1200]].split) == (("vid1",), "val")
    path.write_text("\n".join(lines[:-1]), encoding="utf-8")
    assert {video.split for video in videos_of(msvd, path)[0].values()} == {None}


def test_real_msvd_agrees_with_the_rank_rule(shared_data: Path) -> None:
    videos, problems = videos_of(msvd, shared_data / "msvd" / "captions.jsonl.gz")
    assert Counter(video.split for video in videos.values()) == {"train": 1143, "val": 94, "test": 306}
    assert len(problems) == 0
    for video in videos.values():
        assert msvd.official_split(int(video.aliases[0].removeprefix("vid"))) == video.split


def test_msrvtt(fixtures: Path, tmp_path: Path) -> None:
    zipped = tmp_path / "test_videodatainfo.json.gz"
    zipped.write_bytes(gzip.compress((fixtures / "test_videodatainfo.json").read_bytes()))
    videos, problems = videos_of(msrvtt, fixtures / "train_val_videodatainfo.json", zipped)
    assert {video.id: video.split for video in videos.values()} == {
        "video0": "train",
        "video1": "train",
        "video6513": "val",
        "video7010": "test",
    }
    assert videos["video0"].captions == ["a car drives along a road", "a red car is driving"]
    assert [(p.kind, p.value) for p in problems] == [("caption_without_video", "video77")]


def test_msrvtt_twice_is_reported(fixtures: Path) -> None:
    path = fixtures / "test_videodatainfo.json"
    _, problems = videos_of(msrvtt, path, path)
    assert problems.counts() == {"duplicate_id": 1}


@pytest.mark.parametrize(
    ("video_id", "split"),
    [("video0", "train"), ("video6512", "train"), ("video6513", "val"), ("video7010", "test"), ("clip7", None)],
)
def test_msrvtt_official_split(video_id: str, split: str | None) -> None:
    assert msrvtt.official_split(video_id) == split


def test_real_msrvtt(shared_data: Path) -> None:
    folder = shared_data / "msrvtt"
    videos, problems = videos_of(
        msrvtt, folder / "train_val_videodatainfo.json.gz", folder / "test_videodatainfo.json.gz"
    )
    assert Counter(video.split for video in videos.values()) == {"train": 6513, "val": 497, "test": 1499}
    assert {len(video.captions) for video in videos.values()} == {20}
    assert all(msrvtt.official_split(video.id) == video.split for video in videos.values())
    assert len(problems) == 0


def test_vatex(fixtures: Path) -> None:
    videos, problems = videos_of(vatex, fixtures / "vatex_training_v1.0.json", fixtures / "vatex_validation_v1.0.json")
    assert [video.split for video in videos.values()] == ["train", "train", "train", "val"]
    assert videos["--07WQ2iBlw_000001_000011"].captions[1] == "A lady's hands are knitting a scarf."
    assert videos["--07WQ2iBlw_000001_000011"].aliases == ("--07WQ2iBlw",)
    assert [(p.kind, p.value) for p in problems] == [("other_language", "abcdefghijk_000010_000020")]


def test_real_vatex(shared_data: Path) -> None:
    videos, problems = videos_of(vatex, shared_data / "vatex" / "validation.jsonl.gz")
    assert len(videos) == 3000
    assert {video.split for video in videos.values()} == {"val"}
    assert sum(len(video.captions) for video in videos.values()) == 30_000
    assert len(problems) == 0
