from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fewcap.core.config.load import load_config
from fewcap.core.errors import FewcapError
from fewcap.data.init import init_project
from fewcap.data.prepare import prepare

MakeFolder = Callable[[Sequence[str]], Path]


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    path = tmp_path / "my captions.csv"
    path.write_text(
        "Clip;Beschreibung;Text\na.mp4;x;a dog runs\na.mp4;y;the dog is running\nb;z;a cat\nc;z;a cow\nd.mp4;z;\n"
    )
    return path


def test_init_says_what_it_found_and_the_project_works(
    tmp_path: Path, video_folder: MakeFolder, captions: Path
) -> None:
    videos = video_folder(["a.mp4", "b.mp4", "c.mp4", "unused.mp4"])
    project = tmp_path / "project"
    facts = init_project(project, videos, captions)
    assert facts["videos"] == {"files": 4, "with captions": 3, "train": 1, "val": 1, "test": 1}
    assert facts["captions"] == 4
    assert facts["columns"]["video"] == "Clip"
    assert facts["columns"]["caption"] == "Text"
    assert facts["problems"] == {"caption_without_video": 1, "empty_caption": 1, "video_without_caption": 1}
    assert any("d.mp4" in example for example in facts["examples"])
    config = load_config(project / "fewcap.yaml")
    data = config.data.relative_to(project)
    assert (data.videos, data.captions, data.sentences) == ((videos,), (captions,), 1)
    manifest = prepare(project / "data", data, seed=config.seed)
    assert [manifest.counts[split] for split in ("train", "val", "test")] == [1, 1, 1]
    assert manifest.counts["problems"] == facts["problems"]


def test_paths_inside_the_project_stay_inside_when_it_moves(
    tmp_path: Path, video_folder: MakeFolder, captions: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    shutil.move(video_folder(["a.mp4", "b.mp4"]), project / "clips")
    shutil.move(captions, project / "captions.csv")
    init_project(
        project, project / "clips", project / "captions.csv", sentences=2, seed=3, caption_column="Beschreibung"
    )
    moved = tmp_path / "moved"
    project.rename(moved)
    config = load_config(moved / "fewcap.yaml")
    assert (config.seed, config.data.sentences, config.data.caption_column) == (3, 2, "Beschreibung")
    assert prepare(moved / "data", config.data.relative_to(moved), seed=3).counts["videos"] == 2


def test_a_stated_split_is_named_in_the_file(tmp_path: Path, video_folder: MakeFolder) -> None:
    captions = tmp_path / "captions.tsv"
    captions.write_text("video\tcaption\tsubset\na\tx\ttrain\nb\ty\tdev\nc\tz\ttest\n")
    facts = init_project(tmp_path / "project", video_folder(["a.mp4", "b.mp4", "c.mp4"]), captions)
    assert facts["columns"]["split"] == "subset"
    assert facts["problems"] == {}
    assert "taken from column subset" in (tmp_path / "project" / "fewcap.yaml").read_text()


def test_init_refuses(tmp_path: Path, video_folder: MakeFolder, captions: Path) -> None:
    videos = video_folder(["x.mp4"])
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("film,words\nx.mp4,a dog\n")
    a_file = tmp_path / "file"
    a_file.write_text("")
    for folder, place, table, message in [
        (tmp_path / "p", videos, captions, "captions are for 'a.mp4', files are like 'x'"),
        (tmp_path / "p", videos, wrong, "no column for the video among 'film', 'words'"),
        (tmp_path / "p", tmp_path / "gone", captions, "there is no such folder of videos"),
        (tmp_path / "p", videos, tmp_path / "gone.csv", "there is no such captions file"),
        (tmp_path / "p", videos, videos, "is a folder; name the captions file"),
        (a_file, videos, captions, "is a file; name a folder for the project"),
    ]:
        with pytest.raises(FewcapError, match=message):
            init_project(folder, place, table)
    assert not (tmp_path / "p").exists()


def test_init_does_not_overwrite(tmp_path: Path, video_folder: MakeFolder, captions: Path) -> None:
    videos = video_folder(["a.mp4"])
    init_project(tmp_path / "p", videos, captions)
    with pytest.raises(FewcapError, match="is a project already"):
        init_project(tmp_path / "p", videos, captions)
