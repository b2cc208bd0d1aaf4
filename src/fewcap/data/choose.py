"""Which k sentences of a training video exist, and which video belongs to which split.

Both choices depend on ids alone (and on a seed for splits), never on the order of files or on a random state, so
that every run, machine and peer makes the same ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from fewcap.core.types import Split
from fewcap.text.tokenise import words

RULE = "sha256(video id) mod n, then the next ones"
_FEWEST_WORDS = 3  # "nice job", "oh": remarks, not descriptions
_FEWEST_VIDEOS = 20  # a share of a handful of videos says nothing


def choose_sentences(
    video_id: str, captions: Sequence[str], k: int | Literal["all"], noise: Collection[str] = ()
) -> list[int]:
    """Positions of the k sentences that are kept, beginning at sha256(video id) mod n and going round.

    Sentences in ``noise`` are passed over, so the choice is the same with and without cleaning unless a sentence
    that would have been chosen is noise. A video with nothing but noise keeps its sentences.
    """
    n = len(captions)
    if n == 0:
        return []
    start = int(hashlib.sha256(video_id.encode("utf-8")).hexdigest(), 16) % n
    order = [(start + step) % n for step in range(n)]
    clean = [position for position in order if captions[position] not in noise]
    return (clean or order)[: n if k == "all" else k]


def noisy_sentences(captions_of_videos: Iterable[Sequence[str]], share: float) -> set[str]:
    """Training sentences that cleaning passes over.

    One is the same for more than ``share`` of the videos (an annotator who pasted one answer everywhere), or has
    fewer than three words.
    """
    videos = [set(captions) for captions in captions_of_videos]
    occurrences = Counter(tuple(words(caption)) for captions in videos for caption in captions)
    limit = max(share * len(videos), _FEWEST_VIDEOS)
    return {
        caption
        for captions in videos
        for caption in captions
        if occurrences[key := tuple(words(caption))] > limit or len(key) < _FEWEST_WORDS
    }


def seeded_split(ids: Collection[str], seed: int, val_share: float, test_share: float) -> dict[str, Split]:
    """A split by video. Each part that is asked for gets at least one of three or more videos."""
    ranked = sorted(ids, key=lambda video_id: hashlib.sha256(f"{seed}:{video_id}".encode()).digest())
    sizes = {}
    for name, share in (("val", val_share), ("test", test_share)):
        rounded = round(share * len(ranked))
        sizes[name] = max(rounded, 1) if share > 0 and len(ranked) >= 3 else rounded
    n_val, n_test = sizes["val"], sizes["test"]
    return {
        video_id: "val" if rank < n_val else "test" if rank < n_val + n_test else "train"
        for rank, video_id in enumerate(ranked)
    }
