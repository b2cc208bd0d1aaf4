"""Hundreds of damaged files: frames or one sentence, never a crash, a hang or another exception."""

from __future__ import annotations

import logging
import random
import time
from pathlib import Path

import pytest
from media import picture, write_video
from PIL import Image

from fewcap.core.config.features import FeaturesConfig
from fewcap.core.errors import FewcapError
from fewcap.features.picture import View
from fewcap.features.video import Sample, Views, sample_video

VARIANTS = 150
LIMIT = 5.0  # seconds


def damaged(content: bytes, number: int, random_: random.Random) -> bytes:
    """One way of many to spoil a file."""
    spoiled = bytearray(content)
    how = number % 5
    if how == 0:  # flip single bits
        for _ in range(random_.choice((1, 5, 50))):
            spoiled[random_.randrange(len(spoiled))] ^= 1 << random_.randrange(8)
    elif how == 1:  # cut off the end
        del spoiled[random_.randrange(len(spoiled)) :]
    elif how == 2:  # zero a part
        start = random_.randrange(len(spoiled))
        end = min(start + random_.choice((4, 64, 1024)), len(spoiled))
        spoiled[start:end] = bytes(end - start)
    elif how == 3:  # noise in a part, often the header
        start = random_.randrange(min(len(spoiled), 200) if number % 2 else len(spoiled))
        end = min(start + random_.choice((4, 32, 256)), len(spoiled))
        spoiled[start:end] = random_.randbytes(end - start)
    else:  # take a part out
        start = random_.randrange(len(spoiled))
        del spoiled[start : start + random_.choice((1, 7, 400))]
    return bytes(spoiled)


def originals(folder: Path) -> list[Path]:
    paths = [
        write_video(folder / "a.mp4", frames=12),
        write_video(folder / "b.mp4", frames=12, codec="libx265"),
        write_video(folder / "c.webm", frames=12, codec="libvpx-vp9"),
        write_video(folder / "d.mkv", frames=12, codec="libsvtav1"),
        write_video(folder / "e.avi", frames=12, codec="mpeg4"),
        write_video(folder / "f.ts", frames=12, format="mpegts"),
    ]
    images = [Image.fromarray(picture(i)) for i in range(6)]
    for name in ("g.gif", "h.webp"):
        images[0].save(folder / name, save_all=True, append_images=images[1:], duration=100)
        paths.append(folder / name)
    images[0].save(folder / "i.png")
    images[0].save(folder / "j.jpg")
    return [*paths, folder / "i.png", folder / "j.jpg"]


@pytest.mark.parametrize("index", range(10))
def test_damaged_files_give_frames_or_a_sentence(index: int, tmp_path: Path) -> None:
    logging.getLogger("libav").setLevel(logging.CRITICAL)
    original = originals(tmp_path)[index]
    content = original.read_bytes()
    random_ = random.Random(index)
    config = FeaturesConfig(time_limit=LIMIT, max_pixels=4_000_000)
    views = Views(frames=View(64, 48), clips=View(32, 32))
    seen = refused = 0
    suffixes = [original.suffix, ".mp4", ".jpg", ".mkv", ""]
    for number in range(VARIANTS):
        path = tmp_path / f"variant{random_.choice(suffixes)}"
        path.write_bytes(damaged(content, number, random_))
        started = time.monotonic()
        try:
            sample = sample_video(path, config, views)
        except FewcapError as error:
            refused += 1
            assert "\n" not in str(error)
            assert str(path) in str(error)
        else:
            seen += 1
            assert isinstance(sample, Sample)
            assert 1 <= len(sample.frames) <= 20
            assert sample.frames.shape[1:] == (48, 64, 3)
        assert time.monotonic() - started < LIMIT + 2
        path.unlink()
    assert seen + refused == VARIANTS
    assert seen > 0
