"""Records say which commit of the code made them."""

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
