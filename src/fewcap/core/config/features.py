"""What is taken from a video."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from fewcap.core.config.base import Section
from fewcap.core.errors import nearest

APPEARANCE = (
    "clip_vit_b16",
    "efficientnet_lite0_captions",
    "efficientnet_lite0",
    "pplcnet_v2",
    "inception_resnet_v2",
)  # and 'timm:<name>' for any network that timm has
MOTION = ("changes", "i3d", "c3d")
OBJECTS = ("grid", "faster_rcnn")

# How the work is done, not what comes out: these never invalidate features that are there already.
RUNTIME = ("workers", "engine", "ray_address", "device", "time_limit", "memory_limit")


class FeaturesConfig(Section):
    """What is taken from a video."""

    appearance: str = Field(
        "clip_vit_b16",
        description="Network that sees single frames: clip_vit_b16, efficientnet_lite0 (a tenth of the time), "
        "efficientnet_lite0_captions (its last stages trained on captions of MSR-VTT and Flickr8k), pplcnet_v2, "
        "inception_resnet_v2 or timm:<name>; several joined by + see side by side.",
    )
    motion: str | None = Field(
        "changes", description="What sees clips of frames: changes (needs no weights), i3d, c3d, or null for none."
    )
    objects: str | None = Field(
        "grid", description="What sees parts of a frame: grid (cells of the appearance map), faster_rcnn, or null."
    )
    weights: dict[str, str] = Field(
        default_factory=dict, description="Local weight files by model name, for example {c3d: /models/c3d.pth}."
    )
    frame_rate: float = Field(0.5, gt=0, le=60, description="Frames a second for appearance, evenly spaced.")
    min_frames: int = Field(4, ge=1, le=1000, description="Frames taken of a short video, if it has as many.")
    max_frames: int = Field(8, ge=1, le=1000, description="Frames taken of a long video.")
    clip_length: int = Field(16, ge=2, le=64, description="Frames in a clip.")
    clip_overlap: int = Field(8, ge=0, description="Frames that a clip shares with the one before.")
    clip_rate: float = Field(
        8.0, gt=0, le=60, description="Frames a second inside clips; a slower video gives the frames it has."
    )
    max_clips: int = Field(20, ge=1, le=1000, description="Clips taken of a long video, evenly spaced.")
    objects_per_frame: int = Field(5, ge=1, le=49, description="Objects taken of one frame (faster_rcnn: usually 10).")
    max_objects: int = Field(40, ge=1, le=1000, description="Objects taken of a video; its frames share them evenly.")
    crops: int = Field(
        0,
        ge=0,
        le=100,
        description="Training videos of fewer than min_frames frames (photographs, pairs of stills) are looked at so "
        "many times more, each time through a random cut-out, mirrored or not; training chooses among these looks. "
        "Those of data.further are not.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Arithmetic of the networks; bfloat16 is faster, differs by some per cent, and needs AVX-512 or a "
        "GPU.",
    )
    max_pixels: int = Field(
        36_000_000, ge=1, description="A video whose frames have more pixels is refused (8192×4320 fits)."
    )
    max_duration: float = Field(6 * 3600.0, gt=0, description="A video that lasts longer, in seconds, is refused.")
    time_limit: float = Field(120.0, gt=0, description="Seconds that reading one video may take before it is given up.")
    memory_limit: int = Field(
        4096, ge=256, description="Megabytes that a worker process may allocate for a video and the networks."
    )
    device: str = Field("auto", description="Where the networks run: auto, cpu, cuda, cuda:1, mps.")
    workers: int | None = Field(None, ge=1, le=1024, description="Processes; null takes one for each core.")
    engine: Literal["local", "ray"] = Field("local", description="Who runs the workers: this machine, or Ray.")
    ray_address: str | None = Field(None, description="Address of a Ray cluster; null starts Ray on this machine.")

    @model_validator(mode="after")
    def _consistent(self) -> FeaturesConfig:
        names = self.appearance.split("+")
        for name in names:
            if not name.startswith("timm:"):
                _known("appearance", name, (*APPEARANCE, "timm:<name>"))
        if len(set(names)) < len(names):
            raise ValueError(f"appearance '{self.appearance}' names a network twice; take it once")
        _known("motion", self.motion, MOTION)
        _known("objects", self.objects, OBJECTS)
        if self.min_frames > self.max_frames:
            raise ValueError(f"min_frames {self.min_frames} exceeds max_frames {self.max_frames}; lower min_frames")
        if self.clip_overlap >= self.clip_length:
            raise ValueError(
                f"clip_overlap {self.clip_overlap} must be less than clip_length {self.clip_length}; lower clip_overlap"
            )
        if self.motion == "c3d" and self.clip_length != 16:
            raise ValueError(f"c3d takes clips of 16 frames, clip_length is {self.clip_length}; set clip_length to 16")
        if self.ray_address is not None and self.engine != "ray":
            raise ValueError(
                f"ray_address '{self.ray_address}' is given but engine is '{self.engine}'; set engine: ray"
            )
        return self

    def content(self) -> dict[str, Any]:
        """The fields that decide what comes out."""
        unused = () if self.crops else ("crops",)  # features without cut-outs are what they were before there were any
        return self.model_dump(mode="json", exclude={*RUNTIME, *unused})


def _known(key: str, name: str | None, choices: tuple[str, ...]) -> None:
    if name is not None and name not in choices:
        raise ValueError(f"{key} '{name}' is unknown; choose one of {', '.join(choices)}.{nearest(name, choices)}")
