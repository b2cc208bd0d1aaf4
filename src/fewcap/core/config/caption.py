"""How captions are decoded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from fewcap.core.config.base import Section


class CaptionConfig(Section):
    """How captions are decoded."""

    method: Literal["beam", "sample"] = Field("beam", description="Beam search, or sampling for diverse captions.")
    beam: int = Field(5, gt=0, description="Rows of the beam; 1 is greedy.")
    length_penalty: float | None = Field(
        None,
        ge=0,
        description="A caption scores log-probability / length^length_penalty; larger favours longer ones. null takes "
        "the model's own, `train.length_penalty`.",
    )
    consensus: int | None = Field(
        None,
        ge=0,
        description="Of so many best captions takes the one that the others agree with most; 0 takes the likeliest. "
        "null takes the model's own, `train.consensus`.",
    )
    voters: int | None = Field(
        None,
        ge=0,
        description="With consensus, so many training sentences, those nearest to the video, vote as well. null takes "
        "the model's own, `train.voters`.",
    )
    best_of: int | None = Field(
        None,
        ge=0,
        description="The vote of the best of so many voters counts, as the best of several references does; 0 counts "
        "all. null takes the model's own, `train.best_of`.",
    )
    rarity: float | None = Field(
        None,
        ge=0,
        description="With consensus: standard deviations of the vote that a caption loses for each factor e in the "
        "share of training videos that it is likely for; 0 is off. null takes the model's own, `train.rarity`.",
    )
    choice: Literal["learnt", "vote"] = Field(
        "learnt",
        description="With consensus and voters: what training has learnt about choosing (`train.choice_folds`), where "
        "it has, or the plain vote.",
    )
    block_repeats: int = Field(0, ge=0, description="Forbids a second occurrence of so many words in a row; 0 is off.")
    alternatives: int = Field(5, gt=0, description="Captions reported for each video, the best first.")
    samples: int = Field(5, gt=0, description="Sampled captions of a video.")
    temperature: float = Field(1.0, gt=0, description="Sampling: below 1 is safer, above 1 more diverse.")
    top_p: float = Field(0.9, gt=0, le=1, description="Sampling: from the likeliest words with this total probability.")
    batch: int = Field(64, gt=0, description="Videos decoded together.")
    seed: int = Field(0, ge=0, description="Seeds sampling.")
    device: str = Field("auto", description="A torch device; auto takes a GPU when there is one.")
    threads: int | None = Field(None, gt=0, description="CPU threads; the default is torch's own choice.")

    @model_validator(mode="after")
    def _consistent(self) -> CaptionConfig:
        if self.method == "sample" and self.consensus:
            raise ValueError(f"consensus={self.consensus} needs method 'beam'; samples are reported as they fall.")
        if self.voters and self.consensus == 0:
            raise ValueError(f"voters={self.voters} have nothing to choose from; set consensus, for example to 20.")
        if self.best_of and self.voters == 0:
            raise ValueError(f"best_of={self.best_of} of no voters; set voters, for example to 300.")
        rows = self.beam if self.method == "beam" else self.samples
        name = "beam" if self.method == "beam" else "samples"
        if self.alternatives > rows and "alternatives" in self.model_fields_set:
            raise ValueError(f"alternatives={self.alternatives} but {name}={rows}; raise {name} or lower alternatives.")
        return self
