"""The object people use: a trained captioner that takes videos and gives sentences.

captioner = Captioner.load(Path("model"))
print(captioner.caption("clip.mp4").text)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
import torch

from fewcap.captioning.batches import keyword_batch, video_batch
from fewcap.captioning.choice import Ballot
from fewcap.captioning.consensus import Consensus, Voters
from fewcap.captioning.folder import TrainedCaptioner, check_features
from fewcap.captioning.generate import Generated, Vote, generate
from fewcap.captioning.retrieval import Keyword, SentenceBank, nearest_sentences, retrieve
from fewcap.captioning.shipped import shipped_folder
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.devices import pick_device
from fewcap.core.errors import FewcapError
from fewcap.core.progress import progress
from fewcap.core.types import KINDS, VideoFeatures
from fewcap.features.sight import Sight
from fewcap.features.store import KindInfo
from fewcap.pseudo.videotext import VideoTextModel, pooled
from fewcap.text.grammar import meant
from fewcap.text.tokenise import words

if TYPE_CHECKING:
    from fewcap.features.extract import Extractor

Video: TypeAlias = "Path | str | VideoFeatures | np.ndarray | torch.Tensor | Mapping[str, np.ndarray | torch.Tensor]"


@dataclass(frozen=True)
class WordShare:
    """A word of a caption, and how much of it came from the video; the rest came from the keywords."""

    word: str
    video_share: float


@dataclass(frozen=True)
class Alternative:
    """A further caption with its score."""

    text: str
    score: float


@dataclass(frozen=True)
class Caption:
    """What the captioner says of a video, and why."""

    text: str
    score: float | None  # mean log-probability of a word, as the length penalty weighs it; None: not the model's words
    keywords: tuple[Keyword, ...]
    words: tuple[WordShare, ...]
    alternatives: tuple[Alternative, ...]  # best first, the caption itself included
    doubt: str | None = None  # why the caption deserves little confidence

    @classmethod
    def of_sight(cls, sight: Sight) -> Caption:
        """The answer for a video without anything to see: the model has never learnt to say so."""
        text, doubt = NOTHING_TO_SEE[sight]
        return cls(text, None, (), (), (), doubt)


NOTHING_TO_SEE: dict[Sight, tuple[str, str]] = {
    "black": ("a black screen", "the picture is blank"),
    "white": ("a white screen", "the picture is blank"),
    "plain": ("a blank screen", "the picture is blank"),
    "noise": ("a noisy screen", "the picture is noise"),
}
UNLIKELY = "no caption fits well"
STRANGE = "it is unlike the videos that the model knows"


class Captioner:
    """A trained captioner. Thread-safe as long as no two threads caption at the same time on a GPU."""

    def __init__(
        self,
        trained: TrainedCaptioner,
        *,
        config: CaptionConfig | None = None,
        videotext: VideoTextModel | None = None,
        device: torch.device | None = None,
        source: Path | None = None,
    ) -> None:
        self.trained = trained
        self.config = config or CaptionConfig()
        self.device = device or pick_device(self.config.device)
        self.source = source
        self.models = tuple(model.to(self.device) for model in trained.models)
        self._dims = {kind: info.dim for kind, info in trained.kinds.items()}
        self._videotext = videotext
        self._bank = trained.bank
        own, asked = trained.config, self.config
        self._elected = own.consensus if asked.consensus is None else asked.consensus
        self._voters = own.voters if asked.voters is None else asked.voters
        self._best_of = own.best_of if asked.best_of is None else asked.best_of
        self._rarity = own.rarity if asked.rarity is None else asked.rarity
        if asked.voters and not self._elected:
            raise FewcapError(
                f"caption.voters is {asked.voters}, but this model takes the likeliest; set consensus, too."
            )
        if asked.best_of and not self._voters:
            raise FewcapError(f"caption.best_of is {asked.best_of}, but this model has no voters; set voters, too.")
        if asked.rarity and not trained.common:
            raise FewcapError(
                f"caption.rarity is {asked.rarity}, but this model does not know what it says of many videos; train it "
                "with train.rarity."
            )
        self._choice = trained.choice if asked.choice == "learnt" else None
        self._consensus = (
            Consensus(trained.vocabulary.encode(words(text)) for text in trained.bank.texts)
            if self._elected and asked.method == "beam"
            else None
        )
        self._extractor: Extractor | None = None

    @classmethod
    def load(
        cls,
        folder: Path | str,
        config: CaptionConfig | None = None,
        *,
        videotext: VideoTextModel | None = None,
    ) -> Captioner:
        """Opens a model folder. Another video-text model than the one inside may choose the keywords."""
        captioner = cls(TrainedCaptioner.load(Path(folder)), config=config, source=Path(folder))
        if videotext is not None:
            bank = captioner._bank
            captioner._videotext = videotext
            captioner._bank = SentenceBank(bank.texts, bank.owners, bank.keywords, videotext.embed_texts(bank.texts))
        return captioner

    @classmethod
    def default(cls, config: CaptionConfig | None = None) -> Captioner:
        """The captioner that ships with fewcap."""
        return cls.load(shipped_folder(), config)

    @overload
    def caption(self, videos: Video) -> Caption: ...  # type: ignore[overload-overlap]

    @overload
    def caption(self, videos: Sequence[Video]) -> list[Caption]: ...

    def caption(self, videos: Video | Sequence[Video]) -> Caption | list[Caption]:
        """Captions one video, or several in the order given.

        A video is a path, ``VideoFeatures``, an array [N, d] of appearance features, or a mapping from feature kinds
        to arrays.
        """
        if isinstance(videos, (str, Path, VideoFeatures, np.ndarray, torch.Tensor, Mapping)):
            return self.caption([videos])[0]
        captions: list[Caption] = []
        with progress("caption", len(videos), "videos") as bar:
            for start in range(0, len(videos), self.config.batch):
                seen = [self._seen(video) for video in videos[start : start + self.config.batch]]
                captions += self.caption_seen(seen)
                bar.advance(len(seen))
        return captions

    def caption_seen(self, seen: Sequence[tuple[VideoFeatures, Sight | None]]) -> list[Caption]:
        """Captions for features, each with what was found to be seen in the video instead of things."""
        captions = [Caption.of_sight(sight) if sight is not None else None for _, sight in seen]
        asked = [features for features, sight in seen if sight is None]
        found = iter(
            [
                c
                for i in range(0, len(asked), self.config.batch)
                for c in self._caption(asked[i : i + self.config.batch])
            ]
        )
        return [next(found) if caption is None else caption for caption in captions]

    def keywords_of(self, features: Sequence[VideoFeatures]) -> list[list[Keyword]]:
        """Keywords retrieved for videos, best first."""
        return self._retrieved(self._similarities(features))

    def _retrieved(self, similarities: np.ndarray) -> list[list[Keyword]]:
        return [retrieve(self._bank, row, self.trained.config.keywords) for row in similarities]

    def _similarities(self, features: Sequence[VideoFeatures]) -> np.ndarray:
        """Videos against the sentences of the bank, [n, sentences]."""
        return self._bank.similarities(self._anchors(features, self._videotext))

    def ballots(self, features: Sequence[VideoFeatures]) -> list[Ballot]:
        """The captions that stand for election, with what speaks for each: what a choice is learnt from."""
        found: list[Ballot] = []
        all_standing = self.config.model_copy(update={"alternatives": self._elected})
        with progress("caption to choose", len(features), "videos") as bar:
            for start in range(0, len(features), self.config.batch):
                part = features[start : start + self.config.batch]
                similarities = self._similarities(part)
                vote = self._vote(similarities)
                assert vote is not None
                generated = self._generated(part, self._retrieved(similarities), vote, all_standing)
                found += [vote.ballot(video, one.hypotheses) for video, one in enumerate(generated)]
                bar.advance(len(part))
        return found

    def _caption(self, features: Sequence[VideoFeatures]) -> list[Caption]:
        similarities = self._similarities(features)
        keywords = self._retrieved(similarities)
        generated = self._generated(features, keywords, self._vote(similarities), self.config)
        distances = self.distances(features).tolist()
        return [self._finished(*parts) for parts in zip(generated, keywords, distances, strict=True)]

    def _generated(
        self,
        features: Sequence[VideoFeatures],
        keywords: Sequence[Sequence[Keyword]],
        vote: Vote | None,
        config: CaptionConfig,
    ) -> list[Generated]:
        trained = self.trained
        batch = video_batch(features, self._dims, trained.config.model, anchors=self._anchors(features, None))
        given = keyword_batch(keywords, trained.vocabulary, trained.config.keywords.count)
        return generate(
            self.models,
            batch.to(self.device),
            given.to(self.device),
            config,
            length_penalty=trained.config.length_penalty,
            vote=vote,
        )

    def _vote(self, similarities: np.ndarray) -> Vote | None:
        if self._consensus is None:
            return None
        voters = None
        if self._voters:
            temperature = self.trained.config.keywords.temperature
            voters = [Voters(*nearest_sentences(row, self._voters, temperature), self._best_of) for row in similarities]
        return Vote(
            self._consensus,
            self._elected,
            voters,
            self._choice,
            self.trained.vocabulary,
            self.trained.common,
            self._rarity,
        )

    def distances(self, features: Sequence[VideoFeatures]) -> np.ndarray:
        """How far videos lie from the centre of those that the model was trained on."""
        return np.linalg.norm(pooled(features, self._dims) - self.trained.tower.centre, axis=1)

    def _anchors(self, features: Sequence[VideoFeatures], videotext: VideoTextModel | None) -> np.ndarray:
        if videotext is not None:
            return videotext.embed_videos(features)
        return self.trained.tower.videos(pooled(features, self._dims))

    def _finished(self, found: Generated, keywords: Sequence[Keyword], distance: float) -> Caption:
        vocabulary = self.trained.vocabulary
        said = [vocabulary.decode(h.words) for h in found.hypotheses]
        texts = [" ".join(words[meant(words)]) for words in said]
        scores: dict[str, float] = {}  # of two sentences that became the same the first one's
        for text, hypothesis in zip(texts, found.hypotheses, strict=True):
            scores.setdefault(text, round(hypothesis.score, 6))
        alternatives = tuple(Alternative(text, score) for text, score in scores.items())
        known = tuple(keyword for keyword in keywords if keyword.word in vocabulary)
        spoken = list(zip(said[0], found.video_share, strict=True))[meant(said[0])]
        shares = tuple(WordShare(word, round(share, 4)) for word, share in spoken)
        best, limits = alternatives[0], self.trained.limits
        doubt = None
        if limits.distance is not None and distance > limits.distance:
            doubt = STRANGE
        elif limits.score is not None and best.score < limits.score:
            doubt = UNLIKELY
        return Caption(best.text, best.score, known, shares, alternatives, doubt)

    def _seen(self, video: Video) -> tuple[VideoFeatures, Sight | None]:
        if isinstance(video, (str, Path)):
            return self.extractor(video).look(video)
        return self._features(video), None

    def _features(self, video: VideoFeatures | np.ndarray | torch.Tensor | Mapping[str, Any]) -> VideoFeatures:
        if isinstance(video, VideoFeatures):
            features = video
        elif isinstance(video, Mapping):
            if unknown := set(video) - set(KINDS):
                raise FewcapError(f"'{sorted(unknown)[0]}' is no kind of features; the kinds are {', '.join(KINDS)}.")
            features = VideoFeatures(**{kind: torch.as_tensor(x) for kind, x in video.items()})
        else:
            features = VideoFeatures(appearance=torch.as_tensor(video))
        self._check(features)
        return features

    def _check(self, features: VideoFeatures) -> None:
        for kind, info in self.trained.kinds.items():
            x = getattr(features, kind)
            if x is None:
                raise FewcapError(
                    f"the model was trained on {', '.join(self.trained.kinds)} features, but a video has no {kind}; "
                    "give a mapping with all kinds, or the path of the video."
                )
            if x.ndim != 2 or x.shape[1] != info.dim:
                raise FewcapError(
                    f"{kind} features of shape {tuple(x.shape)} were given, but the model was trained on "
                    f"'{info.name}' vectors [n, {info.dim}]; use features of that backbone."
                )

    def extractor(self, path: Path | str) -> Extractor:
        """What takes from a file the features that the model was trained on; ``path`` is named when nothing can."""
        if self._extractor is None:
            from fewcap.core.config.features import FeaturesConfig
            from fewcap.features.extract import Extractor

            try:
                settings = FeaturesConfig.model_validate(self.trained.extraction)
            except ValueError:
                raise FewcapError(
                    f"{self.source or 'the model'}: was trained on features that fewcap did not extract "
                    f"({', '.join(info.name for info in self.trained.kinds.values())}); give features, not '{path}'."
                ) from None
            extractor = Extractor(settings)
            expected = self.trained.kinds
            found = {
                kind: KindInfo(info.name, info.dim, extractor.kinds[kind])
                for kind, info in expected.items()
                if kind in extractor.kinds
            }
            check_features(expected, found, self.source or "given", "the feature extractor of this machine")
            self._extractor = extractor
        return self._extractor
