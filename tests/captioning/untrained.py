"""A model folder that captions files but has learnt nothing, and files such as people have: good, odd and broken."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import torch
from PIL import Image, ImageDraw

from fewcap.captioning.folder import Limits, TrainedCaptioner
from fewcap.captioning.model import CaptionModel, Dims
from fewcap.captioning.retrieval import SentenceBank
from fewcap.core.config.features import FeaturesConfig
from fewcap.core.config.train import ModelConfig, TrainConfig
from fewcap.core.store import Stage, Workspace, run_stage
from fewcap.features.backbones import build
from fewcap.features.store import KindInfo
from fewcap.pseudo.videotext import Tower
from fewcap.text.vocabulary import EOS, Vocabulary

SENTENCES = ("a man is singing", "a woman is cooking rice", "two dogs are running in the park", "a car drives fast")


def write_model(folder: Path, *, limits: Limits | None = None) -> Path:
    """A captioner with random weights over features of a small network."""
    features = FeaturesConfig(appearance="efficientnet_lite0", min_frames=4, max_frames=6, max_clips=4)
    kinds = {kind: KindInfo(c.name, c.dim, c.hash) for kind, c in build(features).cards.items()}
    vocabulary = Vocabulary(sorted({word for sentence in SENTENCES for word in sentence.split()}))
    config = TrainConfig(model=ModelConfig(width=32, heads=4, frames=4, objects=4, max_words=8))
    dims = {kind: info.dim for kind, info in kinds.items()}
    torch.manual_seed(0)
    model = CaptionModel(config.model, Dims(dims, len(vocabulary), 384, config.keywords.count)).eval()
    model.classifier.bias.data[EOS] = -1.0  # every caption has words
    random = np.random.default_rng(0)
    embeddings = random.standard_normal((len(SENTENCES), 384)).astype(np.float32)
    pooled = sum(dims.values())
    trained = TrainedCaptioner(
        [model],
        config,
        vocabulary,
        SentenceBank.build(SENTENCES, [f"v{i}" for i in range(len(SENTENCES))], embeddings),
        Tower(np.zeros(pooled, np.float32), random.standard_normal((pooled, 384)).astype(np.float32), np.zeros(384)),
        kinds,
        features.content(),
        limits or Limits(),
    )

    def save(workspace: Workspace) -> dict[str, int]:
        trained.save(workspace)
        return {}

    run_stage(Stage(folder, "model", inputs={}, config={}), save)
    return folder


def scene(seed: int, width: int = 96, height: int = 64) -> np.ndarray:
    """Coloured patches [H, W, 3]."""
    patches = np.random.default_rng(seed).integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
    return patches.repeat(16, 0).repeat(16, 1)


def write_video(path: Path, pictures: list[np.ndarray], *, seconds_each: float = 0.125) -> Path:
    """Each picture is shown for ``seconds_each``."""
    height, width, _ = pictures[0].shape
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=8, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size = 8
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = round(1000 * number * seconds_each), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def write_film(path: Path, *seconds: float, first_scene: int = 0) -> Path:
    """Scenes of the given lengths, one after another."""
    pictures = [scene(first_scene + n) for n, length in enumerate(seconds) for _ in range(round(length * 8))]
    return write_video(path, pictures)


def write_sound(path: Path) -> Path:
    """A file with sound alone."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16000
        for number in range(20):
            frame.pts = 1024 * number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def write_odd_files(folder: Path) -> Path:
    """What ``fewcap caption`` meets sooner or later."""
    folder.mkdir()
    random = np.random.default_rng(0)
    slide = Image.new("RGB", (320, 240), "white")
    ImageDraw.Draw(slide).multiline_text((20, 20), "Quarterly results\n\n- more\n- less\n- the same", fill="black")
    write_video(folder / "black.mp4", [np.zeros((64, 96, 3), np.uint8)] * 16)
    write_video(folder / "noise.mp4", [random.integers(0, 256, (240, 320, 3), dtype=np.uint8) for _ in range(16)])
    write_video(folder / "slide.mp4", [np.asarray(slide)] * 16)
    write_video(folder / "still.mp4", [scene(1)] * 16)
    write_video(folder / "two_hours.mp4", [scene(n // 60) for n in range(240)], seconds_each=30.0)
    Image.fromarray(scene(2)).save(folder / "photo.jpg")
    Image.fromarray(scene(3)).save(folder / "photo.webp")
    slide.save(folder / "slide.png")
    write_sound(folder / "sound.m4a").rename(folder / "sound.mp4")
    (folder / "empty.mp4").touch()
    (folder / "letter.mp4").write_text("Dear Sir or Madam,\nthis is not a video.\n" * 50)
    (folder / "letter.jpg").write_bytes(b"\xff\xd8\xff\xe0 this is not a picture")
    write_film(folder / "cut off.mp4", 3)
    content = (folder / "cut off.mp4").read_bytes()
    (folder / "cut off.mp4").write_bytes(content[: len(content) // 2])
    return folder
