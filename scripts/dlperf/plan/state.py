"""The state of every repetition: done, missing, outdated, failed or unsupported.

The input is cases and the records in results/<round>/runs/. The output is a word for each
repetition. The folder is listed once, and only the beginning of each record is read. The workflow
asks the same functions what to measure, so it runs what the plan says.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from dlperf.contract.case import UNSAID, Case
from dlperf.plan.cases import document
from dlperf.plan.config import Config

_STATUS = re.compile(r'\s*\{\s*"schema"\s*:\s*"[^"]*"\s*,\s*"status"\s*:\s*"([a-z]+)"')
_SETTINGS = re.compile(r'"settings"\s*:\s*(?=\{)')
_RECORD = re.compile(r"rep[1-9][0-9]*\.json")


def record_path(config: Config, case: Case, repetition: int) -> str:
    """Where a repetition's record is, from the repository's root."""
    return f"results/{config.round}/runs/{case.folder}/rep{repetition}.json"


def states(
    config: Config, cases: Sequence[Case], results: Path = Path("results")
) -> dict[tuple[Case, int], str]:
    """The state of every (case, repetition): 'done', 'missing', 'failed:<status>', 'unsupported',
    or 'outdated' if the record was made with other settings than the config has now, or with other
    data than there are.
    """
    runs = results / config.round / "runs"
    found = {path.relative_to(runs).as_posix(): path for path in records(runs)}
    states = {}
    for case in cases:
        for repetition in range(1, config.repetitions + 1):
            path = found.get(f"{case.folder}/rep{repetition}.json")
            if case.unsupported:
                state = "unsupported"
            elif path:
                settings = document(case, config, repetition)["settings"]
                state = state_of_record(path, settings, results)
            else:
                state = "missing"
            states[case, repetition] = state
    return states


def state_of_record(path: Path, settings: dict[str, Any], results: Path = Path("results")) -> str:
    """The state of a repetition with a record, beside the settings that the config has now."""
    status, measured_with = read_head(path)
    known = {**UNSAID, **measured_with} if measured_with else {}
    if any(known.get(key, value) != value for key, value in {**UNSAID, **settings}.items()):
        return "outdated"
    if measured_with and _has_other_data(path, settings["data_dir"], results):
        return "outdated"
    if status == "unsupported":
        return status
    return "done" if status == "ok" else f"failed:{status}"


def _has_other_data(path: Path, data_dir: str, results: Path) -> bool:
    """Whether the data were made again since the record was, and differ: a file's time alone does
    not say so, as copying, `touch` and a wrong clock change it too."""
    if not data_dir:
        return False
    manifest = results / Path(data_dir).relative_to("results") / "manifest.json"
    try:
        if manifest.stat().st_mtime <= path.stat().st_mtime:
            return False
        there = hashlib.sha256(manifest.read_bytes()).hexdigest()
        measured = json.loads(path.read_bytes())["provenance"]["data_manifest_sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return False  # not to be compared
    return bool(there != measured)


def is_due(config: Config, state: str) -> bool:
    """Whether the next call runs a repetition in this state."""
    failed = state.startswith("failed:") and state != "failed:unreadable"
    if failed and config.on_failure == "stop":
        return True  # the round goes on when it no longer fails
    return state in ("missing", "outdated") or state.removeprefix("failed:") in config.retry


def records(runs: Path) -> Iterator[Path]:
    """The records under a round's runs/ folder, which has a folder for each case."""
    for folder, _, names in os.walk(runs):
        yield from (Path(folder, name) for name in names if _RECORD.fullmatch(name))


def read_head(path: Path) -> tuple[str, dict[str, Any]]:
    """A record's status and settings; ('unreadable', {}) if it is not a record.

    Both are near its beginning, so usually only a few hundred bytes are read.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            text = stream.read(2048)
            try:
                return _head(text)
            except ValueError:
                record = json.loads(text + stream.read())
        return str(record["status"]), record.get("settings", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "unreadable", {}


def _head(text: str) -> tuple[str, dict[str, Any]]:
    """The same from a record's first characters. Raises ValueError if they do not show it."""
    status, settings = _STATUS.match(text), _SETTINGS.search(text)
    if not (status and settings):
        raise ValueError("not the usual order of keys")
    return status[1], json.JSONDecoder().raw_decode(text, settings.end())[0]
