"""Records say which commit of the code made them, and none is lost."""

import json
import subprocess

from conftest import ROOT

from dlperf.measure import record


def test_a_repository_of_another_owner_keeps_its_commit_in_records(tmp_path, monkeypatch):
    """As in a container: git asks for `safe.directory` there, and would say nothing."""
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch for its tests
    refused = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    assert "dubious ownership" in refused.stderr
    assert record.git_commit() == head


def test_a_record_without_a_copy_is_kept_when_another_replaces_it(tmp_path):
    path, attempts = tmp_path / "runs/a/b/c/rep1.json", tmp_path / "attempts"
    first, second, third = (
        {"status": "ok", "provenance": {"start_utc": f"2026-11-25T10:0{minute}:00Z"}}
        for minute in (1, 2, 3)
    )
    record.write(first, path)  # without the workflow
    record.write(second, path, attempts)
    record.write(third, path, attempts)
    kept = sorted((attempts / "a/b/c").iterdir())
    assert [json.loads(each.read_text()) for each in kept] == [first, second, third]
    assert json.loads(path.read_text()) == third

    path.write_text("{")  # no record: nothing to keep
    record.write(third, path, attempts)
    assert len(list((attempts / "a/b/c").iterdir())) == 3
