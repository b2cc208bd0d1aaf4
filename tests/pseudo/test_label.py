"""The label stage: documented output, resumable, the same whoever computes it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from fewcap.core.config.label import LabelConfig
from fewcap.core.errors import FewcapError
from fewcap.core.store import Manifest, read_jsonl
from fewcap.pseudo import engines
from fewcap.pseudo import invent as stage
from fewcap.pseudo.label import label, read_pseudo

Project = tuple[Path, Path]


def config(models: Path, **settings: Any) -> LabelConfig:
    return LabelConfig.model_validate(
        {
            "strategy": "edit",
            "models": str(models),
            "keep": 3,
            "candidates": 6,
            "edit": {"stop": 0.15, "steps": 20, "longest": 7, "rounds": 2},
            **settings,
            "rank": {"nearness": 0, **settings.get("rank", {})},  # untrained models keep no meaning
        }
    )


def test_ranked_sentences_with_traces(project: Project, tiny_folder: Path, tmp_path: Path) -> None:
    label(*project, tmp_path / "out", config(tiny_folder), seed=0)
    rows = {row["id"]: row for row in read_jsonl(tmp_path / "out" / "pseudo.jsonl")}
    assert list(rows) == ["v1", "v2", "v3", "v4", "v5", "v6", "v7"]
    for row in rows.values():
        assert len(row["sentences"]) <= 3
        scores = [s["video_score"] for s in row["sentences"]]
        if row["id"] != "v7":
            assert scores == sorted(scores, reverse=True)
        for sentence in row["sentences"]:
            assert set(sentence) == {"text", "keywords", "source", "edits", "lm_score", "video_score"}
            assert all(word in sentence["text"].split() for word in sentence["keywords"])
        assert all(set(lost) == {"text", "why"} and lost["why"] for lost in row["rejected"])
        texts = [s["text"] for s in row["sentences"]]
        assert len(set(texts)) == len(texts)
    assert rows["v2"]["sentences"]
    assert rows["v3"]["sentences"] == []
    assert "no nouns or verbs" in rows["v3"]["rejected"][0]["why"]
    assert all(s["video_score"] is None for s in rows["v7"]["sentences"])
    back = read_pseudo(tmp_path / "out")
    assert [s.text for s in back["v2"]] == [s["text"] for s in rows["v2"]["sentences"]]


def test_the_batch_changes_nothing_and_is_no_part_of_the_key(
    project: Project, tiny_folder: Path, tmp_path: Path
) -> None:
    one = label(*project, tmp_path / "one", config(tiny_folder, batch=1), seed=3)
    many = label(*project, tmp_path / "many", config(tiny_folder, batch=64), seed=3)
    assert one.digest == many.digest


def test_killed_and_resumed_gives_the_same_bytes(
    project: Project, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = label(*project, tmp_path / "whole", config(tiny_folder), seed=0)
    monkeypatch.setattr(stage, "VIDEOS_A_PART", 2)
    calls = []
    invent = engines.invent

    def dies_at_the_third(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return invent(*args)

    monkeypatch.setattr(engines, "invent", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        label(*project, tmp_path / "torn", config(tiny_folder), seed=0)
    with pytest.raises(FewcapError, match="unfinished"):
        read_pseudo(tmp_path / "torn")
    resumed = label(*project, tmp_path / "torn", config(tiny_folder), seed=0)
    assert len(calls) == 5  # four parts; the third was tried twice
    assert resumed.files == whole.files


def test_ranking_off_keeps_the_order_of_the_chains(project: Project, tiny_folder: Path, tmp_path: Path) -> None:
    off = config(tiny_folder, rank={"enabled": False, "fluent": 1.0}, keep=20)
    label(*project, tmp_path / "off", off, seed=0)
    on = config(tiny_folder, rank={"fluent": 1.0}, keep=20)
    label(*project, tmp_path / "on", on, seed=0)
    plain = {video: [s.text for s in found] for video, found in read_pseudo(tmp_path / "off").items()}
    ranked = {video: [s.text for s in found] for video, found in read_pseudo(tmp_path / "on").items()}
    assert {video: sorted(texts) for video, texts in plain.items()} == {v: sorted(t) for v, t in ranked.items()}
    assert plain != ranked
    assert plain["v7"] == ranked["v7"]  # no features, nothing to rank by


def test_a_second_run_is_skipped_and_new_models_are_not(
    project: Project, tiny_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = shutil.copytree(tiny_folder, tmp_path / "models")
    label(*project, tmp_path / "out", config(models), seed=0)
    with caplog.at_level("INFO", "fewcap"):
        label(*project, tmp_path / "out", config(models), seed=0)
    assert "skipped" in caplog.text
    card = next(models.rglob("*.json"))
    card.write_text(card.read_text() + "\n")
    caplog.clear()
    with caplog.at_level("INFO", "fewcap"):
        label(*project, tmp_path / "out", config(models), seed=0)
    assert "pseudo: done" in caplog.text


def test_another_choice_needs_no_new_candidates(
    project: Project, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label(*project, tmp_path / "out", config(tiny_folder, keep=3), seed=0)
    calls = []
    invent = engines.invent
    monkeypatch.setattr(engines, "invent", lambda *args: calls.append(args) or invent(*args))
    fewer = label(*project, tmp_path / "out", config(tiny_folder, keep=1), seed=0)
    shared = config(tiny_folder, keep=1, rank={"enabled": False})
    label(*project, tmp_path / "unranked", shared, seed=0, candidates=tmp_path / "out-candidates")
    assert not calls
    anew = label(*project, tmp_path / "anew", config(tiny_folder, keep=1), seed=0)
    assert calls
    assert fewer.files == anew.files
    label(*project, tmp_path / "out", config(tiny_folder, keep=1), seed=1)
    assert len(calls) == 2  # another seed has other candidates


def test_sentences_of_another_meaning_are_rejected(project: Project, tiny_folder: Path, tmp_path: Path) -> None:
    label(*project, tmp_path / "all", config(tiny_folder), seed=0)
    strict = config(tiny_folder, rank={"nearness": 0.99})
    label(*project, tmp_path / "near", strict, seed=0, candidates=tmp_path / "all-candidates")
    everything, near = (list(read_jsonl(tmp_path / name / "pseudo.jsonl")) for name in ("all", "near"))
    assert sum(len(row["sentences"]) for row in near) < sum(len(row["sentences"]) for row in everything)
    for before, after in zip(everything, near, strict=True):
        kept = {s["text"] for s in after["sentences"]}
        other = {lost["text"] for lost in after["rejected"] if lost["why"].startswith("means something else")}
        assert {s["text"] for s in before["sentences"]} <= kept | other


def test_damaged_candidates_are_named(project: Project, tiny_folder: Path, tmp_path: Path) -> None:
    label(*project, tmp_path / "out", config(tiny_folder), seed=0)
    [file] = (tmp_path / "out-candidates").glob("*.gz")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(FewcapError, match=r"candidates-000000\.jsonl\.gz: missing or damaged; delete the folder"):
        label(*project, tmp_path / "out", config(tiny_folder, keep=1), seed=0)


@pytest.mark.slow
def test_ray_gives_the_same_bytes(
    project: Project, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setattr(stage, "VIDEOS_A_PART", 3)
    here = label(*project, tmp_path / "here", config(tiny_folder), seed=0)
    there = label(*project, tmp_path / "there", config(tiny_folder, engine="ray", workers=2), seed=0)
    assert here.digest == there.digest


def test_missing_models_are_named_before_any_work(project: Project, tmp_path: Path) -> None:
    with pytest.raises(FewcapError, match=r"no language models here"):
        label(*project, tmp_path / "out", config(tmp_path), seed=0)
    with pytest.raises(FewcapError, match="no-such-folder"):
        label(*project, tmp_path / "out", config(tmp_path / "no-such-folder"), seed=0)


def test_reading_another_artefact_says_so(project: Project) -> None:
    with pytest.raises(FewcapError, match="not pseudo-labels"):
        read_pseudo(project[0])
    assert Manifest.read(project[0]).kind == "data"
