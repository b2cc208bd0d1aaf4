"""The captioner and its training."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from fewcap.core.config.base import Section
from fewcap.core.types import RewardName


class ModelConfig(Section):
    """The captioner of section 3.3; every published ingredient is a switch."""

    width: int = Field(384, gt=0, description="d, the width of every layer (the paper: 768).")
    heads: int = Field(8, gt=0, description="Attention heads.")
    video_blocks: int = Field(1, ge=0, description="L, blocks of the object and of the joint transformer.")
    keyword_blocks: int = Field(1, ge=0, description="L', blocks of the keyword refiner.")
    decoder_blocks: int = Field(2, gt=0, description="L'', blocks of the sentence decoder.")
    expansion: int = Field(2, gt=0, description="Inner width of a feed-forward network, in multiples of d.")
    dropout: float = Field(0.3, ge=0, lt=1, description="Dropout of embeddings, attentions and feed-forward networks.")
    frames: int = Field(20, gt=0, description="N, appearance and motion vectors taken evenly from a video.")
    objects: int = Field(20, gt=0, description="N_obj, object vectors taken evenly from a video.")
    components: int = Field(
        256, ge=0, description="Features are brought to so many fixed principal components first; 0 takes them whole."
    )
    max_words: int = Field(20, gt=1, description="len_s, longer captions are cut.")
    object_joint: bool = Field(
        True, description="Object and joint transformer (OJT); off: features are concatenated and projected."
    )
    keyword_refiner: bool = Field(
        True, description="Keyword refiner (KR); off: the decoder attends to bare keyword embeddings."
    )
    fusion: Literal["gated", "concatenation", "none"] = Field(
        "gated",
        description="How the decoder joins video and keywords; 'none' is the vanilla decoder without keywords.",
    )
    decoder: Literal["autoregressive", "parallel"] = Field(
        "autoregressive", description="Word by word, or all positions at once as the paper's text has it."
    )
    decoder_residual: bool = Field(
        True,
        description="Adds the input of a decoder block to its fused attentions; equation 6 has no such path.",
    )
    anchor: bool = Field(
        True,
        description="Where the video-text model puts the video among sentences is one more video vector.",
    )
    tie_words: bool = Field(True, description="The word classifier shares the word embeddings.")

    @model_validator(mode="after")
    def _consistent(self) -> ModelConfig:
        if self.width % self.heads:
            raise ValueError(
                f"model.width={self.width} is not a multiple of model.heads={self.heads}; change one of them."
            )
        return self


class VocabularyConfig(Section):
    """Which words the captioner knows."""

    min_count: int = Field(2, ge=1, description="A word is known when it occurs at least this often.")
    count_pseudo: bool = Field(
        True,
        description="Occurrences in pseudo sentences count too: where a video has one sentence most words are seen "
        "once, and keywords recur in what is invented around them (typing errors as well).",
    )
    max_warmup_words: int = Field(
        3000, ge=0, description="With a text warm-up, this many of its most frequent words are known as well."
    )


class VideoTextConfig(Section):
    """The two-tower model: features on one side, the frozen sentence encoder on the other."""

    encoder: str = Field("minilm", description="Sentence encoder: 'minilm', or a folder or hub name of an SBERT.")
    ridge: float = Field(3.0, gt=0, description="Penalty of the ridge regression that maps features to sentences.")
    steps: int = Field(0, ge=0, description="Steps of InfoNCE that refine the map.")
    batch: int = Field(256, gt=1, description="Pairs a step.")
    dropout: float = Field(0.3, ge=0, lt=1, description="Dropout on the pooled features in these steps.")
    temperature: float = Field(0.07, gt=0, description="Temperature of InfoNCE.")
    learning_rate: float = Field(5e-4, gt=0, description="Learning rate of AdamW in these steps.")


class KeywordConfig(Section):
    """The keywords that the model is given."""

    count: int = Field(8, gt=0, description="N_word, the number of keywords (the paper: 4, 5 or 7).")
    source: Literal["retrieved", "own", "mixed"] = Field(
        "mixed",
        description="Training keywords: of the sentence itself (worth a try with one sentence a video, ruinous with "
        "many), retrieved as for a new video, or mixed.",
    )
    own_start: float = Field(0.5, ge=0, le=1, description="Mixed: share of own keywords in the first epoch.")
    own_end: float = Field(0.0, ge=0, le=1, description="Mixed: share of own keywords in the last epoch.")
    drop: float = Field(0.2, ge=0, lt=1, description="In training, each keyword is left out with this probability.")
    neighbours: int = Field(30, gt=0, description="Sentences retrieved for a video; more when videos have many.")
    temperature: float = Field(0.08, gt=0, description="Similarities become weights by a softmax at this temperature.")
    bank: int = Field(
        0,
        ge=0,
        description="Sentences to retrieve from at most, those most typical of their videos first; 0 keeps all.",
    )
    further: bool = Field(True, description="With `data.further`: sentences of these corpora are retrieved, too.")
    folds: int = Field(
        5,
        ge=1,
        description="Training videos retrieve by two-tower models that have not seen them, in this many folds.",
    )


class WarmupConfig(Section):
    """Learning language before video: keywords of a corpus sentence in, the sentence out (beyond the paper)."""

    source: Literal["none", "corpus"] = Field("none", description="No warm-up, or one on the files of `corpus`.")
    corpus: tuple[Path, ...] = Field((), description="Text files, one sentence a line, .gz allowed.")
    max_sentences: int = Field(150_000, gt=0, description="Sentences taken from the corpus.")
    like_given: bool = Field(
        True,
        description="Of a corpus with more sentences take those most like the given captions; off: any.",
    )
    max_words: int = Field(14, gt=0, description="Longer sentences of the corpus are left out.")
    words: int = Field(6000, gt=0, description="Vocabulary of the warm-up: its most frequent words.")
    bank: int = Field(8000, gt=0, description="Sentences of the corpus among which it retrieves.")
    epochs: int = Field(1, gt=0, description="Passes over the sentences.")
    batch: int = Field(128, gt=0, description="Sentences a step.")
    learning_rate: float = Field(1e-3, gt=0, description="Peak learning rate of AdamW.")
    own_keywords: float = Field(0.3, ge=0, le=1, description="Share of sentences that see their own keywords.")
    closeness: tuple[float, float] = Field(
        (0.15, 0.5),
        description="Least and largest cosine of a sentence and the disturbed anchor that stands for it.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> WarmupConfig:
        if (self.source == "corpus") != bool(self.corpus):
            raise ValueError(
                f"warmup.source='{self.source}' with {len(self.corpus)} files in warmup.corpus: "
                "name files for source 'corpus', and only then."
            )
        return self


class SelfCriticalConfig(Section):
    """After the sentence loss: sampled captions are rewarded by their scores (beyond the paper)."""

    epochs: int = Field(0, ge=0, description="Passes over the training videos at most; 0 leaves this part out.")
    reward: RewardName = Field(
        "cider",
        description="What a caption is rewarded for: its CIDEr-D, or what it adds to METEOR, BLEU-4 and CIDEr-D of all "
        "captions, each as a share of the score.",
    )
    draw: Literal["sample", "beam"] = Field(
        "sample",
        description="Where a video's captions come from: drawn by their probability, or the best of a beam search, "
        "which are what captioning will choose from.",
    )
    samples: int = Field(5, ge=2, description="Captions of a video; each is judged against the others' mean.")
    temperature: float = Field(
        0.6,
        gt=0,
        description="Of samples. Label smoothing leaves every word a chance: at 1 most captions hold a stray word, "
        "the longer ones more often, and the model learns to be brief.",
    )
    learning_rate: float = Field(1e-4, gt=0, description="Peak learning rate.")
    sentence_weight: float = Field(0.1, ge=0, description="Weight of the sentence loss beside the reward.")
    batch: int = Field(64, gt=0, description="Videos an optimiser step.")


class TrainConfig(Section):
    """The captioner and its training."""

    model: ModelConfig = Field(default_factory=ModelConfig, description="The network.")
    vocabulary: VocabularyConfig = Field(default_factory=VocabularyConfig, description="The known words.")
    keywords: KeywordConfig = Field(default_factory=KeywordConfig, description="The keywords.")
    videotext: VideoTextConfig = Field(default_factory=VideoTextConfig, description="The two-tower model.")
    warmup: WarmupConfig = Field(default_factory=WarmupConfig, description="The text warm-up.")
    selfcritical: SelfCriticalConfig = Field(
        default_factory=SelfCriticalConfig, description="Training by reward, after the sentence loss."
    )

    start: str = Field(
        "auto",
        description="What training starts from: 'none' (random weights), 'shipped' (the captioner inside fewcap), the "
        "folder of another model, or 'auto': the shipped one where the features are those it knows, "
        "`train.model` is not set and it has not seen the data.",
    )
    start_rate: float = Field(3e-5, gt=0, description="Peak learning rate when training starts from a captioner.")
    start_share: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="Share of the weights that training started from in those that it ends with: few sentences teach "
        "what is new and make a captioner forget what it knew; the mean of both keeps most of either.",
    )
    members: int = Field(
        1,
        gt=0,
        le=16,
        description="Models trained one after another from other random weights and with other draws; they caption "
        "together, by the mean of their probabilities. The surest gain where little trains, and as many times the "
        "work.",
    )
    epochs: int = Field(35, gt=0, description="Passes over the training videos at most.")
    batch: int | None = Field(
        None,
        gt=0,
        description="Videos an optimiser step; null takes 64, or fewer (4 at least) so that an epoch has 20 steps.",
    )
    accumulate: int = Field(1, gt=0, description="Splits the videos of a step into this many parts to save memory.")
    sentences_per_video: int = Field(1, gt=0, description="Ground-truth sentences drawn from each video in an epoch.")
    agreement: float = Field(
        0.0,
        ge=0,
        description="Draws a video's true sentences with chances that grow with their agreement (CIDEr-D with the "
        "video's other sentences) to this power; 0 draws all alike.",
    )
    pseudo_per_video: int = Field(2, ge=0, description="Pseudo sentences drawn from each video in an epoch.")
    further_until: float = Field(
        1.0,
        ge=0,
        le=1,
        description="With `data.further`: share of the epochs, the first ones, in which they take part.",
    )
    optimizer: Literal["adam", "adamw"] = Field("adamw", description="adam couples weight decay to the gradient.")
    learning_rate: float = Field(5e-4, gt=0, description="Peak learning rate (the paper: 1e-4).")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay (the paper: 0.5).")
    warmup_steps: int = Field(50, ge=0, description="Optimiser steps of linear warm-up; a cosine to zero follows.")
    clip: float = Field(1.0, gt=0, description="Largest norm of the gradient.")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="Label smoothing of the sentence loss.")
    pseudo_weight: float = Field(1.0, ge=0, description="Weight of a pseudo sentence beside a ground-truth one.")
    word_loss: Literal["off", "pseudo", "all"] = Field(
        "off",
        description="Sentences whose refined keywords are drawn to the ground-truth keywords (equation 9; the paper: "
        "pseudo).",
    )
    word_loss_weight: float = Field(1.0, ge=0, description="Weight of the word loss.")
    frames_at_random: bool = Field(
        True,
        description="Each time a video is shown in training, takes each frame from a random place in its part of the "
        "video, not from the middle.",
    )
    frame_drop: float = Field(0.2, ge=0, lt=1, description="In training, each frame is left out with this probability.")
    average: float = Field(0.99, ge=0, lt=1, description="Decay of the running average of the weights, per step.")
    length_penalty: float = Field(
        1.0,
        ge=0,
        description="Of the captions on validation, and the captioner's own, where `caption.length_penalty` is null.",
    )
    consensus: int = Field(
        0,
        ge=0,
        description="The captioner's own, where `caption.consensus` is null; validation in training does without.",
    )
    voters: int = Field(0, ge=0, description="The captioner's own, where `caption.voters` is null.")
    best_of: int = Field(0, ge=0, description="The captioner's own, where `caption.best_of` is null.")
    rarity: float = Field(
        0.0,
        ge=0,
        description="The captioner's own, where `caption.rarity` is null; above 0 training ends with captions of some "
        "training videos, to learn which are likely for many. Needs `consensus` and `voters`.",
    )
    choice_folds: int = Field(
        0,
        ge=0,
        description="So many parts of the training videos are captioned by models trained on the other parts, to learn "
        "which caption of `consensus` to take; two at least, each costs nearly a member. 0 learns nothing of it.",
    )
    patience: int = Field(5, gt=0, description="Stops after so many checks without a better smoothed score.")
    smooth: int = Field(3, gt=0, description="The score that stops is the mean of so many checks.")
    validate_from: int = Field(1, gt=0, description="The first epoch with a check on validation.")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="bfloat16 autocast where the hardware has it, or as named."
    )
    tensorboard: Path | None = Field(None, description="A folder for tensorboard's event files; none by default.")
    device: str = Field("auto", description="A torch device; auto takes a GPU when there is one.")
    threads: int | None = Field(None, gt=0, description="CPU threads; the default is torch's own choice.")

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if self.start not in ("auto", "none") and self.warmup.source != "none":
            raise ValueError(
                f"start='{self.start}' and warmup.source='{self.warmup.source}': a captioner knows language already; "
                "set one of them to none."
            )
        if self.choice_folds == 1:
            raise ValueError("choice_folds=1 leaves no videos to train on; set two or more, or 0.")
        if self.choice_folds and not (self.consensus > 1 and self.voters):
            raise ValueError(
                f"choice_folds={self.choice_folds} needs captions and sentences to choose by, but consensus="
                f"{self.consensus} and voters={self.voters}; set both, for example to 20 and 300."
            )
        if self.rarity and not (self.consensus > 1 and self.voters):
            raise ValueError(
                f"rarity={self.rarity} needs captions to choose among, but consensus={self.consensus} and voters="
                f"{self.voters}; set both, for example to 20 and 100."
            )
        if self.batch is not None and self.accumulate > self.batch:
            raise ValueError(f"accumulate={self.accumulate} parts of batch={self.batch} videos; lower `accumulate`.")
        return self

    def batch_of(self, videos: int) -> int:
        """Videos an optimiser step in a training set of so many."""
        return self.batch if self.batch is not None else max(4, min(64, videos // 20))

    def relative_to(self, base: Path) -> TrainConfig:
        """The same configuration with relative paths read from ``base``, such as the folder of ``fewcap.yaml``."""
        warmup = self.warmup.model_copy(update={"corpus": tuple(base / path for path in self.warmup.corpus)})
        start = self.start if self.start in ("auto", "none", "shipped") else str(base / self.start)
        return self.model_copy(update={"warmup": warmup, "start": start})
