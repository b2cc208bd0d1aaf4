"""Keywords of videos without sentences, and the video-text model that finds them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fewcap.captioning.retrieval import SentenceBank, retrieve
from fewcap.captioning.trainset import cross_fitted
from fewcap.core.config.train import KeywordConfig, VideoTextConfig
from fewcap.core.errors import FewcapError
from fewcap.core.types import VideoFeatures
from fewcap.pseudo.videotext import TwoTower, fit_tower, pooled


def bank() -> SentenceBank:
    texts = ["a man is playing a guitar", "a man is cooking pasta", "a dog runs"]
    return SentenceBank.build(texts, ["v1", "v2", "v3"], np.eye(3, dtype=np.float32))


def test_weights_are_shares_of_the_nearest_sentences() -> None:
    config = KeywordConfig(count=4, neighbours=2, temperature=0.5)
    scores = np.array([0.9, 0.4, 0.1])
    shares = np.exp(scores[:2] / 0.5) / np.exp(scores[:2] / 0.5).sum()
    found = retrieve(bank(), scores, config)
    assert [k.word for k in found] == ["man", "playing", "guitar", "cooking"]
    assert found[0].weight == pytest.approx(1.0, abs=1e-5)
    assert found[1].weight == pytest.approx(shares[0], abs=1e-5)
    assert found[3].weight == pytest.approx(shares[1], abs=1e-5)


def test_a_training_video_never_finds_its_own_sentences() -> None:
    scores = bank().similarities(np.eye(3, dtype=np.float32), exclude=["v1", "v2", "v3"])
    assert np.isneginf(np.diag(scores)).all()
    found = retrieve(bank(), scores[2], KeywordConfig())
    assert "dog" not in {k.word for k in found}
    nothing = retrieve(bank(), np.full(3, -np.inf), KeywordConfig())
    assert nothing == []


def paired(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features that are a noisy rotation of sentence embeddings."""
    random = np.random.default_rng(seed)
    e = random.standard_normal((n, 6))
    e /= np.linalg.norm(e, axis=1, keepdims=True)
    x = e @ random.standard_normal((6, 30)) + 0.3 * random.standard_normal((n, 30))
    return x.astype(np.float32), e.astype(np.float32)


@pytest.mark.parametrize("steps", [0, 60])
def test_the_tower_finds_sentences_of_new_videos(steps: int) -> None:
    x, e = paired()
    config = VideoTextConfig(steps=steps, batch=64, dropout=0.0)
    tower = fit_tower(x[:80], e[:80], np.arange(80), config, seed=0)
    similarity = tower.videos(x[80:]) @ tower.texts(e[80:]).T
    assert (similarity.argmax(1) == np.arange(40)).mean() > 0.5
    again = fit_tower(x[:80], e[:80], np.arange(80), config, seed=0)
    np.testing.assert_array_equal(tower.map, again.map)


def test_ridge_is_the_textbook_solution_in_both_forms() -> None:
    x, e = paired(50)
    config = VideoTextConfig(ridge=0.7)
    for columns in (30, 20):  # fewer and more rows than columns after the cut below
        part, texts = x[:25, :columns], e[:25]
        tower = fit_tower(part, texts, np.arange(25), config, seed=0)
        centred = (part - part.mean(0)).astype(np.float64)
        y = texts - texts.mean(0)
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        penalty = 0.7 * (centred**2).sum() / 25
        expected = np.linalg.inv(centred.T @ centred + penalty * np.eye(columns)) @ centred.T @ y
        np.testing.assert_allclose(tower.map, expected, atol=1e-4)


def test_training_videos_are_served_by_maps_that_have_not_seen_them() -> None:
    """Even with noise as features a map points at a sentence that it has seen; a cross-fitted one can not."""
    random = np.random.default_rng(3)
    x = random.standard_normal((60, 200)).astype(np.float32)
    _, e = paired(60)
    ids = [f"v{i}" for i in range(60)]
    sentences = SentenceBank(tuple(ids), tuple(ids), tuple((i,) for i in ids), e)
    config = VideoTextConfig(ridge=0.01)
    anchors, found = cross_fitted(x, e, np.arange(60), sentences, ids, KeywordConfig(), config, seed=0)
    seen = fit_tower(x, e, np.arange(60), config, seed=0)
    own = e - e.mean(0)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    assert (seen.videos(x) * own).sum(1).mean() > 0.9
    assert abs((anchors * own).sum(1).mean()) < 0.25
    assert all(id_ not in {k.word for k in keywords} for id_, keywords in zip(ids, found, strict=True))


def test_two_towers_rank_sentences_of_a_video() -> None:
    random = np.random.default_rng(0)
    things = ["guitar", "dog", "car", "cake", "horse", "piano"]
    signs = {thing: random.standard_normal(20) for thing in things}
    videos, sentences = [], []
    for number in range(60):
        thing = things[number % 6]
        rows = signs[thing] + 0.3 * random.standard_normal((3, 20))
        videos.append(VideoFeatures(appearance=torch.from_numpy(rows).half()))
        sentences.append([f"a video of a {thing}"])
    model = TwoTower.fit(videos[:48], sentences[:48], VideoTextConfig(), seed=0)
    for video, (sentence,) in zip(videos[48:], sentences[48:], strict=True):
        texts = [f"a video of a {thing}" for thing in things]
        scores = model.score(video, texts)
        assert texts[int(scores.argmax())] == sentence
        np.testing.assert_allclose(scores, model.embed_texts(texts) @ model.embed_videos([video])[0], atol=1e-6)


def test_pooling_copes_with_missing_kinds() -> None:
    videos = [VideoFeatures(appearance=torch.ones(3, 4)), VideoFeatures(motion=torch.ones(2, 5) * 3)]
    rows = pooled(videos, {"appearance": 4, "motion": 5})
    np.testing.assert_allclose(rows[0], [0.5] * 4 + [0] * 5, atol=1e-6)
    np.testing.assert_allclose(rows[1], [0] * 4 + [5**-0.5] * 5, atol=1e-6)
    with pytest.raises(FewcapError, match="none of the training videos has a caption"):
        TwoTower.fit(videos, [[], []], VideoTextConfig(), seed=0)


def test_a_compact_bank_keeps_the_most_typical_sentence_of_every_video_first() -> None:
    texts = ["a dog runs", "a dog is running", "zebra", "a cat sleeps", "a cat is asleep"]
    embeddings = np.array([[1, 0.1], [1, 0], [0, 1], [0.2, 1], [0, 1]], dtype=np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    whole = SentenceBank.build(texts, ["dog", "dog", "dog", "cat", "cat"], embeddings)
    assert whole.compact(0) is whole
    small = whole.compact(2)
    assert set(small.owners) == {"dog", "cat"}
    assert "zebra" not in small.texts
    assert set(small.texts) < set(whole.compact(4).texts)
    assert len(whole.compact(4).texts) == 4
    for text, keywords, row in zip(small.texts, small.keywords, small.embeddings, strict=True):
        place = whole.texts.index(text)
        assert keywords == whole.keywords[place]
        assert (row == whole.embeddings[place]).all()
