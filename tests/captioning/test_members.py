"""Several members of one captioner: trained apart, they speak together."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from worlds import TINY, killed_and_resumed, metric

from fewcap.captioning.batches import keyword_batch, video_batch
from fewcap.captioning.captioner import Captioner
from fewcap.captioning.folder import TrainedCaptioner, member_file
from fewcap.captioning.generate import MeanDecoder, UncachedDecoder
from fewcap.captioning.train import train
from fewcap.core.config.train import TrainConfig
from fewcap.core.store import Manifest, read_jsonl
from fewcap.core.types import VideoFeatures
from fewcap.features.store import FeatureStore
from fewcap.text.vocabulary import BOS, EOS

TWO = TINY.model_copy(update={"epochs": 3, "members": 2})


def fit(world: Path, out: Path, config: TrainConfig) -> Manifest:
    return train(world / "data", world / "features", None, out, config, seed=0, metric=metric)


@pytest.fixture(scope="module")
def together(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("members") / "model"
    fit(world, out, TWO)
    return out


class Says:
    """A decoder with fixed probabilities [V], whatever was said."""

    def __init__(self, probabilities: list[float]) -> None:
        self.probabilities, self.selected = torch.tensor(probabilities), torch.empty(0)

    def step(self, words: Tensor) -> Tensor:
        return self.probabilities.log().expand(len(words), -1)

    def select(self, rows: Tensor) -> None:
        self.selected = rows


def test_probabilities_are_averaged_not_their_logarithms() -> None:
    members = [Says([0.9, 0.05, 0.05]), Says([0.1, 0.3, 0.6])]
    decoder = MeanDecoder(members)
    said = decoder.step(torch.zeros(2, dtype=torch.long))
    assert said.exp() == pytest.approx(torch.tensor([[0.5, 0.175, 0.325]] * 2).numpy())
    decoder.select(torch.tensor([1, 0]))
    assert all(member.selected.tolist() == [1, 0] for member in members)


def test_the_first_member_is_the_captioner_alone_and_the_second_another_one(
    world: Path, together: Path, tmp_path: Path
) -> None:
    fit(world, tmp_path / "alone", TWO.model_copy(update={"members": 1}))
    alone, both = TrainedCaptioner.load(tmp_path / "alone"), TrainedCaptioner.load(together)
    assert len(alone.models) == 1
    assert len(both.models) == 2
    first, second = (model.state_dict() for model in both.models)
    for name, weight in alone.models[0].state_dict().items():
        assert torch.equal(first[name], weight)
    assert not torch.equal(first["classifier.bias"], second["classifier.bias"])
    rows = read_jsonl(together / "metrics.jsonl")
    assert [(row["member"], row["epoch"]) for row in rows] == [(m, e) for m in (1, 2) for e in (1, 2, 3)]
    assert rows[:3] == read_jsonl(tmp_path / "alone" / "metrics.jsonl")
    assert rows[3]["loss"] != rows[0]["loss"]
    counts, one = Manifest.read(together).counts, Manifest.read(tmp_path / "alone").counts
    assert counts["members"] == 2
    assert counts["parameters"] == 2 * one["parameters"]


def test_a_caption_scores_the_mean_of_the_members_probabilities(world: Path, together: Path) -> None:
    """The score of the joint caption, recomputed literally from each member's words."""
    trained = TrainedCaptioner.load(together)
    store = FeatureStore(world / "features")
    video = store[sorted(store.ids)[0]]
    caption = Captioner(trained).caption(video)
    singles = [Captioner(replace(trained, models=[model])) for model in trained.models]
    words = [*trained.vocabulary.encode(caption.text.split()), EOS]
    expected = 0.0
    for place, word in enumerate(words):
        shares = [_next_word(single, video, words[:place])[word].exp().item() for single in singles]
        expected += math.log(sum(shares) / len(shares))
    assert caption.score == pytest.approx(expected / len(words), abs=1e-4)


def _next_word(captioner: Captioner, video: VideoFeatures, said: list[int]) -> Tensor:
    trained, (model,) = captioner.trained, captioner.models
    batch = video_batch([video], captioner._dims, trained.config.model, anchors=captioner._anchors([video], None))
    keywords = keyword_batch(captioner.keywords_of([video]), trained.vocabulary, trained.config.keywords.count)
    with torch.inference_mode():
        decoder = UncachedDecoder(model, model.remember(batch, keywords))
        for word in [BOS, *said]:
            answer = decoder.step(torch.tensor([word]))
    return answer[0]


def test_interrupted_in_the_second_member_it_ends_byte_for_byte_the_same(
    world: Path, together: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed, seen = killed_and_resumed(
        monkeypatch,
        lambda: fit(world, tmp_path / "resumed", TWO),
        lambda trainer, epoch: (trainer.member, epoch) == (1, 1),
    )
    assert seen == [("", 1, 1), ("", 1, 2)]
    assert resumed.files == Manifest.read(together).files


def test_training_that_goes_on_keeps_the_members(world: Path, together: Path, tmp_path: Path) -> None:
    fit(world, tmp_path / "more", TrainConfig(epochs=1, start=str(together), start_rate=1e-9, threads=1))
    before, after = TrainedCaptioner.load(together), TrainedCaptioner.load(tmp_path / "more")
    assert (tmp_path / "more" / member_file(1)).exists()
    for old, new in zip(before.models, after.models, strict=True):
        assert torch.allclose(old.classifier.bias, new.classifier.bias, atol=1e-5)
