from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import av
import numpy as np
import pytest

from fewcap.core.config.data import DataConfig, SyntheticConfig
from fewcap.core.errors import FewcapError
from fewcap.data import rendering
from fewcap.data.annotations import Annotations, Problems
from fewcap.data.choose import choose_sentences
from fewcap.data.grammar import captions
from fewcap.data.prepare import prepare, read_dataset
from fewcap.data.render import pictures, write_clip
from fewcap.data.rendering import render_all
from fewcap.data.scene import ACTIONS, COLOURS, KINDS, PLACES, Scene, make_scene, poses
from fewcap.data.synthetic import annotate, scenes, write_folder

TIDY = {"seconds": 1.0, "odd_share": 0.0, "sound_share": 0.0}


def scene(index: int, **changes: float) -> Scene:
    return make_scene(0, index, **(TIDY | changes))


def test_a_clip_is_a_real_video(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    write_clip(scene(0, seconds=3.0, sound_share=1.0), path)
    with av.open(str(path)) as container:
        video, audio = container.streams.video[0], container.streams.audio[0]
        assert (video.codec.name, video.width, video.height) == ("h264", 320, 240)
        assert audio.codec.name == "aac"
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert 2.7 < len(frames) / float(video.average_rate) < 3.3
        assert 2.5 < container.duration / 1e6 < 3.5
    assert np.abs(frames[0].astype(int) - frames[len(frames) // 2]).mean() > 1  # something moves


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    written = {}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_clip(make_scene(seed, 5, **(TIDY | {"sound_share": 1.0})), tmp_path / name)
        written[name] = (tmp_path / name).read_bytes()
    assert written["a"] == written["b"] != written["c"]


def test_clips_do_not_depend_on_how_many_there_are() -> None:
    few, many = (scenes(SyntheticConfig(train=n, val=2, test=2), 3) for n in (4, 40))
    assert [scene for _, scene in few] == [scene for _, scene in many[:8]]


def test_the_world_is_varied() -> None:
    world = [make_scene(0, index, seconds=3, odd_share=0.15, sound_share=0.2) for index in range(460)]
    assert set(Counter(s.action for s in world)) == set(ACTIONS)
    for found, names in (
        (Counter(s.place for s in world), PLACES),
        (Counter(s.actor.kind for s in world), KINDS),
        (Counter(s.actor.colour for s in world), COLOURS),
    ):
        assert set(found) == set(names)
        assert min(found.values()) > 0.6 * len(world) / len(names)
    assert set(Counter(len(s.actors) for s in world)) == {1, 2, 3}
    assert 0.1 < np.mean([s.sound for s in world]) < 0.3
    assert len({s.size for s in world}) > 3
    assert len({s.rate for s in world}) > 3
    assert all(width % 2 == 0 and height % 2 == 0 for width, height in {s.size for s in world})
    assert all(len({actor.colour for actor in s.actors}) == len(s.actors) for s in world)


@pytest.mark.parametrize("action", ACTIONS)
def test_actions_differ_in_how_actors_move(action: str) -> None:
    one = scene(ACTIONS.index(action))
    moments = [poses(one, u) for u in np.linspace(0, 1, 60)]
    actor = [moment[0] for moment in moments]
    travelled, turned = abs(actor[-1].x - actor[0].x), abs(actor[-1].turn - actor[0].turn)
    rise = max(pose.y for pose in actor) - min(pose.y for pose in actor)
    if action == "bounce":
        assert turned == 0
        assert travelled < 0.2
        assert rise > 0.25
    elif action == "roll":
        assert turned > 360
        assert travelled > 0.5
    elif action == "spin":
        assert turned > 360
        assert travelled == 0
    elif action == "fall":
        assert actor[0].y < 0
        assert actor[-1].y > 0.5
    elif action == "hide":
        assert turned == 0
        assert travelled > 0.3
    else:
        other = [moment[1] for moment in moments]
        first, last = abs(actor[0].x - other[0].x), abs(actor[-1].x - other[-1].x)
        assert (last < first / 2) == (action == "meet")
        assert (abs(other[-1].x - other[0].x) > 0.5) == (action == "chase")


def test_odd_clips_can_be_decoded(tmp_path: Path) -> None:
    odd = [s for s in (scene(i, odd_share=1.0, sound_share=0.5) for i in range(60)) if s.size != (320, 240)]
    by_size = {s.size: s for s in odd}
    assert len(by_size) >= 4
    for size, one in by_size.items():
        path = tmp_path / f"{size}.mp4"
        write_clip(one, path)
        with av.open(str(path)) as container:
            frames = list(container.decode(video=0))
        assert len(frames) == one.frames
        assert (frames[0].width, frames[0].height) == size


def test_who_hides_is_not_seen_any_more() -> None:
    hiding = scene(ACTIONS.index("hide"), seconds=2.0)
    frames = [np.asarray(picture, dtype=float) for picture in pictures(hiding)]
    gone = frames[round(len(frames) * 0.75)]
    later = frames[round(len(frames) * 0.75) + 1]
    assert np.abs(frames[0] - frames[3]).mean() > np.abs(gone - later).mean()


def test_captions_differ_and_name_what_is_seen() -> None:
    for index in range(70):
        one = scene(index)
        sentences = captions(one, 8, 0, index)
        assert len(set(sentences)) == 8
        assert sentences == captions(one, 8, 0, index)
        text = " ".join(sentences)
        assert one.actor.colour in text
        nouns = {"cat": "kitten", "box": "cube", "car": "vehicle"}
        assert one.actor.kind in text or nouns[one.actor.kind] in text
        assert all(sentence == " ".join(sentence.lower().split()) for sentence in sentences)


def test_the_world_has_many_sentences() -> None:
    world = [make_scene(0, index, seconds=3, odd_share=0, sound_share=0) for index in range(300)]
    sentences = [captions(one, 1, 0, index)[0] for index, one in enumerate(world)]
    most_frequent = Counter(sentences).most_common(1)[0][1]
    assert len(set(sentences)) > 250  # ignoring the video and saying one sentence is nearly always wrong
    assert most_frequent <= 4
    words = Counter(word for sentence in sentences for word in sentence.split())
    assert len(words) < 100  # few enough to be learnt from 300 sentences


def test_many_clips_are_rendered_side_by_side(tmp_path: Path) -> None:
    jobs = [(scene(index, seconds=0.5), tmp_path / "videos" / f"{index}.mp4") for index in range(14)]
    assert set(render_all(jobs)) == {path for _, path in jobs}
    write_clip(jobs[3][0], tmp_path / "alone.mp4")
    assert jobs[3][1].read_bytes() == (tmp_path / "alone.mp4").read_bytes()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FewcapError, match="no permission to write"):
        list(render_all([(scene(index), tmp_path / f"{index}.mp4") for index in range(14)]))


@pytest.mark.parametrize("cores", [1, 2])
def test_rendering_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(rendering, "_cores", lambda: cores)
    jobs = [(scene(index, seconds=0.5), tmp_path / f"{index}.mp4") for index in range(14)]
    jobs[13][1].mkdir()  # a folder stands where the file should go
    (jobs[13][1] / "x").write_text("")
    with pytest.raises(FewcapError, match="Rendering clips failed"):
        list(render_all(jobs))


def test_write_folder_looks_like_a_users_folder(tmp_path: Path) -> None:
    captions_file = write_folder(tmp_path, SyntheticConfig(train=3, val=1, test=1, captions=2, seconds=0.5), 0)
    assert len(list((tmp_path / "videos").glob("*.mp4"))) == 5
    lines = captions_file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "video,caption,split"
    assert len(lines) == 1 + 5 * 2
    config = DataConfig(source="folder", videos=tmp_path / "videos", captions=captions_file)
    assert prepare(tmp_path / "data", config, seed=0).counts["problems"] == {}


RUN = """
import sys
from pathlib import Path
from fewcap.core.config.data import DataConfig
from fewcap.data.prepare import prepare
prepare(Path(sys.argv[1]), DataConfig(synthetic={"train": 12, "val": 3, "test": 5, "seconds": 1.0}), seed=4)
"""


def content(folder: Path) -> dict[str, bytes]:
    skipped = {"journal.jsonl", ".lock"}
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([sys.executable, "-c", RUN, str(whole)], check=True)
    for clips in (1, 9, 17):  # killed at the first clips, half-way, and near the end
        process = subprocess.Popen([sys.executable, "-c", RUN, str(killed)])
        deadline = time.monotonic() + 60
        while len(list((killed / "videos").glob("clip*.mp4"))) < clips and time.monotonic() < deadline:
            if process.poll() is not None:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(list((killed / "videos").glob("clip*.mp4"))) >= 1
    subprocess.run([sys.executable, "-c", RUN, str(killed)], check=True)
    assert content(killed) == content(whole)
    data = read_dataset(killed)
    assert [len(data.split(name)) for name in ("train", "val", "test")] == [12, 3, 5]
    assert all(item.path is not None and item.path.is_file() for item in data.items)
    assert [len(item.captions) for item in data.items] == [1] * 12 + [8] * 8


def test_saying_the_same_of_every_clip_scores_badly() -> None:
    """The figures in docs/synthetic.md; ``pytest -s`` prints them."""
    from fewcap.evaluation.cider import cider_d

    config, annotations = SyntheticConfig(), Annotations(Problems())
    annotate(annotations, config, 0)
    videos = annotations.videos.values()
    references = {video.id: video.captions for video in videos if video.split == "test"}
    training = [
        video.captions[choose_sentences(video.id, video.captions, 1)[0]] for video in videos if video.split == "train"
    ]
    most_frequent = Counter(training).most_common(1)[0][0]
    dice = random.Random(0)
    tests = {one.id: (index, one) for index, (split, one) in enumerate(scenes(config, 0)) if split == "test"}
    floor = cider_d(dict.fromkeys(references, most_frequent), references)
    drawn = cider_d({video_id: dice.choice(training) for video_id in references}, references)
    human = cider_d({v: captions(one, 1, 999, index)[0] for v, (index, one) in tests.items()}, references)
    print(f"most frequent {floor:.1f}, random {drawn:.1f}, one more by the grammar {human:.1f}")
    assert floor < 20
    assert drawn < 50
    assert human > 200
