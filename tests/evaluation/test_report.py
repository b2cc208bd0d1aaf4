"""The report: one file, nothing from outside, whole in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from evaluation_project import make_project

from fewcap.core.config.score import ScoreConfig
from fewcap.core.errors import FewcapError
from fewcap.evaluation.report import write_report
from fewcap.evaluation.report.charts import ticks
from fewcap.evaluation.report.parts import choose_clips
from fewcap.evaluation.report.traces import how_invented, label_part, steps
from fewcap.evaluation.stage import evaluate


@pytest.fixture(scope="module")
def report(project: Path) -> str:
    return write_report(project, project / "report.html").read_text(encoding="utf-8")


def test_everything_is_on_the_page(report: str, project: Path) -> None:
    for section in ("scores", "curves", "clips", "pseudo", "costs", "reproduce"):
        assert f'<section id="{section}">' in report
    for words in ("most frequent caption", "nearest neighbour", "CIDEr-D", "4 references", "3 alternatives"):
        assert words in report
    assert report.count('class="word"') > 100
    assert "% video, " in report
    assert report.count("data:image/jpeg;base64,") == 18
    assert 'src="data/videos/clip30.mp4"' in report
    assert (project / "data" / "videos" / "clip30.mp4").is_file()
    assert "a → the" in report


def test_worst_captions_come_first(report: str) -> None:
    scores = [float(value) for value in re.findall(r'data-score="([-\d.]+)"', report)]
    assert len(scores) == 18
    assert scores == sorted(scores)


def test_nothing_comes_from_outside(report: str) -> None:
    sources = re.findall(r'(?:src|href|poster|action)="([^"]*)"', report)
    assert [source for source in sources if re.match(r"(https?:)?//", source)] == []
    assert "@import" not in report
    assert re.findall(r"url\((?!data:)", report) == []


def test_a_baseline_stands_beside_the_run(project: Path, tmp_path: Path) -> None:
    html = write_report(project, tmp_path / "r.html", baseline=project).read_text(encoding="utf-8")
    assert "baseline" in html
    assert 'class="interval baseline"' in html
    with pytest.raises(FewcapError, match="there are no scores here"):
        write_report(project, tmp_path / "r.html", baseline=project / "data")


def test_captions_can_not_break_out(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p", clips=False)
    config = ScoreConfig(meteor="off", bootstrap=0, floors=False, keywords=False)
    evaluate(folder / "data", folder / "captions", folder / "scores", config)
    hostile = "</script><img src=x onerror=alert(1)> \" ' {{ 7 * 7 }} \ud800"
    items = folder / "scores" / "items.jsonl"
    rows = [json.loads(line) for line in items.read_text().splitlines()]
    for row in rows:
        row["caption"] = row["id"] = hostile
        row["references"] = [hostile]
    items.write_text("".join(json.dumps(row) + "\n" for row in rows))
    html = write_report(folder, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<img src=x" not in html
    assert "{{ 7 * 7 }}" in html
    assert "no picture" in html


def test_a_project_that_is_half_done(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p", clips=False)
    for stage in ("captions", "model", "pseudo"):
        shutil.rmtree(folder / stage)
    html = write_report(folder, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "finished so far: data, features" in html
    assert '<section id="clips">' not in html
    (tmp_path / "none").mkdir()
    with pytest.raises(FewcapError, match="there is no finished stage"):
        write_report(tmp_path / "none", tmp_path / "r.html")


def test_clips_are_chosen_from_both_ends() -> None:
    items = [{"id": f"v{n}", "cider_d": float(n)} for n in range(200)]
    chosen = [int(row["cider_d"]) for row in choose_clips(items, 40)]
    assert len(chosen) == 40
    assert chosen[:20] == list(range(20))
    assert chosen[-10:] == list(range(190, 200))
    assert chosen == sorted(chosen)


def test_edits_are_replayed_from_the_keywords() -> None:
    edits = [
        {"action": "insert", "position": 1, "word": "a", "probability": 0.5},
        {"action": "insert", "position": 3, "word": "is", "probability": 0.5},
        {"action": "insert", "position": 5, "word": "now", "probability": 0.5},
        {"action": "replace", "position": 1, "word": "the", "instead_of": "a", "probability": 0.5},
        {"action": "delete", "position": 5, "word": "now", "probability": 0.5},
    ]
    replayed = steps(["dog", "running"], edits, "the dog is running")
    sentences = [" ".join(word["text"] for word in step["words"]) for step in replayed]
    assert sentences[0] == "a dog running"
    assert sentences[2] == "a dog is running now"
    assert sentences[3] == "the dog is running now"
    assert replayed[4]["words"][4] == {"text": "now", "mark": True}
    # A trace that does not lead to the text is shown without sentences.
    assert all(step["words"] == [] for step in steps(["dog"], edits, "something else"))


def test_told_captions_have_no_steps_and_show_all_that_were_kept() -> None:
    told = {"keywords": ["dog"], "source": "a dog runs", "lm_score": -1.0, "video_score": 0.5}
    sentences = [
        {**told, "text": text, "edits": [{"action": "retell", "word": text, "times": 2}]}
        for text in ("a dog is running", "an animal runs")
    ]
    (card,) = label_part([{"id": "v1", "sentences": sentences, "rejected": []}], 5)
    assert card["steps"] == []
    assert card["others"] == ["an animal runs"]
    assert [word["text"] for word in card["words"] if word["keyword"]] == ["dog"]
    assert "other people" in how_invented("retell")
    assert "never changed" in how_invented("edit")
    assert "masked" in how_invented("masked")


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.31, 4.3), (20, 64.1), (5, 5), (0, 1073)])
def test_ticks_are_few_and_cover(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 7


CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


def browse(page: Path, profile: Path, *options: str) -> tuple[str, str]:
    """What Chromium prints, and what its console says."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"]
    command += ["--enable-logging=stderr", "--allow-file-access-from-files", "--virtual-time-budget=3000"]
    command += [f"--user-data-dir={profile}", *options, page.resolve().as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_opens_in_a_real_browser(report: str, project: Path, tmp_path: Path) -> None:
    page = project / "report.html"
    shown, console = browse(page, tmp_path / "a", "--dump-dom", "--window-size=1280,1600")
    assert console == ""
    assert "18 clips</output>" in shown  # the script ran

    # A phone: the page in a frame of 390 pixels, which looks whether anything sticks out; and a message on purpose,
    # which shows that messages are seen.
    phone = project / "phone.html"
    phone.write_text(
        '<iframe src="report.html" style="width:390px;height:2000px;border:0"></iframe><script>'
        'const frame = document.querySelector("iframe");'
        "frame.onload = () => { document.title = 'width ' + frame.contentDocument.documentElement.scrollWidth;"
        "console.log('seen'); };</script>"
    )
    shown, console = browse(phone, tmp_path / "b", "--dump-dom", f"--screenshot={tmp_path / 'phone.png'}")
    assert "seen" in console
    assert "<title>width 390</title>" in shown

    browse(page, tmp_path / "c", f"--print-to-pdf={tmp_path / 'report.pdf'}")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
