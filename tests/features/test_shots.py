"""Cutting at shot changes: real cuts at known times are found, and what only moves, fades or flickers is not cut."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.core.config.features import FeaturesConfig
from fewcap.features import shots
from fewcap.features.picture import View
from fewcap.features.shots import LONGEST, SHORTEST, Pieces, cut, pieces
from fewcap.features.sight import sight
from fewcap.features.sources import open_source
from fewcap.features.video import Views, sample_parts, sample_video

WIDTH, HEIGHT, RATE = 96, 64, 12
Scene = Callable[[float], np.ndarray]  # seconds → picture [H, W, 3]


def scene(seed: int, speed: float = 4.0) -> Scene:
    """Coloured patches behind a window that moves ``speed`` pixels a second."""
    random = np.random.default_rng(seed)
    patches = random.integers(0, 256, (HEIGHT // 16, 24, 3), dtype=np.uint8)
    wide = patches.repeat(16, 0).repeat(16, 1)
    return lambda at: wide[:, int(at * speed) % 200 :][:, :WIDTH]


def write(path: Path, frames: Sequence[np.ndarray], *, gop: int = 36, seconds_each: float = 1 / RATE) -> Path:
    with av.open(str(path), "w") as container:
        # Fixed keyframes: the encoder must not tell where the cuts are.
        stream = container.add_stream("libx264", rate=RATE, options={"sc_threshold": "0", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.gop_size = gop
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, picture in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = round(1000 * number * seconds_each), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def filmed(*parts: tuple[Scene, float]) -> list[np.ndarray]:
    return [look(n / RATE) for look, seconds in parts for n in range(round(seconds * RATE))]


def cut_file(path: Path) -> Pieces:
    with closing(open_source(path, FeaturesConfig())) as source:
        return cut(source)


def test_cuts_are_found_where_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "film.mp4", filmed((scene(1), 5), (scene(2), 7.5), (scene(3), 4), (scene(4), 9)))
    starts = [start for start, _ in cut_file(path).spans]
    assert starts == pytest.approx([0, 5, 12.5, 16.5], abs=0.15)


def fading(at: float) -> np.ndarray:
    return (scene(5)(at) * abs(np.cos(at * np.pi / 6))).astype(np.uint8)


def noisy(at: float) -> np.ndarray:
    noise = np.random.default_rng(round(at * 1000)).normal(0, 25, (HEIGHT, WIDTH, 3))
    return np.clip(scene(6)(at) + noise, 0, 255).astype(np.uint8)


def flashing(at: float) -> np.ndarray:
    return np.full((HEIGHT, WIDTH, 3), 250, np.uint8) if round(at * RATE) % 40 == 20 else scene(7)(at)


QUIET: dict[str, Scene] = {
    "still": scene(8, speed=0),
    "fast pan": scene(9, speed=40),
    "fade to black and back": fading,
    "noise over a picture": noisy,
    "flashes": flashing,
    "black": lambda at: np.zeros((HEIGHT, WIDTH, 3), np.uint8),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_is_one_shot_stays_whole(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "film.mp4", filmed((QUIET[name], 18)))
    (span,) = cut_file(path).spans
    assert span == pytest.approx((0, 18), abs=0.2)


def test_very_many_pixels_are_judged_by_keyframes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "film.mp4", filmed((scene(1, 0), 8), (scene(2, 0), 8), (scene(3, 0), 8)), gop=RATE)
    monkeypatch.setattr(shots, "_MOST_PIXELS", 0)
    starts = [start for start, _ in cut_file(path).spans]
    assert starts == pytest.approx([0, 8, 16], abs=1.01)  # at the keyframe after the cut


def test_a_two_hour_file_is_cut_quickly_into_bounded_pieces(tmp_path: Path) -> None:
    pictures = [scene(n // 40)(n) for n in range(720)]
    path = write(tmp_path / "film.mp4", pictures, seconds_each=10.0, gop=1)
    found = cut_file(path)
    assert found.spans[-1][1] == pytest.approx(7200, abs=11)
    assert {400.0, 800.0, 1200.0} <= {start for start, _ in found.spans}
    assert len(found.spans) < 7200 / SHORTEST
    assert found.seekable


def test_a_header_that_promises_too_much_is_not_believed(tmp_path: Path) -> None:
    whole = write(tmp_path / "film.mkv", filmed((scene(1), 40), (scene(2), 40)))
    content = whole.read_bytes()
    half = tmp_path / "half.mkv"
    half.write_bytes(content[: len(content) // 2])
    assert cut_file(half).spans[-1][1] < 60


def test_images_are_divided_evenly(tmp_path: Path) -> None:
    from PIL import Image

    for number in range(16):
        Image.fromarray(scene(number)(0)).save(tmp_path / f"{number}.png")
    assert cut_file(tmp_path).spans == ((0.0, 2.0),)  # 16 images at 8 a second


@given(
    st.floats(0.1, 1000),
    st.dictionaries(st.floats(0, 1000), st.floats(0, 1), max_size=40),
)
def test_pieces_cover_the_video_and_keep_their_limits(seconds: float, changes: dict[float, float]) -> None:
    found = pieces(seconds, {at: strength for at, strength in changes.items() if at < seconds})
    assert found[0][0] == 0
    assert found[-1][1] == pytest.approx(seconds, abs=1e-3)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    assert all(end - start <= LONGEST + 2e-3 for start, end in found)
    assert len(found) == 1 or all(end - start >= SHORTEST - 2e-3 for start, end in found)


def test_parts_in_one_walk_are_the_parts_read_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "film.mp4", filmed((scene(1), 20), (scene(2), 20)), gop=24)
    config, views = FeaturesConfig(), Views(View(32, 24), View(16, 16))
    parts = [(0.0, 6.5), (6.5, 20.0), (31.0, 40.0)]
    with closing(open_source(path, config)) as source:
        together = list(sample_parts(source, parts, config, views))
    for (start, end), sample in zip(parts, together, strict=True):
        alone = sample_video(path, config, views, start=start, end=end)
        assert sample.frame_times == alone.frame_times
        assert sample.clips == alone.clips
        assert np.array_equal(sample.frames, alone.frames)


RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (np.zeros((3, 224, 224, 3)), "black"),
        (np.full((3, 224, 224, 3), 255), "white"),
        (np.full((3, 224, 224, 3), (20, 110, 200)), "plain"),
        (RANDOM.normal(8, 3, (3, 224, 224, 3)), "black"),  # a camera with its lid on
        (RANDOM.integers(0, 256, (3, 224, 224, 3)), "noise"),
        (np.tile(np.linspace(0, 255, 224)[:, None, None], (3, 1, 224, 3)), None),
        (np.tile(RANDOM.integers(0, 2, (224, 224, 1)) * 255, (3, 1, 1, 3)), None),  # small print
    ],
)
def test_what_there_is_to_see(frames: np.ndarray, expected: str | None) -> None:
    frames = np.clip(frames, 0, 255).astype(np.uint8)
    assert sight(frames) == expected
    frames[1] = np.arange(224, dtype=np.uint8)[:, None, None]  # one frame that shows something
    assert sight(frames) is None
