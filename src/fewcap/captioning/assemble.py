"""From the artefacts of earlier stages to a training set: vocabulary, sentence bank, video-text model, examples."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fewcap.captioning.folder import TrainedCaptioner
from fewcap.captioning.retrieval import SentenceBank, retrieve
from fewcap.captioning.trainset import Sentence, TrainingSet, TrainingVideo, cross_fitted
from fewcap.core.config.train import TrainConfig
from fewcap.core.errors import FewcapError
from fewcap.core.types import CaptionMetric, VideoFeatures, VideoItem
from fewcap.pseudo.videotext import Tower, fit_tower, pooled
from fewcap.text.embed import SentenceEncoder
from fewcap.text.keywords import keywords
from fewcap.text.tokenise import words
from fewcap.text.vocabulary import Vocabulary

log = logging.getLogger("fewcap.train")


@dataclass(frozen=True)
class Assembled:
    """A training set with what belongs to it."""

    data: TrainingSet
    vocabulary: Vocabulary
    bank: SentenceBank
    tower: Tower


def assemble(
    items: Sequence[VideoItem],
    looks: Mapping[str, Sequence[VideoFeatures]],
    pseudo: Mapping[str, Sequence[str]],
    dims: Mapping[str, int],
    config: TrainConfig,
    *,
    known_words: Mapping[str, int],
    encoder: SentenceEncoder,
    seed: int,
    metric: CaptionMetric,
    before: TrainedCaptioner | None = None,
) -> Assembled:
    """``pseudo`` holds invented sentences by video id; ``known_words`` counts of a text warm-up's words.

    Training that goes on from the captioner ``before`` keeps its words, its video-text model and its bank, and adds
    its own words and sentences.
    """
    videos = [item for item in items if any(words(caption) for caption in item.captions)]
    if not videos:
        raise FewcapError("no training video has both features and a caption; look at problems.jsonl of both stages.")
    truth = [[caption for caption in item.captions if words(caption)] for item in videos]
    invented = [[text for text in pseudo.get(item.id, ()) if words(text)] for item in videos]
    vocabulary = _vocabulary(truth, invented, config, known_words)
    if before is not None:
        vocabulary = before.vocabulary.extended(vocabulary.words)

    video_of = np.array([i for i, own in enumerate(truth) for _ in own], dtype=np.int64)
    embeddings = encoder.encode([text for own in truth for text in own])
    keyword_texts = [" ".join(dict.fromkeys(w for text in own for w in keywords(text))) for own in truth]
    keyword_targets = encoder.encode(keyword_texts)
    pool = pooled([looks[item.id][0] for item in videos], dims)

    banked = [i for i, item in enumerate(videos) if config.keywords.further or not item.further]
    of_bank = np.isin(video_of, banked)
    given = [(videos[i].id, text) for i in banked for text in truth[i]]
    added = [(videos[i].id, text) for i in banked for text in invented[i]]
    bank = SentenceBank.build(
        [text for _, text in (*given, *added)],
        [video for video, _ in (*given, *added)],
        np.concatenate([embeddings[of_bank], encoder.encode([text for _, text in added])]),
    )
    ids = [item.id for item in videos]
    if before is None:
        bank = bank.compact(config.keywords.bank)
        anchors, retrieved = cross_fitted(
            pool, embeddings, video_of, bank, ids, config.keywords, config.videotext, seed=seed
        )
        tower = fit_tower(pool, embeddings, video_of, config.videotext, seed=seed)
        bank = bank.seen_by(tower)
    else:  # a video-text model that has not seen these videos serves them as it will serve others
        tower = before.tower
        bank = before.bank.joined(bank.seen_by(tower))
        anchors = tower.videos(pool)
        retrieved = [tuple(retrieve(bank, row, config.keywords)) for row in bank.similarities(anchors, exclude=ids)]
    agreement = metric.agreement(dict(zip(ids, truth, strict=True))) if config.agreement else {}
    examples = [
        TrainingVideo(
            item.id,
            tuple(_sentence(text, vocabulary, pseudo=False) for text in truth[i]),
            tuple(_sentence(text, vocabulary, pseudo=True) for text in invented[i]),
            retrieved[i],
            anchors[i],
            keyword_targets[i],
            item.further,
            tuple(agreement[item.id].tolist()) if config.agreement else (),
        )
        for i, item in enumerate(videos)
    ]
    data = TrainingSet(examples, looks, dims, vocabulary, config, seed=seed)
    return Assembled(data, vocabulary, bank, tower)


def _vocabulary(
    truth: Sequence[Sequence[str]],
    invented: Sequence[Sequence[str]],
    config: TrainConfig,
    known_words: Mapping[str, int],
) -> Vocabulary:
    counted = [*truth, *(invented if config.vocabulary.count_pseudo else ())]
    sentences = [words(text) for own in counted for text in own]
    vocabulary = Vocabulary.count(sentences, min_count=config.vocabulary.min_count, known=known_words)
    if len(vocabulary) < 8:  # a handful of sentences: better every word than none
        vocabulary = Vocabulary.count(sentences, min_count=1)
    return vocabulary.extended(list(known_words)[: config.vocabulary.max_warmup_words])


def _sentence(text: str, vocabulary: Vocabulary, *, pseudo: bool) -> Sentence:
    return Sentence(tuple(vocabulary.encode(words(text))), tuple(keywords(text)), pseudo)
