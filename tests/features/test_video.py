"""Real and damaged files through the one pass that serves all backbones."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from media import DENSE, number_of, picture, rotated, write_video
from PIL import Image

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features.picture import View
from fewcap.features.video import Views, sample_video

CONFIG = DENSE
VIEWS = Views(frames=View(64, 48), clips=View(32, 32))


@pytest.mark.parametrize(
    ("codec", "name"),
    [
        ("libx264", "a.mp4"),
        ("libx265", "a.mp4"),
        ("libvpx-vp9", "a.webm"),
        ("libsvtav1", "a.mkv"),
        ("mpeg4", "a.avi"),
        ("mjpeg", "a.mov"),
    ],
)
def test_frames_of_common_codecs_are_the_ones_shown_at_even_moments(codec: str, name: str, tmp_path: Path) -> None:
    logging.getLogger("libav").setLevel(logging.CRITICAL)
    pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    path = write_video(tmp_path / name, codec=codec, pix_fmt=pix_fmt, frames=24, rate=8)
    sample = sample_video(path, CONFIG, VIEWS)
    numbers = [1, 4, 7, 10, 13, 16, 19, 22]  # the middles of eight parts of three seconds
    assert sample.frame_times == pytest.approx([n / 8 for n in numbers], abs=0.002)
    assert [number_of(frame) for frame in sample.frames] == pytest.approx(numbers, abs=1)  # the codecs lose some
    assert sample.warnings == []
    assert [clip[0] for clip in sample.clips] == [0, 8]  # 16 frames, 8 of them shared
    assert all(len(clip) == 16 for clip in sample.clips)
    assert sample.clip_frames is not None
    assert sample.clip_frames.shape == (24, 32, 32, 3)


def test_variable_frame_rate_goes_by_timestamps(tmp_path: Path) -> None:
    times = [0.0, 0.1, 0.2, 0.3, 0.4, 3.0, 3.5, 3.9]  # frame 4 is shown for most of the time
    path = write_video(tmp_path / "vfr.mkv", frames=8, times=times)
    sample = sample_video(path, FeaturesConfig(min_frames=4, max_frames=4, motion=None), Views(View(64, 48)))
    # Moments 0.5, 1.5, 2.5, 3.5 (of 4 s): frame 4 is shown at three of them and counts once.
    assert number_of(sample.frames[0]) == 4
    assert len(sample.frames) == 2
    assert sample.frame_times[0] == pytest.approx(0.4, abs=0.002)


def test_rotation_flag_turns_the_picture(tmp_path: Path) -> None:
    plain = write_video(tmp_path / "plain.mp4", frames=8, width=96, height=48)
    turned = rotated(plain, tmp_path / "turned.mp4")
    views = Views(frames=View(48, 480, keep_shape=True))
    config = DENSE.model_copy(update={"motion": None})
    upright = sample_video(plain, config, views).frames
    sideways = sample_video(turned, config, views).frames
    assert upright.shape[1:3] == (48, 96)
    assert sideways.shape[1:3] == (96, 48)
    clockwise = np.rot90(upright, -1, axes=(1, 2))
    assert np.abs(clockwise.astype(int) - sideways.astype(int)).mean() < 3


@pytest.mark.parametrize(("width", "height"), [(33, 17), (17, 63), (1, 1), (640, 2)])
def test_odd_sizes(width: int, height: int, tmp_path: Path) -> None:
    path = write_video(tmp_path / "odd.mkv", frames=4, width=width, height=height, codec="ffv1", pix_fmt="bgr0")
    sample = sample_video(path, CONFIG, VIEWS)
    assert sample.frames.shape == (4, 48, 64, 3)


def test_one_frame_gives_one_vector_and_no_motion(tmp_path: Path) -> None:
    sample = sample_video(write_video(tmp_path / "one.mp4", frames=1), CONFIG, VIEWS)
    assert len(sample.frames) == 1
    assert sample.clips == []
    assert sample.clip_frames is None


def test_short_video_invents_no_frames(tmp_path: Path) -> None:
    sample = sample_video(write_video(tmp_path / "five.mp4", frames=5), CONFIG, VIEWS)
    assert [number_of(frame) for frame in sample.frames] == [0, 1, 2, 3, 4]
    assert [len(clip) for clip in sample.clips] == [5]


def test_sound_only_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
    with pytest.raises(FewcapError, match=r"sound\.wav: .*replace the file"):
        sample_video(path, CONFIG, VIEWS)


def test_truncated_file_yields_what_decodes(tmp_path: Path) -> None:
    whole = write_video(tmp_path / "whole.mkv", frames=80, width=320, height=240, gop=10).read_bytes()
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole[: len(whole) * 6 // 10])
    sample = sample_video(cut, CONFIG, VIEWS)
    assert 3 <= len(sample.frames) <= 20
    assert sample.frame_times[-1] < 8.0


def test_damaged_middle_is_skipped_and_counted(tmp_path: Path) -> None:
    whole = bytearray(write_video(tmp_path / "whole.mp4", frames=80, width=320, height=240, gop=10).read_bytes())
    third = whole.index(b"mdat") + len(whole) // 3
    whole[third : third + 1500] = bytes(np.random.default_rng(0).integers(0, 256, 1500, dtype=np.uint8))
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(whole)
    sample = sample_video(broken, CONFIG, VIEWS)
    assert len(sample.frames) >= 8
    assert any("damaged packets or frames were skipped" in warning for warning in sample.warnings)


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"not a video at all\n" * 100, b"#EXTM3U\n/etc/passwd\n"])
def test_what_is_no_video_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.mp4"
    path.write_bytes(content)
    with pytest.raises(FewcapError, match=r"x\.mp4: ") as failure:
        sample_video(path, CONFIG, VIEWS)
    assert "\n" not in str(failure.value)


def test_playlists_can_not_open_other_files(tmp_path: Path) -> None:
    video = write_video(tmp_path / "secret.ts", format="mpegts")
    playlist = tmp_path / "list.mp4"
    playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{video}\n#EXT-X-ENDLIST\n")
    script = tmp_path / "script.mp4"
    script.write_text(f"ffconcat version 1.0\nfile '{video}'\n")
    for path in (playlist, script):
        with pytest.raises(FewcapError):
            sample_video(path, CONFIG, VIEWS)


def test_wrong_extension_does_not_matter(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", frames=8)
    named = shutil.copy(video, tmp_path / "a.jpg")
    assert len(sample_video(Path(named), CONFIG, VIEWS).frames) == 8
    Image.fromarray(picture(3)).save(tmp_path / "b.mp4", format="PNG")
    assert number_of(sample_video(tmp_path / "b.mp4", CONFIG, VIEWS).frames[0]) == 3


def test_gif_and_animated_webp_keep_their_times(tmp_path: Path) -> None:
    images = [Image.fromarray(picture(i)) for i in range(10)]
    for name in ("a.gif", "a.webp"):
        path = tmp_path / name
        options = {"lossless": True} if name.endswith("webp") else {}
        images[0].save(path, save_all=True, append_images=images[1:], duration=200, loop=0, **options)
        sample = sample_video(path, CONFIG, VIEWS)
        numbers = [number_of(frame) for frame in sample.frames]
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 8
        assert sample.frame_times == pytest.approx([0.2 * n for n in numbers], abs=0.011), name


def test_folder_of_images_is_a_video_in_natural_order(tmp_path: Path) -> None:
    folder = tmp_path / "frames"
    folder.mkdir()
    for i in range(12):
        Image.fromarray(picture(i)).save(folder / f"{i}.png")
    (folder / "notes.txt").write_text("not an image")
    sample = sample_video(folder, DENSE.model_copy(update={"min_frames": 12}), VIEWS)
    assert [number_of(frame) for frame in sample.frames] == list(range(12))


def test_two_stills_are_two_frames_and_a_photograph_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "pair"
    folder.mkdir()
    for i in range(2):
        Image.fromarray(picture(5 * i)).save(folder / f"{i}.webp", lossless=True)
    sample = sample_video(folder, CONFIG, VIEWS)
    assert len(sample.frames) == 2
    assert sample.clips == [[0, 1]]
    photograph = sample_video(folder / "1.webp", CONFIG, VIEWS)
    assert [number_of(frame) for frame in photograph.frames] == [5]
    assert photograph.clips == []


def test_damaged_image_in_a_folder_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "pair"
    folder.mkdir()
    Image.fromarray(picture(1)).save(folder / "0.png")
    (folder / "1.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    Image.fromarray(picture(2)).save(folder / "2.png")
    sample = sample_video(folder, CONFIG, VIEWS)
    assert [number_of(frame) for frame in sample.frames] == [1, 2]
    assert sample.warnings == ["1 damaged packets or frames were skipped"]


def test_limits_on_pixels_and_duration(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", frames=24)
    Image.fromarray(picture(0)).save(tmp_path / "a.png")
    for source in (path, tmp_path / "a.png"):
        with pytest.raises(FewcapError, match=r"64×48 pixels, more than features\.max_pixels 1000"):
            sample_video(source, FeaturesConfig(max_pixels=1000), VIEWS)
    with pytest.raises(FewcapError, match=r"lasts 3 s, more than features\.max_duration 2"):
        sample_video(path, FeaturesConfig(max_duration=2), VIEWS)


def test_time_limit_ends_the_reading(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", frames=24)
    with pytest.raises(FewcapError, match=r"features\.time_limit"):
        sample_video(path, FeaturesConfig(time_limit=1e-6), VIEWS)


def test_part_of_a_video(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", frames=48, rate=8)
    sample = sample_video(path, CONFIG, VIEWS, start=2.0, end=4.0)
    numbers = [number_of(frame) for frame in sample.frames]
    assert min(numbers) >= 16
    assert max(numbers) <= 31
    assert len(numbers) == 8
    with pytest.raises(FewcapError, match="has no part from 9"):
        sample_video(path, CONFIG, VIEWS, start=9.0)


def test_long_video_is_not_decoded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(tmp_path / "long.mp4", frames=4000, rate=8, gop=24, options={"preset": "ultrafast"})
    decoded = 0
    from fewcap.features import sources

    original = sources.Stream._decode

    def counting(self: sources.Stream) -> Iterator[tuple[float, Any]]:
        nonlocal decoded
        for found in original(self):
            decoded += 1
            yield found

    monkeypatch.setattr(sources.Stream, "_decode", counting)
    config = DENSE.model_copy(update={"max_frames": 10, "motion": None})
    views = Views(frames=View(64, 48))
    sample = sample_video(path, config, views)
    assert sample.frame_times == pytest.approx([25 + 50 * i for i in range(10)], abs=0.13)
    assert decoded < 400
    monkeypatch.setattr(sources, "_SCAN_BYTES", 0)  # as for a file too large to list its packets
    assert sample_video(path, config, views).frame_times == sample.frame_times


def test_one_pass_serves_all_backbones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fewcap.features import sources

    path = write_video(tmp_path / "a.mp4", frames=40)
    decoded = 0
    original = sources.Stream._decode

    def counting(self: sources.Stream) -> Iterator[tuple[float, Any]]:
        nonlocal decoded
        for found in original(self):
            decoded += 1
            yield found

    monkeypatch.setattr(sources.Stream, "_decode", counting)
    views = Views(frames=View(64, 48), clips=View(32, 32), objects=View(60, 100, keep_shape=True))
    sample = sample_video(path, CONFIG, views)
    assert decoded == 40  # each frame once
    assert len(sample.frames) == 10
    assert len(sample.clips) == 4
    assert [frame.shape for frame in sample.object_frames] == [(60, 80, 3)] * 2  # of clips that do not overlap


def test_seeking_and_reading_in_order_give_the_same_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(tmp_path / "a.mp4", frames=400, rate=8, gop=16, options={"bf": "2"})
    config = FeaturesConfig(min_frames=7, max_frames=7, max_clips=3)
    jumping = sample_video(path, config, VIEWS)
    from fewcap.features import sources

    monkeypatch.setattr(sources.Stream, "_worth_jumping", lambda self, position, moment: False)
    in_order = sample_video(path, config, VIEWS)
    assert jumping.frame_times == in_order.frame_times
    assert np.array_equal(jumping.frames, in_order.frames)
    assert jumping.clip_spans == in_order.clip_spans
