"""The artefact store: whole or resumable, never half, and never two writers."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewcap.core.errors import FewcapError
from fewcap.core.store import (
    JOURNAL,
    MANIFEST,
    Manifest,
    Stage,
    Workspace,
    fingerprint,
    read_json,
    read_jsonl,
    run_stage,
    stage_seconds,
)


def stage_in(folder: Path, **config: Any) -> Stage:
    return Stage(folder, "numbers", inputs={"data": "abc"}, config={"n": 3, **config})


def write_numbers(workspace: Workspace) -> Mapping[str, Any]:
    for number in range(3):
        workspace.write_json(f"parts/{number}.json", {"number": number})
    workspace.write_text("scratch/checkpoint", "half way")
    return {"numbers": 3}


def test_a_finished_stage_is_described_by_its_manifest(tmp_path: Path) -> None:
    manifest = run_stage(stage_in(tmp_path / "out"), write_numbers)
    assert manifest.counts == {"numbers": 3}
    assert list(manifest.files) == ["parts/0.json", "parts/1.json", "parts/2.json"]
    assert manifest.inputs == {"data": "abc"}
    assert manifest.versions["python"].startswith("3.")
    assert not (tmp_path / "out" / "scratch").exists()
    assert stage_seconds(tmp_path / "out") is not None


def test_same_inputs_and_configuration_are_skipped_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_stage(stage_in(tmp_path), write_numbers)
    caplog.set_level("INFO", logger="fewcap")

    def must_not_run(workspace: Workspace) -> Mapping[str, Any]:
        raise AssertionError("the stage ran although nothing changed")

    run_stage(stage_in(tmp_path), must_not_run)
    assert "numbers: unchanged, skipped" in caplog.text


@pytest.mark.parametrize("change", [{"n": 4}, {"other": 1}])
def test_another_configuration_replaces_the_result(tmp_path: Path, change: dict[str, int]) -> None:
    run_stage(stage_in(tmp_path), write_numbers)
    manifest = run_stage(stage_in(tmp_path, **change), lambda workspace: {"numbers": 0})
    assert manifest.files == {}
    assert not (tmp_path / "parts").exists()


def test_another_input_replaces_the_result(tmp_path: Path) -> None:
    before = run_stage(stage_in(tmp_path), write_numbers)
    after = run_stage(Stage(tmp_path, "numbers", inputs={"data": "xyz"}, config={"n": 3}), write_numbers)
    assert before.key != after.key


def test_a_failed_stage_goes_on_where_it_was(tmp_path: Path) -> None:
    def fail_after_two(workspace: Workspace) -> Mapping[str, Any]:
        workspace.write_text("one", "1")
        workspace.write_text("scratch/two", "2")
        with pytest.raises(RuntimeError), workspace.file("three") as path:
            path.write_text("half of thr")
            raise RuntimeError("power cut")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_stage(stage_in(tmp_path), fail_after_two)
    with pytest.raises(FewcapError, match="unfinished"):
        Manifest.read(tmp_path)

    def go_on(workspace: Workspace) -> Mapping[str, Any]:
        assert workspace.resumed
        assert workspace.exists("one")
        assert workspace.exists("scratch/two")
        assert not workspace.exists("three")
        return {}

    assert list(run_stage(stage_in(tmp_path), go_on).files) == ["one"]
    assert [row["event"] for row in read_jsonl(tmp_path / JOURNAL)] == ["started", "resumed", "finished"]


def test_partial_work_of_another_configuration_is_not_taken_up(tmp_path: Path) -> None:
    def stop(workspace: Workspace) -> Mapping[str, Any]:
        workspace.write_text("stale", "old")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_stage(stage_in(tmp_path), stop)

    def fresh(workspace: Workspace) -> Mapping[str, Any]:
        assert not workspace.resumed
        assert not workspace.exists("stale")
        return {}

    run_stage(stage_in(tmp_path, n=5), fresh)


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.docx").write_text("precious")
    with pytest.raises(FewcapError, match=r"thesis\.docx"):
        run_stage(stage_in(tmp_path), write_numbers)
    assert (tmp_path / "thesis.docx").read_text() == "precious"


def test_names_can_not_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="leaves the folder"):
        Workspace(tmp_path / "stage", resumed=False).write_text("../escaped", "x")


def _hold(folder: Path, ready: Any, release: Any) -> None:
    def wait(workspace: Workspace) -> Mapping[str, Any]:
        ready.set()
        release.wait(30)
        return {}

    run_stage(stage_in(folder), wait)


def test_a_second_run_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, release))
    holder.start()
    try:
        assert ready.wait(30)
        with pytest.raises(FewcapError, match=rf"process {holder.pid} on .* since "):
            run_stage(stage_in(tmp_path), write_numbers)
    finally:
        release.set()
        holder.join(30)
    assert holder.exitcode == 0
    run_stage(stage_in(tmp_path), write_numbers)


def test_the_lock_of_a_killed_run_does_not_stay(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, release))
    holder.start()
    assert ready.wait(30)
    os.kill(holder.pid or 0, signal.SIGKILL)
    holder.join(30)
    assert run_stage(stage_in(tmp_path), write_numbers).counts == {"numbers": 3}


KILLED_BUILD = textwrap.dedent(
    """
    import sys, time
    from pathlib import Path
    from fewcap.core.store import Stage, run_stage

    def build(workspace):
        for number in range(40):
            name = f"parts/{number:02d}.json"
            if not workspace.exists(name):
                with workspace.file(name) as path:
                    path.write_text("x" * 2000)
                    time.sleep(0.005)
                    path.write_text(str(number) * 2000)
        return {"parts": 40}

    run_stage(Stage(Path(sys.argv[1]), "numbers", inputs={}, config={}), build)
    """
)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in {JOURNAL, ".lock"}
    }


@pytest.mark.slow
def test_killed_at_any_moment_the_result_is_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_BUILD]
    subprocess.run([*command, str(tmp_path / "calm")], check=True)
    disturbed = tmp_path / "disturbed"
    kills = 0
    for delay in (0.05, 0.11, 0.17, 0.23, 0.31):
        process = subprocess.Popen([*command, str(disturbed)])
        deadline = time.monotonic() + 20
        while not (disturbed / "partial.json").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(delay)
        if process.poll() is None:
            process.kill()
            kills += 1
        process.wait()
        if (disturbed / MANIFEST).exists():
            break
    subprocess.run([*command, str(disturbed)], check=True)
    assert kills >= 2
    assert contents(disturbed) == contents(tmp_path / "calm")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a small file system can not be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_and_nothing_half_written_is_taken_for_whole(small_disk: Path) -> None:
    def too_much(workspace: Workspace) -> Mapping[str, Any]:
        workspace.write_text("small", "fits")
        workspace.write_bytes("large", b"x" * 1_000_000)
        return {}

    stage = stage_in(small_disk / "out")
    with pytest.raises(FewcapError, match="disk is full"):
        run_stage(stage, too_much)
    assert stage.current() is None
    assert not (small_disk / "out" / "large").exists()
    assert run_stage(stage, lambda workspace: {"small": int(workspace.exists("small"))}).counts == {"small": 1}


def test_a_read_only_folder_is_said(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(FewcapError, match="read-only"):
        run_stage(stage_in(small_disk / "out"), write_numbers)


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FewcapError, match="a file stands where a folder is needed"):
        run_stage(stage_in(tmp_path / "file"), write_numbers)
    with pytest.raises(FewcapError, match="a file stands where a folder is needed"):
        run_stage(stage_in(tmp_path / "file" / "out"), write_numbers)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=6))
def test_fingerprints_ignore_the_order_of_keys(content: dict[str, Any]) -> None:
    assert fingerprint(content) == fingerprint(dict(reversed(list(content.items()))))


def test_broken_files_are_named_with_their_line(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1}\n\n{"a": \n')
    with pytest.raises(FewcapError, match=r"rows\.jsonl, line 3"):
        read_jsonl(rows)
    rows.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(FewcapError, match="not UTF-8"):
        read_jsonl(rows)
    with pytest.raises(FewcapError, match="no such file"):
        read_json(tmp_path / "none.json")
    (tmp_path / MANIFEST).write_text(json.dumps({"name": "not ours"}))
    with pytest.raises(FewcapError, match="not a manifest"):
        Manifest.read(tmp_path)
