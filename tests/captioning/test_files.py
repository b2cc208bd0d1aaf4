"""``fewcap caption`` as people use it: what it takes, what it writes, what it says of odd files, how it goes on."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from untrained import scene, write_film, write_model, write_odd_files, write_video

from fewcap.captioning.captioner import Captioner
from fewcap.captioning.folder import Limits
from fewcap.captioning.outputs import short_names
from fewcap.cli import main

FEWCAP = str(Path(sys.executable).with_name("fewcap"))
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("untrained") / "model")


@pytest.fixture
def run(model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The entry point of the command in this process: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def caption(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fewcap", "caption", *arguments, "--model", str(model)])
        with pytest.raises(SystemExit) as end:
            main()
        answer = capfd.readouterr()
        assert "Traceback" not in answer.err
        return int(end.value.code or 0), answer.out, answer.err

    return caption


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    folder = tmp_path / "clips"
    (folder / "more").mkdir(parents=True)
    for name, number in (("a.mp4", 1), ("b.mp4", 2), ("more/c.mp4", 3)):
        write_film(folder / name, 1, first_scene=number)
    (folder / ".hidden.mp4").write_bytes(b"")
    (folder / "notes.txt").write_text("no video")
    return folder


def videos(output: str) -> list[str]:
    return [line.split("\t")[0] for line in output.splitlines()]


def test_files_folders_patterns_and_lists(run: Run, clips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run("clips", "clips/b.mp4")
    assert code == 0
    assert videos(out) == ["clips/a.mp4", "clips/b.mp4", "clips/more/c.mp4"]  # each once
    assert videos(run("clips/**/c*")[1]) == ["clips/more/c.mp4"]
    monkeypatch.setattr(sys, "stdin", iter(["clips/b.mp4\n", "\n", "clips/more\n"]))
    assert videos(run("-")[1]) == ["clips/b.mp4", "clips/more/c.mp4"]


ODD = {
    # file: the caption, or a part of the error
    "black.mp4": ("a black screen", None),
    "noise.mp4": ("a noisy screen", None),
    "empty.mp4": (None, "the file is empty"),
    "letter.mp4": (None, "not a video that can be read"),
    "letter.jpg": (None, "no frame of it can be decoded"),
    "sound.mp4": (None, "has no video stream"),
    "pipe.mp4": (None, "neither a file nor a folder"),
    "cut off.mp4": (None, "not a video that can be read"),
}


@pytest.mark.slow
def test_every_odd_file_gets_a_fitting_answer(run: Run, tmp_path: Path) -> None:
    odd = write_odd_files(tmp_path / "odd")
    os.mkfifo(odd / "pipe.mp4")
    code, out, err = run(*(str(path) for path in sorted(odd.iterdir())), "nowhere.mp4", "--format", "jsonl")
    assert code == 1
    assert "7 of 15 videos could not be captioned" in err
    rows = [json.loads(line) for line in out.splitlines()]
    answers = {Path(row["video"]).name: row for row in rows}
    for name, (caption, error) in ODD.items():
        assert answers[name].get("caption") == caption
        assert error is None or (error in answers[name]["error"] and error in err)
    assert "no such video file" in answers["nowhere.mp4"]["error"]
    assert answers["black.mp4"]["low_confidence"] is True
    assert answers["black.mp4"]["reason"] == "the picture is blank"
    assert answers["noise.mp4"]["reason"] == "the picture is noise"
    for name in ("still.mp4", "slide.mp4", "slide.png", "photo.jpg", "photo.webp"):
        assert answers[name]["score"] < 0, name  # the model's own words
    hours = [row for row in rows if row["video"].endswith("two_hours.mp4")]
    assert [row["piece"] for row in hours] == list(range(1, 241))
    assert hours[-1]["end"] == pytest.approx(7200, abs=31)
    assert [row["video"] for row in rows] == [*sorted(row["video"] for row in rows[:-1]), "nowhere.mp4"]


def test_a_blank_video_in_python(model: Path, tmp_path: Path) -> None:
    path = write_video(tmp_path / "white.mp4", [np.full((64, 96, 3), 255, np.uint8)] * 4)
    caption = Captioner.load(model).caption(path)
    assert (caption.text, caption.score, caption.doubt) == ("a white screen", None, "the picture is blank")


def test_what_is_beyond_the_limits_of_the_model_is_marked(tmp_path: Path, run: Run) -> None:
    film = write_film(tmp_path / "film.mp4", 1)
    assert "low confidence" not in run("film.mp4")[1]
    doubting = Captioner.load(write_model(tmp_path / "doubting", limits=Limits(score=-0.01)))
    assert doubting.caption(film).doubt == "no caption fits well"
    timid = Captioner.load(write_model(tmp_path / "timid", limits=Limits(distance=0.1)))
    assert timid.caption(film).doubt == "it is unlike the videos that the model knows"


def test_long_videos_are_cut_at_shot_changes(run: Run, tmp_path: Path) -> None:
    write_film(tmp_path / "long.mp4", 14, 12, 9)
    write_film(tmp_path / "short.mp4", 3, 3)
    rows = [json.loads(line) for line in run("long.mp4", "short.mp4", "--json")[1].splitlines()]
    assert [(row["video"], row.get("piece"), row.get("pieces")) for row in rows] == [
        *(("long.mp4", n, 3) for n in (1, 2, 3)),
        ("short.mp4", None, None),
    ]
    assert [row["start"] for row in rows[:3]] == pytest.approx([0, 14, 26], abs=0.15)
    assert len(run("long.mp4", "--no-shots")[1].splitlines()) == 1
    lines = run("short.mp4", "--shots")[1].splitlines()
    assert [line.split("\t")[1] for line in lines] == ["00:00:00.0-00:00:03.0 (1/2)", "00:00:03.0-00:00:06.0 (2/2)"]


def test_n_best_and_explanations_in_every_format_that_holds_them(run: Run, tmp_path: Path) -> None:
    write_film(tmp_path / "film.mp4", 2)
    wish = ("film.mp4", "--n-best", "3", "--explain")
    first, *others = run(*wish)[1].splitlines()
    assert first.startswith("film.mp4\t")
    assert [line.count("\t") for line in others] == [2, 2, 2, 1, 1]
    assert others[3].startswith("\tkeywords: ")
    row = json.loads(run(*wish, "--format", "jsonl")[1])
    assert [other["caption"] for other in row["alternatives"]] == [line.split("\t")[2] for line in others[:3]]
    assert {"word", "weight"} == set(row["keywords"][0])
    assert [word["word"] for word in row["words"]] == row["caption"].split()
    (table,) = csv.DictReader(run(*wish, "--format", "csv")[1].splitlines())
    assert table["caption_2"] == row["alternatives"][1]["caption"]
    assert float(table["score_3"]) == row["alternatives"][2]["score"]
    assert table["keywords"].startswith(row["keywords"][0]["word"])
    web = run(*wish, "--format", "vtt")[1]
    assert web.startswith("WEBVTT\n\nNOTE\n")
    assert "keywords: " in web
    code, _, err = run(*wish, "--format", "srt")
    assert code == 2
    assert "--format vtt" in err


def test_subtitles(run: Run, tmp_path: Path) -> None:
    write_film(tmp_path / "film.mp4", 3, 3)
    cues = run("film.mp4", "--format", "srt")[1].rstrip("\n").split("\n\n")
    assert cues[0].startswith("1\n00:00:00,000 --> 00:00:03,000\n")
    assert cues[1].startswith("2\n00:00:03,000 --> 00:00:06,000\n")
    code, out, _ = run("film.mp4", "--format", "vtt", "--out", "film.vtt")
    assert (code, out) == (0, "")
    assert (tmp_path / "film.vtt").read_text().startswith("WEBVTT\n\n1\n00:00:00.000 --> 00:00:03.000\n")


def test_subtitles_of_several_videos_need_a_folder(run: Run, clips: Path, tmp_path: Path) -> None:
    code, _, err = run("clips", "--format", "srt")
    assert code == 2
    assert "--out FOLDER" in err
    assert run("clips", "--format", "srt", "--out", "subtitles")[0] == 0
    assert sorted(path.name for path in (tmp_path / "subtitles").iterdir()) == ["a.srt", "b.srt", "c.srt"]


def test_names_of_subtitles_differ() -> None:
    paths = [Path(name) for name in ("x/clip.mp4", "x/clip.avi", "y/clip.mp4", "y/other.mp4")]
    assert list(short_names(paths).values()) == ["x_clip.mp4", "clip.avi", "y_clip.mp4", "other"]


@pytest.mark.parametrize("format", ["text", "jsonl", "csv"])
def test_a_second_run_goes_on(run: Run, clips: Path, tmp_path: Path, format: str) -> None:
    write_film(tmp_path / "long.mp4", 14, 12, 9)
    names = ("clips/a.mp4", "long.mp4", "clips/b.mp4")
    assert run(*names, "--format", format, "--out", "whole")[0] == 0
    whole = (tmp_path / "whole").read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in range(len(lines) + 1):  # killed after so many rows, and in the middle of the next
        cut = b"".join(lines[:kept]) + (lines[kept][:7] if kept < len(lines) else b"")
        if kept in (0, 3, 4, len(lines)):
            (tmp_path / "part").write_bytes(cut)
            assert run(*names, "--format", format, "--out", "part")[0] == 0
            assert (tmp_path / "part").read_bytes() == whole
    code, _, err = run(*names, "--format", format, "--out", "part")
    assert code == 0
    assert "3 of 3 videos are in the output already" in err


def test_a_second_run_goes_on_with_subtitles(run: Run, tmp_path: Path) -> None:
    write_film(tmp_path / "long.mp4", 14, 12, 9)
    wish = ("long.mp4", "--format", "vtt", "--explain", "--out", "folder")
    run(*wish)
    (place,) = (tmp_path / "folder").iterdir()
    whole = place.read_text()
    for end in (5, whole.index("2\n00:00:14") + 20, whole.index("3\n00:00:26") - 30, len(whole) - 3):
        place.with_name("long.vtt.part").write_text(whole[:end])
        place.unlink()
        run(*wish)
        assert place.read_text() == whole
        assert [*(tmp_path / "folder").iterdir()] == [place]


def test_failures_stay_in_the_table_and_in_the_exit_code(run: Run, clips: Path, tmp_path: Path) -> None:
    (clips / "b.mp4").write_bytes(b"")
    assert run("clips", "--format", "csv", "--out", "captions.csv")[0] == 1
    rows = list(csv.DictReader((tmp_path / "captions.csv").open()))
    assert [bool(row["error"]) for row in rows] == [False, True, False]
    assert run("clips", "--format", "csv", "--out", "captions.csv")[0] == 1
    assert list(csv.DictReader((tmp_path / "captions.csv").open())) == rows


MISTAKES = [
    # arguments, what the sentence must name
    (["film.mp4", "--out", "poem", "--format", "text"], "poem: line 1 is not a caption in the format text"),
    (["film.mp4", "--out", "poem", "--format", "jsonl"], "poem: line 1"),
    (["film.mp4", "--out", "poem", "--format", "csv"], "poem: has other columns"),
    (["film.mp4", "--out", ".", "--format", "csv"], "name a file"),
    (["film.mp4", "other.mp4", "--out", "poem", "--format", "srt"], "name a folder"),
    (["film.mp4", "--format", "srt", "--no-shots"], "--no-shots"),
    (["film.mp4", "--json", "--format", "csv"], "exclude each other"),
    (["film.mp4", "--format", "docx"], "docx"),
    (["*.avi"], "'*.avi' matches no file"),
    (["empty"], "holds no videos"),
    (["-"], "names no video"),
    (["a" * 300], "File name too long"),
    (["film.mp4", "--out", "poem/captions.txt"], "a file stands where a folder is needed"),
    (["film.mp4", "--out", "poem/captions", "--format", "vtt"], "a file stands where a folder is needed"),
]


@pytest.mark.parametrize(("arguments", "named"), MISTAKES, ids=[" ".join(arguments)[:60] for arguments, _ in MISTAKES])
def test_a_mistake_is_a_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], named: str
) -> None:
    monkeypatch.setattr(sys, "stdin", iter([]))
    (tmp_path / "poem").write_text("The fog comes\non little cat feet.\n")
    (tmp_path / "empty").mkdir()
    code, out, err = run(*arguments)
    assert code in (1, 2)
    assert out == ""
    assert named in err
    assert (tmp_path / "poem").read_text() == "The fog comes\non little cat feet.\n"


@pytest.mark.slow
def test_control_c_ends_cleanly_and_what_was_said_stays(run: Run, model: Path, tmp_path: Path) -> None:
    write_film(tmp_path / "film.mp4", *[3.0] * 30)
    command = [FEWCAP, "caption", "film.mp4", "--model", str(model), "--json", "--out", "out.jsonl"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    out = tmp_path / "out.jsonl"
    until = time.monotonic() + 60
    while (not out.exists() or out.read_bytes().count(b"\n") < 3) and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: the whole group hears it
    _, err = process.communicate(timeout=30)
    written = out.read_bytes()
    assert written.count(b"\n") >= 3
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "run the same command again" in err
    assert run("film.mp4", "--json", "--out", "out.jsonl")[0] == 0
    assert out.read_bytes().startswith(written)
    assert [json.loads(line)["piece"] for line in out.read_text().splitlines()] == list(range(1, 31))


def test_a_reader_that_goes_away_is_no_error(model: Path, clips: Path) -> None:
    command = f"'{FEWCAP}' caption clips/a.mp4 clips/b.mp4 --model '{model}' --shots | head -n 1"
    answer = subprocess.run(command, shell=True, cwd=clips.parent, capture_output=True, text=True, timeout=120)
    assert answer.stdout.startswith("clips/a.mp4\t")
    assert "Traceback" not in answer.stderr


def test_a_folder_of_images_is_a_video(run: Run, tmp_path: Path) -> None:
    from PIL import Image

    for number in range(4):
        (tmp_path / "images").mkdir(exist_ok=True)
        Image.fromarray(scene(number)).save(tmp_path / "images" / f"{number}.png")
    assert videos(run("images")[1]) == ["images"]


def test_without_a_model_the_shipped_one_is_used(tmp_path: Path) -> None:
    from fewcap.captioning.shipped import ASSET
    from fewcap.core.assets import asset

    try:
        asset(ASSET)
    except Exception:
        pytest.skip("no captioner is shipped in this checkout")
    write_film(tmp_path / "film.mp4", 2)
    shutil.copy(tmp_path / "film.mp4", tmp_path / "again.mp4")
    answer = subprocess.run(
        [FEWCAP, "caption", "film.mp4", "again.mp4"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert answer.returncode == 0, answer.stderr
    assert len(answer.stdout.splitlines()) == 2
