"""Pictures of a synthetic scene, and the mp4 file that holds them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from fewcap.data.backdrop import WALL_TOP, backdrop, wall
from fewcap.data.scene import GROUND, Actor, Pose, Scene, poses, wall_at
from fewcap.data.sprites import sprite

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

_SAMPLE_RATE = 22_050
_SOUND_BLOCK = 1_024


def write_clip(scene: Scene, path: Path) -> None:
    """Renders the scene into an H.264 mp4 file: the same bytes for the same scene on the same machine."""
    import av

    rate = Fraction(*scene.rate)
    with av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        video = container.add_stream("libx264", rate=rate)
        video.width, video.height = scene.size
        video.pix_fmt = "yuv420p"
        # One thread: x264's result depends on the number of threads, and clips are rendered side by side anyway.
        video.options = {"preset": "superfast", "crf": "22", "threads": "1"}
        video.thread_count = 1
        audio = container.add_stream("aac", rate=_SAMPLE_RATE, layout="mono") if scene.sound else None
        for number, picture in enumerate(pictures(scene)):
            frame = av.VideoFrame.from_image(picture)
            frame.pts, frame.time_base = number, 1 / rate
            container.mux(video.encode(frame))
        container.mux(video.encode())
        if audio is not None:
            samples = melody(scene, float(scene.frames / rate))  # [1, n]
            for begin in range(0, samples.shape[1], _SOUND_BLOCK):
                block = av.AudioFrame.from_ndarray(samples[:, begin : begin + _SOUND_BLOCK], "fltp", "mono")
                block.sample_rate, block.pts, block.time_base = _SAMPLE_RATE, begin, Fraction(1, _SAMPLE_RATE)
                container.mux(audio.encode(block))
            container.mux(audio.encode())


def pictures(scene: Scene) -> Iterator[Image]:
    """The frames of the scene in order, RGB."""
    width, height = scene.size
    margin = (math.ceil(abs(scene.pan[0]) * width / 2) + 2, math.ceil(abs(scene.pan[1]) * height / 2) + 2)
    scenery = backdrop(scene.place, scene.size, margin, scene.decor)
    # A narrow frame makes actors smaller rather than cut off.
    unit = min(height, width * 0.78)
    drawn = [sprite(actor, round(actor.size * unit)) for actor in scene.actors]
    hideout = wall(scene.size) if scene.action == "hide" else None
    for number in range(scene.frames):
        u = number / max(scene.frames - 1, 1)
        shift = (round(scene.pan[0] * (u - 0.5) * width), round(scene.pan[1] * (u - 0.5) * height))
        left, top = margin[0] + shift[0], margin[1] + shift[1]
        frame = scenery.crop((left, top, left + width, top + height))
        for actor, pose, picture in reversed(list(zip(scene.actors, poses(scene, u), drawn, strict=True))):
            _place(frame, actor, pose, picture, unit, shift)
        if hideout is not None:
            left = round(wall_at(scene) * width - hideout.width / 2)
            frame.paste(hideout, (left - shift[0], round(WALL_TOP * height) - shift[1]))
        yield frame


def _place(frame: Image, actor: Actor, pose: Pose, picture: Image, unit: float, shift: tuple[int, int]) -> None:
    """Puts a turned and squeezed sprite and its shadow into the frame, between pixels where need be."""
    from PIL import Image, ImageDraw

    width, height = frame.size
    feet = GROUND * height
    # Heights above the ground follow the actor's size, so that feet touch the ground in any frame shape.
    lift = (GROUND - actor.size / 2 - pose.y) * unit
    half = picture.width * pose.stretch_y / 2 if pose.stretch_y != 1 else picture.width / 2
    grounded = lift if pose.stretch_y == 1 else lift + picture.width * (1 - pose.stretch_y) / 2
    x, y = pose.x * width - shift[0], feet - picture.width / 2 - lift - shift[1]

    spread = picture.width * 0.42 * max(0.35, 1 - max(grounded, 0.0) / height)
    ImageDraw.Draw(frame, "RGBA").ellipse(
        (x - spread, feet - half * 0.09 - shift[1], x + spread, feet + half * 0.13 - shift[1]), fill=(20, 20, 30, 70)
    )

    diagonal = 0.72 if pose.turn else 0.5  # half the side of the square that the turned sprite fits in
    reach = math.ceil(picture.width * max(pose.stretch_x, pose.stretch_y) * diagonal) + 1
    left, top = math.floor(x) - reach, math.floor(y) - reach
    side = 2 * reach + 1
    angle = math.radians(pose.turn)
    cos, sin = math.cos(angle), math.sin(angle)
    sign = -1.0 if pose.flip else 1.0
    # Each pixel of the patch looks up its place in the sprite: shift to the centre, turn back, unsqueeze.
    a, b = sign * cos / pose.stretch_x, sign * sin / pose.stretch_x
    d, e = -sin / pose.stretch_y, cos / pose.stretch_y
    centre_x, centre_y = x - left, y - top
    middle = picture.width / 2
    c = middle - a * centre_x - b * centre_y
    f = middle - d * centre_x - e * centre_y
    patch = picture.transform((side, side), Image.Transform.AFFINE, (a, b, c, d, e, f), Image.Resampling.BILINEAR)
    frame.paste(patch, (left, top), patch)


def melody(scene: Scene, seconds: float) -> np.ndarray:
    """A soft tune, different for each action, as float samples [1, n]."""
    import numpy as np

    n = int(seconds * _SAMPLE_RATE)
    time = np.arange(n, dtype=np.float64) / _SAMPLE_RATE
    notes = (262.0, 330.0, 392.0, 523.0)
    beat = (time * 4).astype(np.int64)
    pitch = np.array(notes)[(beat + len(scene.action)) % len(notes)]
    fade = np.exp(-6 * (time * 4 - beat))
    return (0.2 * np.sin(2 * np.pi * pitch * time) * fade).astype(np.float32)[None, :]
