"""Training as a stage: it learns, resumes exactly, and shares its work among processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from worlds import TINY, killed_and_resumed, metric

from fewcap.captioning.caption import caption
from fewcap.captioning.train import train
from fewcap.core.config.caption import CaptionConfig
from fewcap.core.config.train import ModelConfig, TrainConfig, VocabularyConfig, WarmupConfig
from fewcap.core.store import Manifest, Stage, Workspace, read_jsonl, run_stage

HERE = Path(__file__).parent
FEW = TINY.model_copy(update={"epochs": 4, "patience": 4})


def fit(world: Path, out: Path, config: TrainConfig, seed: int = 0, pseudo: Path | None = None) -> Manifest:
    return train(world / "data", world / "features", pseudo, out, config, seed=seed, metric=metric)


@pytest.mark.slow
def test_learns_the_small_world_and_captions_it(world: Path, trained: Path, tmp_path: Path) -> None:
    rows = read_jsonl(trained / "metrics.jsonl")
    assert rows[-1]["loss"] < 0.6 * rows[0]["loss"]
    counts = Manifest.read(trained).counts
    assert counts["best_score"] > 70
    assert counts["best_score"] == max(row["smoothed"] for row in rows if row["smoothed"] is not None)
    caption(world / "data", world / "features", trained, tmp_path / "captions", CaptionConfig())
    captions = read_jsonl(tmp_path / "captions" / "captions.jsonl")
    references = {row["id"]: row["captions"] for row in read_jsonl(world / "data" / "videos.jsonl")}
    assert metric({row["id"]: row["caption"] for row in captions}, references) > 60
    assert len(captions) == 8
    for row in captions:
        assert row["caption"] == " ".join(word["word"] for word in row["words"])
        assert row["caption"] == row["alternatives"][0]["caption"]
        assert all(0 <= word["video_share"] <= 1 for word in row["words"])
        assert [k["weight"] for k in row["keywords"]] == sorted((k["weight"] for k in row["keywords"]), reverse=True)


def test_stages_are_skipped_when_nothing_changed(world: Path, tmp_path: Path) -> None:
    config = TINY.model_copy(update={"epochs": 1})
    first = fit(world, tmp_path / "m", config)
    stamp = (tmp_path / "m" / "model.safetensors").stat().st_mtime_ns
    assert fit(world, tmp_path / "m", config) == first
    assert (tmp_path / "m" / "model.safetensors").stat().st_mtime_ns == stamp
    assert fit(world, tmp_path / "m", config, seed=1).key != first.key


def test_an_interrupted_run_ends_byte_for_byte_like_an_undisturbed_one(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = fit(world, tmp_path / "straight", FEW)
    resumed, seen = killed_and_resumed(
        monkeypatch, lambda: fit(world, tmp_path / "resumed", FEW), lambda trainer, epoch: epoch == 2
    )
    assert seen == [("", 0, 2), ("", 0, 3)]
    assert resumed.files == straight.files
    assert not (tmp_path / "resumed" / "scratch").exists()


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from worlds import metric
from fewcap.captioning import loop
from fewcap.captioning.train import train
from fewcap.core.config.train import TrainConfig
loop.CHECKPOINT_SECONDS = 0.0
world, out = Path(sys.argv[1]), Path(sys.argv[2])
config = TrainConfig.model_validate_json(Path(sys.argv[3]).read_text())
train(world / "data", world / "features", None, out, config, seed=0, metric=metric)
left = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
assert not [name for name in left if "gloo" in name], left  # they may abort the process while it ends
"""


def run(folder: Path, world: Path, out: Path, config: TrainConfig, launcher: list[str]) -> subprocess.Popen[bytes]:
    program, settings = folder / "program.py", folder / "config.json"
    program.write_text(PROGRAM.format(here=str(HERE)))
    settings.write_text(config.model_dump_json())
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, str(program), str(world), str(out), str(settings)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_a_killed_process_resumes_byte_for_byte(world: Path, tmp_path: Path) -> None:
    config = TINY.model_copy(update={"epochs": 6, "patience": 6})
    process = run(tmp_path, world, tmp_path / "killed", config, [])
    deadline = time.monotonic() + 120
    while not (tmp_path / "killed" / "scratch" / "checkpoint.safetensors").exists():
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "manifest.json").exists()
    resumed = fit(world, tmp_path / "killed", config)
    assert resumed.files == fit(world, tmp_path / "straight", config).files


@pytest.mark.slow
def test_two_processes_have_the_loss_curve_of_one(world: Path, tmp_path: Path) -> None:
    quiet = TINY.model.model_copy(update={"dropout": 0.0})
    config = TINY.model_copy(update={"epochs": 3, "model": quiet, "accumulate": 2})
    port = 29500 + os.getpid() % 1000
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port)]
    process = run(tmp_path, world, tmp_path / "two", config, launcher)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors.decode()[-3000:]
    fit(world, tmp_path / "one", config.model_copy(update={"accumulate": 1}))
    one, two = (read_jsonl(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    for a, b in zip(one, two, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=2e-4)
        assert a["score"] == pytest.approx(b["score"], abs=4.0)


def test_pseudo_sentences_are_trained_on_with_their_weight_and_the_word_loss(world: Path, tmp_path: Path) -> None:
    def build(workspace: Workspace) -> dict[str, int]:
        rows = [row for row in read_jsonl(world / "data" / "videos.jsonl") if row["split"] == "train"]
        workspace.write_jsonl(
            "pseudo.jsonl",
            (
                {
                    "id": row["id"],
                    "sentences": [
                        {"text": row["captions"][0].replace("a ", "one ", 1), "keywords": [], "edits": [],
                         "source": row["captions"][0], "lm_score": 0.0, "video_score": 0.0}
                    ],
                    "rejected": [],
                }
                for row in rows
            ),
        )  # fmt: skip
        return {"videos": len(rows)}

    run_stage(Stage(tmp_path / "pseudo", "pseudo", inputs={}, config={}), build)
    config = TINY.model_copy(update={"epochs": 2, "word_loss": "pseudo"})
    with_pseudo = fit(world, tmp_path / "with", config, pseudo=tmp_path / "pseudo")
    assert with_pseudo.counts["pseudo_sentences"] == 48
    assert "one" in json.loads((tmp_path / "with" / "vocabulary.json").read_text())
    rows = read_jsonl(tmp_path / "with" / "metrics.jsonl")
    assert all(0 < row["word_loss"] < 2 for row in rows)
    given_words = {"epochs": 1, "vocabulary": VocabularyConfig(count_pseudo=False)}
    fit(world, tmp_path / "given", TINY.model_copy(update=given_words), pseudo=tmp_path / "pseudo")
    assert "one" not in json.loads((tmp_path / "given" / "vocabulary.json").read_text())
    for change in ({"word_loss": "off"}, {"pseudo_weight": 0.1}, {"pseudo_per_video": 0}):
        other = fit(world, tmp_path / next(iter(change)), config.model_copy(update=change), pseudo=tmp_path / "pseudo")
        assert other.files["model.safetensors"] != with_pseudo.files["model.safetensors"]
    assert read_jsonl(tmp_path / "word_loss" / "metrics.jsonl")[0]["word_loss"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"keywords": TINY.keywords.model_copy(update={"source": "own"})},
        {"keywords": TINY.keywords.model_copy(update={"source": "retrieved"})},
        {"optimizer": "adam", "weight_decay": 0.5},
        {"model": TINY.model.model_copy(update={"decoder": "parallel", "anchor": False})},
        {"model": TINY.model.model_copy(update={"fusion": "none", "object_joint": False})},
    ],
    ids=["own", "retrieved", "adam", "parallel", "vanilla"],
)
def test_published_settings_train(world: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    manifest = fit(world, tmp_path / "m", TINY.model_copy(update={"epochs": 2, **change}))
    rows = read_jsonl(tmp_path / "m" / "metrics.jsonl")
    assert rows[1]["loss"] < rows[0]["loss"]
    assert manifest.counts["epochs"] == 2


def test_sentences_of_further_corpora_are_retrieved_unless_switched_off(world: Path, tmp_path: Path) -> None:
    rows = read_jsonl(world / "data" / "videos.jsonl")
    told = [row["id"] for row in rows if row["split"] == "train"]
    further = set(told[::3])

    def build(workspace: Workspace) -> dict[str, int]:
        workspace.write_jsonl("videos.jsonl", ({**row, "corpus": int(row["id"] in further)} for row in rows))
        workspace.write_json("sources.json", {"source": "folder", "packed_features": None})
        return {"videos": len(rows)}

    run_stage(Stage(tmp_path / "data", "data", inputs={"further": "yes"}, config={}), build)
    found: dict[bool, list[str]] = {}
    for switch in (True, False):
        keywords = TINY.keywords.model_copy(update={"further": switch})
        config = TINY.model_copy(update={"epochs": 1, "keywords": keywords})
        out = tmp_path / str(switch)
        train(tmp_path / "data", world / "features", None, out, config, seed=0, metric=metric)
        found[switch] = [row["video"] for row in read_jsonl(out / "bank.jsonl")]
        assert Manifest.read(out).counts["videos"] == len(told)  # they train all the same
    assert found == {True: told, False: [video for video in told if video not in further]}


@pytest.mark.slow
def test_a_text_warm_up_helps_the_first_epoch(world: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(
        "\n".join(f"a {w} is {d} the {o}" for w in ("man", "child", "dog", "girl", "boy", "woman")
                  for d in ("eating", "washing", "carrying", "watching", "holding", "painting")
                  for o in ("carrot", "car", "ball", "bird", "table"))
    )  # fmt: skip
    warm = WarmupConfig(source="corpus", corpus=(corpus,), epochs=8, batch=32, words=60, bank=100, learning_rate=4e-3)
    config = TINY.model_copy(update={"epochs": 1})
    fit(world, tmp_path / "cold", config)
    fit(world, tmp_path / "warm", config.model_copy(update={"warmup": warm}))
    cold, warmed = (read_jsonl(tmp_path / name / "metrics.jsonl")[0]["loss"] for name in ("cold", "warm"))
    assert warmed < cold - 0.2
    assert "painting" in json.loads((tmp_path / "warm" / "vocabulary.json").read_text())


def test_early_stopping_keeps_the_best_smoothed_epoch(world: Path, tmp_path: Path) -> None:
    scores = iter([10.0, 60.0, 20.0, 45.0, 50.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    config = TINY.model_copy(update={"epochs": 10, "patience": 2, "smooth": 2})
    manifest = train(
        world / "data", world / "features", None, tmp_path / "m", config, seed=0, metric=lambda h, r: next(scores)
    )
    rows = read_jsonl(tmp_path / "m" / "metrics.jsonl")
    assert [row["smoothed"] for row in rows] == [None, 35.0, 40.0, 32.5, 47.5, 25.5, 1.0]
    assert manifest.counts["best_epoch"] == 5


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.width=30 is not a multiple of model\.heads=8"):
        ModelConfig(width=30, heads=8)
    with pytest.raises(ValueError, match="accumulate=3"):
        TrainConfig(batch=2, accumulate=3)
    with pytest.raises(ValueError, match=r"warmup\.source='corpus'"):
        WarmupConfig(source="corpus")
