from __future__ import annotations

import hashlib
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fewcap.data.annotations import Annotations, Problems
from fewcap.data.choose import choose_sentences, noisy_sentences, seeded_split
from fewcap.data.msvd import read as read_msvd

ids = st.text(min_size=1, max_size=30)


def slow_choice(video_id: str, n: int, k: int) -> list[int]:
    """The rule word for word: sha256(video id) mod n, then the next ones."""
    number = 0
    for byte in hashlib.sha256(video_id.encode()).digest():
        number = number * 256 + byte
    position, chosen = number % n, []
    while len(chosen) < min(k, n):
        chosen.append(position)
        position = 0 if position == n - 1 else position + 1
    return chosen


@given(ids, st.integers(1, 60), st.integers(1, 5))
def test_choice_follows_the_rule(video_id: str, n: int, k: int) -> None:
    assert choose_sentences(video_id, [str(i) for i in range(n)], k) == slow_choice(video_id, n, k)


@given(ids, st.integers(1, 60))
def test_more_sentences_extend_fewer(video_id: str, n: int) -> None:
    captions = [str(i) for i in range(n)]
    choices = [choose_sentences(video_id, captions, k) for k in (1, 2, 3)]
    assert choices[1][:1] == choices[0]
    assert choices[2][: len(choices[1])] == choices[1]
    assert sorted(choose_sentences(video_id, captions, "all")) == list(range(n))


@given(ids, st.lists(st.sampled_from("abcdef"), min_size=1), st.sets(st.sampled_from("abcdef")), st.integers(1, 3))
def test_noise_is_passed_over_and_nothing_else_changes(
    video_id: str, captions: list[str], noise: set[str], k: int
) -> None:
    plain, cleaned = choose_sentences(video_id, captions, k), choose_sentences(video_id, captions, k, noise)
    if all(captions[position] not in noise for position in plain) or set(captions) <= noise:
        assert cleaned == plain
    else:
        assert cleaned
        assert not noise & {captions[position] for position in cleaned}
    assert choose_sentences(video_id, [], k) == []


def test_choice_on_msvd(shared_data: Path) -> None:
    annotations = Annotations(Problems())
    read_msvd(annotations, [shared_data / "msvd" / "captions.jsonl.gz"])
    video = annotations.videos["-4wsuPCjDBc_5_15"]
    expected = int(hashlib.sha256(b"-4wsuPCjDBc_5_15").hexdigest(), 16) % 29
    assert choose_sentences(video.id, video.captions, 1) == [expected]


def test_a_sentence_pasted_everywhere_is_noise(shared_data: Path) -> None:
    annotations = Annotations(Problems())
    read_msvd(annotations, [shared_data / "msvd" / "captions.jsonl.gz"])
    noise = noisy_sentences([v.captions for v in annotations.videos.values() if v.split == "train"], 0.1)
    assert "a man cooking his kichen" in noise
    assert "a man is playing a guitar" not in noise
    assert {text for text in noise if len(text.split()) > 2} == {"a man cooking his kichen"}


def test_small_sets_have_no_sentence_that_is_too_frequent() -> None:
    assert noisy_sentences([["the same words"]] * 10, 0.1) == set()
    assert noisy_sentences([["The same words!"], ["the same words"]] * 11, 0.1) == {"The same words!", "the same words"}


@given(st.sets(ids, min_size=3, max_size=80), st.integers(0, 5))
def test_seeded_split_is_by_id_alone(names: set[str], seed: int) -> None:
    split = seeded_split(sorted(names), seed, 0.1, 0.2)
    assert split == seeded_split(sorted(names, reverse=True), seed, 0.1, 0.2)
    assert set(split) == names
    sizes = {part: list(split.values()).count(part) for part in ("train", "val", "test")}
    assert sizes["val"] == max(1, round(0.1 * len(names)))
    assert sizes["test"] == max(1, round(0.2 * len(names)))
    assert json.dumps(split) == json.dumps(seeded_split(names, seed, 0.1, 0.2))


def test_seeds_give_different_splits() -> None:
    names = [f"v{i}" for i in range(200)]
    assert seeded_split(names, 0, 0.1, 0.2) != seeded_split(names, 1, 0.1, 0.2)
