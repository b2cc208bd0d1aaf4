"""Training that goes on from a captioner, and captioners stored a byte a weight."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from worlds import TINY, metric, world, write_world

from fewcap.captioning.captioner import Captioner
from fewcap.captioning.folder import TrainedCaptioner
from fewcap.captioning.shipped import shipped_folder
from fewcap.captioning.start import find_start, going_on
from fewcap.captioning.train import train
from fewcap.core import assets
from fewcap.core.config.train import TrainConfig, WarmupConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest, Stage, Workspace, read_jsonl, run_stage
from fewcap.features.store import KindInfo

# As TINY, but for the network: that is the captioner's.
FURTHER = TrainConfig(epochs=2, batch=16, start_rate=1e-3, warmup_steps=5, precision="float32", threads=1)


def go_on(folder: Path, out: Path, config: TrainConfig) -> Manifest:
    return train(folder / "data", folder / "features", None, out, config, seed=0, metric=metric)


def from_model(model: Path) -> TrainConfig:
    return TrainConfig.model_validate({**FURTHER.model_dump(exclude_unset=True), "start": str(model)})


@pytest.fixture
def poodles(tmp_path: Path) -> Path:
    """The small world with a word that the captioner does not know."""
    folder = tmp_path / "poodles"
    write_world(folder)
    rows = read_jsonl(folder / "data" / "videos.jsonl")
    for row in rows:
        row["captions"] = [row["captions"][0].replace("dog", "poodle")]
    (folder / "data" / "videos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.slow
def test_goes_on_where_the_captioner_was_and_learns_new_words(poodles: Path, trained: Path, tmp_path: Path) -> None:
    manifest = go_on(poodles, tmp_path / "more", from_model(trained))
    assert manifest.inputs["start"] == Manifest.read(trained).digest
    losses = [row["loss"] for row in read_jsonl(tmp_path / "more" / "metrics.jsonl")]
    assert losses[0] < 0.7 * read_jsonl(trained / "metrics.jsonl")[0]["loss"]
    before, after = TrainedCaptioner.load(trained), TrainedCaptioner.load(tmp_path / "more")
    assert after.config.model == before.config.model == TINY.model
    assert after.config.learning_rate == 1e-3
    assert after.vocabulary.words[: len(before.vocabulary)] == before.vocabulary.words
    assert "poodle" in after.vocabulary
    assert "poodle" not in before.vocabulary
    assert after.bank.texts[: len(before.bank.texts)] == before.bank.texts
    assert any("poodle" in text for text in after.bank.texts)
    assert (after.tower.map == before.tower.map).all()


@pytest.mark.slow
def test_kinds_that_the_captioner_does_not_know_are_left_out(poodles: Path, tmp_path: Path) -> None:
    write_world(tmp_path / "seen", kinds=("appearance",))
    start = tmp_path / "start"
    train(tmp_path / "seen" / "data", tmp_path / "seen" / "features", None, start, TINY, seed=0, metric=metric)
    go_on(poodles, tmp_path / "more", from_model(start))  # its features are of three kinds
    after = TrainedCaptioner.load(tmp_path / "more")
    assert set(after.kinds) == {"appearance"}
    assert Captioner.load(tmp_path / "more").caption(world()[0][2]).text


@pytest.mark.slow
def test_half_of_the_weights_are_those_of_the_start(poodles: Path, trained: Path, tmp_path: Path) -> None:
    config = from_model(trained).model_copy(update={"epochs": 6, "start_rate": 4e-3})
    go_on(poodles, tmp_path / "new", config.model_copy(update={"start_share": 0.0}))
    go_on(poodles, tmp_path / "half", config)
    start, new, half = (TrainedCaptioner.load(folder) for folder in (trained, tmp_path / "new", tmp_path / "half"))
    assert len(start.vocabulary) < len(new.vocabulary)
    old, learnt = start.models[0].state_dict(), new.models[0].state_dict()
    for name, weight in half.models[0].state_dict().items():
        expected = learnt[name].clone()
        expected[: len(old[name])] = (learnt[name][: len(old[name])] + old[name]) / 2
        torch.testing.assert_close(weight, expected)  # rows of new words are the learnt ones
    assert not torch.equal(half.models[0].classifier.weight, new.models[0].classifier.weight)


@pytest.mark.slow
def test_a_captioner_that_gets_worse_keeps_its_weights(world: Path, trained: Path, tmp_path: Path) -> None:
    ruinous = from_model(trained).model_copy(update={"start_rate": 0.5})
    go_on(world, tmp_path / "ruined", ruinous)
    before, after = TrainedCaptioner.load(trained), TrainedCaptioner.load(tmp_path / "ruined")
    for name, weight in before.models[0].state_dict().items():
        assert torch.equal(after.models[0].state_dict()[name], weight)


def test_a_captioner_keeps_its_way_to_choose_captions(trained: Path) -> None:
    before = TrainedCaptioner.load(trained)
    choosy = replace(before, config=before.config.model_copy(update={"consensus": 7, "voters": 9}))
    assert (going_on(TrainConfig(), choosy).consensus, going_on(TrainConfig(), choosy).voters) == (7, 9)
    asked = going_on(TrainConfig(consensus=0), choosy)
    assert (asked.consensus, asked.voters) == (0, 9)


def test_features_of_other_networks_or_another_model_are_refused(trained: Path, tmp_path: Path) -> None:
    kinds = TrainedCaptioner.load(trained).kinds
    assert find_start(from_model(trained), kinds, tmp_path, data_source="folder") is not None
    others = {**kinds, "appearance": KindInfo("another", 24, "another hash")}
    with pytest.raises(FewcapError, match="appearance features come from 'another'"):
        find_start(from_model(trained), others, tmp_path, data_source="folder")
    wider = TrainConfig.model_validate({"start": str(trained), "model": {"width": 64}})
    with pytest.raises(FewcapError, match=r"train\.model differs from that of .*remove train\.model"):
        find_start(wider, kinds, tmp_path, data_source="folder")
    with pytest.raises(ValueError, match="a captioner knows language already"):
        TrainConfig(start="shipped", warmup=WarmupConfig(source="corpus", corpus=(tmp_path / "corpus.txt",)))


def test_paths_are_read_from_the_project(tmp_path: Path) -> None:
    assert TrainConfig(start="older/model").relative_to(tmp_path).start == str(tmp_path / "older" / "model")
    assert TrainConfig().relative_to(tmp_path) == TrainConfig()
    assert "model" not in TrainConfig().relative_to(tmp_path).model_fields_set
    warm = WarmupConfig(source="corpus", corpus=(Path("corpus.txt"),))
    assert TrainConfig(warmup=warm).relative_to(tmp_path).warmup.corpus == (tmp_path / "corpus.txt",)


def test_auto_takes_the_shipped_captioner_only_where_it_fits(trained: Path, tmp_path: Path) -> None:
    own = TrainedCaptioner.load(trained).kinds
    known = Captioner.default().trained.kinds
    assert find_start(TrainConfig(), known, tmp_path, data_source="folder") is not None
    assert find_start(TrainConfig(), own, tmp_path, data_source="folder") is None  # other networks
    assert find_start(TINY, known, tmp_path, data_source="folder") is None  # a network of one's own
    assert find_start(TrainConfig(), known, tmp_path, data_source="msrvtt") is None  # it has seen these captions
    assert find_start(TrainConfig(start="none"), known, tmp_path, data_source="folder") is None


def test_a_byte_a_weight_says_the_same(trained: Path, tmp_path: Path) -> None:
    whole = TrainedCaptioner.load(trained)

    def build(workspace: Workspace) -> dict[str, int]:
        whole.save(workspace, compact=True)
        return {}

    run_stage(Stage(tmp_path / "small", "model", inputs={}, config={}), build)
    small = TrainedCaptioner.load(tmp_path / "small")
    for name, weight in whole.models[0].state_dict().items():
        largest = weight.abs().amax(-1, keepdim=True)
        assert ((small.models[0].state_dict()[name] - weight).abs() <= largest / 127 + 1e-3).all()
    assert (tmp_path / "small" / "model.safetensors").stat().st_size < 0.5 * (
        trained / "model.safetensors"
    ).stat().st_size
    videos = [features for _, _, features in world()]
    said, meant = Captioner(small).caption(videos), Captioner(whole).caption(videos)
    assert sum(a.text == b.text for a, b in zip(said, meant, strict=True)) >= 0.9 * len(videos)
    assert torch.allclose(torch.from_numpy(small.bank.embeddings), torch.from_numpy(whole.bank.embeddings), atol=0.01)


def test_a_shipped_file_that_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "captioner"
    shutil.copytree(shipped_folder(), copy)
    monkeypatch.setattr(assets, "asset", lambda name: copy)
    with open(copy / "model.safetensors", "r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x55")
    with pytest.raises(FewcapError, match=r"model\.safetensors: its content is not what was shipped; reinstall fewcap"):
        shipped_folder()
