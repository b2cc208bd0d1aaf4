"""The object people use: what it takes, what it gives, what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from worlds import world as make_world
from worlds import write_world

from fewcap.captioning.caption import caption
from fewcap.captioning.captioner import Captioner
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.errors import FewcapError
from fewcap.core.types import VideoFeatures

pytestmark = pytest.mark.slow  # the fixture trains for some seconds


@pytest.fixture(scope="module")
def captioner(trained: Path) -> Captioner:
    return Captioner.load(trained)


def test_one_video_or_several_however_given(captioner: Captioner) -> None:
    videos = [features for _, _, features in make_world()[:3]]
    expected = captioner.caption(videos)
    assert [captioner.caption(video).text for video in videos] == [c.text for c in expected]
    mapping = {kind: getattr(videos[0], kind).numpy() for kind in ("appearance", "motion", "objects")}
    assert captioner.caption(mapping).text == expected[0].text
    assert captioner.caption([]) == []


def test_a_caption_explains_itself(captioner: Captioner) -> None:
    _, truth, features = make_world()[5]
    found = captioner.caption(features)
    assert [word.word for word in found.words] == found.text.split()
    assert all(0 < word.video_share < 1 for word in found.words)
    assert len(found.alternatives) == 5
    assert found.alternatives[0].score == found.score
    assert len({a.text for a in found.alternatives}) == 5
    assert {k.word for k in found.keywords} & set(truth.split())
    assert all(0 < k.weight <= 1 for k in found.keywords)


def test_sampling_gives_different_captions(trained: Path) -> None:
    config = CaptionConfig(method="sample", samples=12, alternatives=12, temperature=1.5, top_p=1.0)
    found = Captioner.load(trained, config).caption(make_world()[7][2])
    assert len({a.text for a in found.alternatives}) > 3
    assert Captioner.load(trained, config).caption(make_world()[7][2]) == found


def test_the_model_has_its_own_length_penalty(captioner: Captioner, trained: Path) -> None:
    video = make_world()[5][2]
    settings = captioner.trained.config.model_copy(update={"length_penalty": 0.3})
    own = Captioner(replace(captioner.trained, config=settings))
    asked = Captioner.load(trained, CaptionConfig(length_penalty=0.3))
    assert own.caption(video).score == asked.caption(video).score != captioner.caption(video).score


def test_the_model_has_its_own_way_to_choose_captions(captioner: Captioner, trained: Path) -> None:
    videos = [row[2] for row in make_world()[:12]]
    settings = captioner.trained.config.model_copy(update={"consensus": 8, "voters": 6})
    own = Captioner(replace(captioner.trained, config=settings)).caption(videos)
    assert own == Captioner.load(trained, CaptionConfig(consensus=8, voters=6)).caption(videos)
    likeliest = Captioner(replace(captioner.trained, config=settings), config=CaptionConfig(consensus=0)).caption(
        videos
    )
    assert likeliest == captioner.caption(videos)
    among_themselves = Captioner.load(trained, CaptionConfig(consensus=8)).caption(videos)
    orders = [[[a.text for a in c.alternatives] for c in found] for found in (own, likeliest, among_themselves)]
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]
    by_the_best = Captioner.load(trained, CaptionConfig(consensus=8, voters=6, best_of=4)).caption(videos)
    assert orders[0] != [[a.text for a in c.alternatives] for c in by_the_best]


def test_voters_need_captions_to_choose_from() -> None:
    with pytest.raises(ValueError, match="voters=5 have nothing to choose from"):
        CaptionConfig(consensus=0, voters=5)
    with pytest.raises(ValueError, match="best_of=5 of no voters"):
        CaptionConfig(consensus=20, voters=0, best_of=5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (CaptionConfig(voters=5), "voters is 5, but this model takes the likeliest"),
        (CaptionConfig(consensus=8, best_of=4), "best_of is 4, but this model has no voters"),
    ],
)
def test_a_vote_that_could_not_be_cast_is_said(trained: Path, config: CaptionConfig, message: str) -> None:
    with pytest.raises(FewcapError, match=message):
        Captioner.load(trained, config)


def test_any_video_text_model_may_choose_the_keywords(trained: Path) -> None:
    class Stubborn:
        """Puts every video beside the last sentence of the bank."""

        def embed_videos(self, videos: Sequence[VideoFeatures]) -> np.ndarray:
            return np.tile([[0.0, 1.0]], (len(videos), 1)).astype(np.float32)

        def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
            return np.array([[1.0, 0.0]] * (len(texts) - 1) + [[0.0, 1.0]], dtype=np.float32)

    other = Captioner.load(trained, videotext=Stubborn())
    last = json.loads((trained / "bank.jsonl").read_text().splitlines()[-1])
    found = other.caption(make_world()[9][2])
    assert {k.word for k in found.keywords[: len(last["keywords"])]} == set(last["keywords"])


def test_other_features_are_refused_and_both_are_named(captioner: Captioner, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(FewcapError, match=r"\(5, 7\).*'test appearance' vectors \[n, 24\]"):
        captioner.caption({"appearance": np.zeros((5, 7)), "motion": np.zeros((2, 16)), "objects": np.zeros((2, 12))})
    with pytest.raises(FewcapError, match="no motion"):
        captioner.caption(np.zeros((5, 24), dtype=np.float32))
    with pytest.raises(FewcapError, match="'colour' is no kind"):
        captioner.caption({"colour": np.zeros((5, 24))})
    write_world(tmp_path)
    index = tmp_path / "features" / "index.json"
    index.write_text(index.read_text().replace("test motion", "other motion"))
    with pytest.raises(FewcapError, match=r"'other motion'.*'test motion'"):
        caption(tmp_path / "data", tmp_path / "features", trained, tmp_path / "captions", CaptionConfig())


def test_a_path_needs_features_that_fewcap_can_extract(captioner: Captioner) -> None:
    with pytest.raises(FewcapError, match=r"give features, not 'clip\.mp4'"):
        captioner.caption("clip.mp4")


def test_the_folder_is_self_contained(trained: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(trained, moved)
    video = make_world()[3][2]
    assert Captioner.load(moved).caption(video) == Captioner.load(trained).caption(video)
    (moved / "manifest.json").unlink()
    with pytest.raises(FewcapError, match="unfinished"):
        Captioner.load(moved)
