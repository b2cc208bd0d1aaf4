"""Which videos and captions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from fewcap.core.config.base import Section


class SyntheticConfig(Section):
    """The rendered world of coloured actors: how much of it, and how untidy."""

    train: int = Field(300, ge=0, description="Training clips.")
    val: int = Field(60, ge=0, description="Validation clips.")
    test: int = Field(100, ge=0, description="Test clips.")
    captions: int = Field(8, ge=1, le=40, description="Different captions written for every clip.")
    seconds: float = Field(3.0, ge=0.5, le=60, description="About how long a clip lasts.")
    odd_share: float = Field(
        0.15, ge=0, le=1, description="Share of clips with an unusual frame rate, frame size or length."
    )
    sound_share: float = Field(0.2, ge=0, le=1, description="Share of clips with a sound track.")


class DataConfig(Section):
    """Which videos and captions."""

    source: Literal["synthetic", "folder", "msvd", "msrvtt", "vatex"] = Field(
        "synthetic",
        description="Where data comes from: the rendered world, a folder of your own videos with a captions file, "
        "or a public corpus in its original layout.",
    )
    captions: tuple[Path, ...] = Field(
        (), description="The captions or annotation file, or several of them (CSV, TSV, JSON, JSONL; also .gz)."
    )
    videos: tuple[Path, ...] = Field(
        (), description="Folders of videos (or of folders of images), or tar files of images; searched in this order."
    )
    packed_features: Path | None = Field(
        None, description="An npz file of ready features by video id, for videos that are not at hand as files."
    )
    sentences: int | Literal["all"] = Field(
        1, description="Sentences kept for each training video (k); 'all' is full supervision."
    )
    cleaning: bool = Field(
        False,
        description="Passes over training sentences that are noise: the same sentence on an absurd share of the "
        "training videos, or fewer than three words. Validation and test references are never touched.",
    )
    cleaning_share: float = Field(
        0.1, gt=0, le=1, description="With cleaning: a sentence on more than this share of training videos is noise."
    )
    split: Literal["given", "seeded"] = Field(
        "given", description="Use the split that the data state (seeded where they state none), or always a seeded one."
    )
    val_share: float = Field(0.1, ge=0, lt=1, description="Share of videos that a seeded split puts into validation.")
    test_share: float = Field(0.2, ge=0, lt=1, description="Share of videos that a seeded split puts into test.")
    video_column: str | None = Field(
        None, description="With source 'folder': the column that names the video; found by its name when not given."
    )
    caption_column: str | None = Field(
        None, description="With source 'folder': the column that holds the caption; found by its name when not given."
    )
    split_column: str | None = Field(
        None, description="With source 'folder': the column that holds the split; found by its name when not given."
    )
    synthetic: SyntheticConfig = Field(
        default_factory=SyntheticConfig, description="With source 'synthetic': the world that is rendered."
    )
    further: tuple[DataConfig, ...] = Field(
        (),
        description="More data that train together with these, each with the keys above; what a further corpus states "
        "as validation or test is left out.",
    )

    @field_validator("captions", "videos", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str | Path) else value

    @field_validator("sentences")
    @classmethod
    def _at_least_one_sentence(cls, value: int | str) -> int | str:
        if isinstance(value, int) and value < 1:
            raise ValueError("at least one sentence per training video is needed; write 1, 2, 3 ... or 'all'")
        return value

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.source == "synthetic":
            for name in ("captions", "videos", "packed_features"):
                if getattr(self, name):
                    raise ValueError(
                        f"'{name}' is given, but source 'synthetic' renders its own data; set 'source' to one of "
                        "folder, msvd, msrvtt, vatex"
                    )
        else:
            if not self.captions:
                raise ValueError(f"source '{self.source}' needs 'captions': the path of the captions file")
            if not self.videos and self.packed_features is None:
                raise ValueError(
                    f"source '{self.source}' needs 'videos' (a folder of videos) or 'packed_features' (an npz file)"
                )
        for number, corpus in enumerate(self.further):
            for name, stray in (
                ("source", corpus.source == "synthetic"),
                ("packed_features", corpus.packed_features is not None),
                ("further", bool(corpus.further)),
            ):
                if stray:
                    raise ValueError(f"further[{number}] can not have '{name}' {getattr(corpus, name)!r}; remove it")
        if self.source != "folder":
            for name in ("video_column", "caption_column", "split_column"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"'{name}' is {getattr(self, name)!r}, but only source 'folder' has columns to name"
                    )
        if self.val_share + self.test_share >= 1:
            raise ValueError(
                f"val_share {self.val_share} and test_share {self.test_share} leave no video to train on; "
                "their sum must be below 1"
            )
        return self

    def relative_to(self, base: Path) -> DataConfig:
        """The same configuration with relative paths read from ``base``, such as the folder of ``fewcap.yaml``."""
        return self.model_copy(
            update={
                "captions": tuple(base / path for path in self.captions),
                "videos": tuple(base / path for path in self.videos),
                "packed_features": base / self.packed_features if self.packed_features is not None else None,
                "further": tuple(corpus.relative_to(base) for corpus in self.further),
            }
        )
