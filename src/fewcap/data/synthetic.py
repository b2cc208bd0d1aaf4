"""The synthetic world: any number of short real videos with many captions each, decided by a seed alone.

It is the default data of the demo and of fast tests. Clip number i looks the same however many clips are rendered.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from fewcap.core.config.data import SyntheticConfig
from fewcap.core.errors import FewcapError
from fewcap.core.progress import progress
from fewcap.core.types import SPLITS, Split
from fewcap.data.annotations import Annotations
from fewcap.data.grammar import captions
from fewcap.data.rendering import render_all
from fewcap.data.scene import Scene, make_scene


def scenes(config: SyntheticConfig, seed: int) -> list[tuple[Split, Scene]]:
    """All scenes of the world with their splits, training first."""
    splits: list[Split] = [split for split in SPLITS for _ in range(getattr(config, split))]
    if not splits:
        raise FewcapError("data.synthetic: train, val and test are all 0; ask for at least one clip.")
    return [
        (
            split,
            make_scene(seed, index, seconds=config.seconds, odd_share=config.odd_share, sound_share=config.sound_share),
        )
        for index, split in enumerate(splits)
    ]


def annotate(annotations: Annotations, config: SyntheticConfig, seed: int) -> None:
    """Writes the captions of every clip into ``annotations``."""
    for index, (split, scene) in enumerate(scenes(config, seed)):
        annotations.add(
            scene.id, captions(scene, config.captions, seed, index), where=f"synthetic clip {index}", split=split
        )


def render(folder: Path, config: SyntheticConfig, seed: int) -> None:
    """Renders the clips that are not in ``folder`` yet, on all cores; each file appears when it is complete."""
    missing = [scene for _, scene in scenes(config, seed) if not (folder / clip_name(scene)).exists()]
    with progress("rendering clips", len(missing), "clips") as bar:
        for _ in render_all([(scene, folder / clip_name(scene)) for scene in missing]):
            bar.advance()


def clip_name(scene: Scene) -> str:
    return f"{scene.id}.mp4"


def write_folder(folder: Path, config: SyntheticConfig, seed: int) -> Path:
    """The world as a user's folder would look: ``videos/*.mp4`` and ``captions.csv``; returns the captions file."""
    render(folder / "videos", config, seed)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["video", "caption", "split"])
    for index, (split, scene) in enumerate(scenes(config, seed)):
        for caption in captions(scene, config.captions, seed, index):
            table.writerow([clip_name(scene), caption, split])
    path = folder / "captions.csv"
    path.write_text(text.getvalue(), encoding="utf-8")
    return path
