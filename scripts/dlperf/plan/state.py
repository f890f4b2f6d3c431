"""The state of every repetition: done, missing, failed or unsupported.

In: cases, and the records that lie in results/<round>/runs/. Out: a word a repetition. Records are
looked for by one walk over the folder, and only the head of each is read.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dlperf.plan.cases import Case
from dlperf.plan.config import Config

_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:\s*"[^"]*"\s*,\s*"status"\s*:\s*"([a-z]+)"')
_RECORD = re.compile(r"rep[1-9][0-9]*\.json")


def record_path(config: Config, case: Case, repetition: int) -> str:
    """Where a repetition's record is, from the repository's root."""
    return f"results/{config.round}/runs/{case.folder}/rep{repetition}.json"


def states(
    config: Config, cases: Sequence[Case], results: Path = Path("results")
) -> dict[tuple[Case, int], str]:
    """'done', 'missing', 'failed:<status>' or 'unsupported' for every (case, repetition)."""
    runs = results / config.round / "runs"
    found = {path.relative_to(runs).as_posix(): path for path in records(runs)}
    states = {}
    for case in cases:
        for repetition in range(1, config.repetitions + 1):
            path = found.get(f"{case.folder}/rep{repetition}.json")
            if case.unsupported:
                state = "unsupported"
            else:
                state = _state(status(path)) if path else "missing"
            states[case, repetition] = state
    return states


def _state(status: str) -> str:
    if status == "unsupported":
        return status
    return "done" if status == "ok" else f"failed:{status}"


def is_due(config: Config, state: str) -> bool:
    """Whether the next call runs a repetition in this state."""
    return state == "missing" or state.removeprefix("failed:") in config.retry


def records(runs: Path) -> Iterator[Path]:
    """The records under a round's runs/ folder, one folder a case."""
    for folder, _, names in os.walk(runs):
        yield from (Path(folder, name) for name in names if _RECORD.fullmatch(name))


def status(path: Path) -> str:
    """A record's status, mostly from its first bytes; 'unreadable' where it is no record."""
    try:
        with path.open("rb") as stream:
            head = _HEAD.match(stream.read(512))
        if head:
            return head[1].decode()
        return str(json.loads(path.read_bytes())["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unreadable"
