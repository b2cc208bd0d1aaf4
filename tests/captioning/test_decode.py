"""Decoding against exhaustive search, and with the cache against without."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fewcap.captioning.decode import beam_search, sample
from fewcap.captioning.generate import CachedDecoder, UncachedDecoder
from fewcap.captioning.model import CaptionModel, Dims, KeywordBatch, VideoBatch
from fewcap.core.config.train import ModelConfig
from fewcap.text.vocabulary import BOS, EOS, UNK

V = 7  # four special words and three others


class TableDecoder:
    """The next word depends on the last two words and on the video; tables are random."""

    def __init__(self, videos: int, seed: int, sharpness: float = 1.0) -> None:
        g = torch.Generator().manual_seed(seed)
        self.table = (sharpness * torch.randn(videos, V, V, V, generator=g)).log_softmax(-1)
        self.history: Tensor | None = None
        self.videos = videos

    def step(self, words: Tensor) -> Tensor:
        fresh = words.unsqueeze(1)
        self.history = fresh if self.history is None else torch.cat([self.history, fresh], 1)
        rows = len(words) // self.videos
        video = torch.arange(self.videos).repeat_interleave(rows)
        before = self.history[:, -2] if self.history.shape[1] > 1 else torch.zeros_like(words)
        return self.table[video, before, words].clone()

    def select(self, rows: Tensor) -> None:
        assert self.history is not None
        self.history = self.history[rows]

    def value(self, video: int, words: tuple[int, ...], *, ended: bool) -> float:
        path = [BOS, *words, *([EOS] if ended else [])]
        total = 0.0
        for place in range(1, len(path)):
            before = path[place - 2] if place > 1 else 0
            total += float(self.table[video, before, path[place - 1], path[place]])
        return total


def everything(decoder: TableDecoder, video: int, limit: int, penalty: float) -> dict[tuple[int, ...], float]:
    scores = {}
    for length in range(1, limit + 1):
        for words in product(range(4, V), repeat=length):
            if any(a == b for a, b in pairwise(words)):
                continue
            if length < limit:
                scores[words] = decoder.value(video, words, ended=True) / (length + 1) ** penalty
            else:
                scores[words] = decoder.value(video, words, ended=False) / max(length, 1) ** penalty
    return scores


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), penalty=st.sampled_from([0.0, 0.7, 1.0]))
def test_a_wide_beam_finds_the_best_sentence_of_all(seed: int, penalty: float) -> None:
    decoder = TableDecoder(2, seed)
    found = beam_search(decoder, 2, beam=120, max_words=4, length_penalty=penalty)
    for video in range(2):
        scores = everything(decoder, video, 4, penalty)
        best = found[video][0]
        assert best.score == pytest.approx(scores[best.words], abs=1e-4)
        finished = {words: score for words, score in scores.items() if len(words) < 4}
        assert best.score >= max(finished.values()) - 1e-4


def test_scores_are_those_of_the_sentences_and_sorted() -> None:
    decoder = TableDecoder(3, 5, sharpness=2.0)
    found = beam_search(decoder, 3, beam=4, max_words=6)
    for video, hypotheses in enumerate(found):
        assert len({h.words for h in hypotheses}) == len(hypotheses) == 4
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        for h in hypotheses:
            assert h.log_probability == pytest.approx(decoder.value(video, h.words, ended=len(h.words) < 6), abs=1e-4)


def test_beam_of_one_is_greedy() -> None:
    decoder = TableDecoder(1, 7, sharpness=3.0)
    (found,) = beam_search(decoder, 1, beam=1, max_words=8)
    words: list[int] = []
    while len(words) < 8:
        path = [0, BOS, *words]
        row = decoder.table[0, path[-2], path[-1]].clone()
        row[[0, 1, 3, path[-1]]] = float("-inf")
        row[EOS] = row[EOS] if words else float("-inf")
        if int(row.argmax()) == EOS:
            break
        words.append(int(row.argmax()))
    assert found[0].words == tuple(words)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_no_word_follows_itself(seed: int) -> None:
    decoder = TableDecoder(2, seed, sharpness=4.0)
    decoder.table[:, :, range(4, V), range(4, V)] += 5  # it would love to
    for hypotheses in beam_search(decoder, 2, beam=3, max_words=8):
        assert all(a != b for h in hypotheses for a, b in pairwise(h.words))


def test_a_caption_avoids_places_where_people_say_something_unknown() -> None:
    decoder = TableDecoder(1, 0)
    table = torch.full((V, V), 1e-6)
    table[BOS, 4], table[BOS, 5] = 0.6, 0.4
    table[4, UNK], table[4, 6] = 0.9, 0.1  # "is eating a …"
    table[5, EOS] = table[6, EOS] = 1.0
    decoder.table = table.log().expand(1, V, V, V).clone()
    assert beam_search(decoder, 1, beam=3, max_words=4)[0][0].words == (5,)


def test_videos_do_not_touch_one_another() -> None:
    together = beam_search(TableDecoder(3, 11), 3, beam=3, max_words=6)
    for video in range(3):
        alone = TableDecoder(3, 11)
        alone.table, alone.videos = alone.table[video : video + 1], 1
        assert beam_search(alone, 1, beam=3, max_words=6)[0] == together[video]


@pytest.mark.parametrize("n", [1, 2])
def test_repeats_are_blocked(n: int) -> None:
    decoder = TableDecoder(4, 13, sharpness=4.0)
    decoder.table[..., EOS] = -50.0  # long sentences of three words must repeat
    free = beam_search(decoder, 4, beam=2, max_words=8)
    blocked = beam_search(TableDecoder(4, 13, sharpness=4.0), 4, beam=2, max_words=8, block_repeats=n)

    def repeats(words: tuple[int, ...]) -> bool:
        runs = [words[i : i + n] for i in range(len(words) - n + 1)]
        return len(set(runs)) < len(runs)

    assert any(repeats(h.words) for found in free for h in found)
    assert not any(repeats(h.words) for found in blocked for h in found)


def test_sampling_is_seeded_diverse_and_follows_the_model() -> None:
    def draw(seed: int, **options: float) -> list[list[tuple[int, ...]]]:
        g = torch.Generator().manual_seed(seed)
        found = sample(TableDecoder(2, 17), 2, count=400, max_words=5, generator=g, **options)
        return [[h.words for h in video] for video in found]

    assert draw(0) == draw(0) != draw(1)
    assert len(set(draw(0)[0])) > 20
    decoder = TableDecoder(2, 17)
    allowed = decoder.table[1, 0, BOS].clone()
    allowed[[0, 1, 3]] = float("-inf")
    expected = allowed.softmax(-1)
    firsts = [words[0] if words else EOS for words in draw(3)[1]]
    for word in (EOS, 4, 5, 6):
        assert firsts.count(word) / 400 == pytest.approx(float(expected[word]), abs=0.08)
    nucleus = {words[0] if words else EOS for words in draw(3, top_p=0.01)[1]}
    assert nucleus == {int(expected.argmax())}


@torch.no_grad()
@pytest.mark.parametrize("beam", [1, 5])
def test_the_cache_changes_nothing(beam: int) -> None:
    torch.manual_seed(0)
    config = ModelConfig(width=32, heads=4, dropout=0.0, max_words=8)
    net = CaptionModel(config, Dims({"appearance": 9}, 40, 384, 4)).eval()
    video = VideoBatch(
        appearance=torch.randn(3, 4, 9), frame_mask=torch.ones(3, 4, dtype=torch.bool), anchor=torch.randn(3, 384)
    )
    memory = net.remember(video, KeywordBatch(torch.randint(4, 40, (3, 4)), torch.rand(3, 4)))
    cached = beam_search(CachedDecoder(net, memory), 3, beam=beam, max_words=8)
    plain = beam_search(UncachedDecoder(net, memory), 3, beam=beam, max_words=8)
    for a, b in zip(cached, plain, strict=True):
        assert [h.words for h in a] == [h.words for h in b]
        assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-4)
