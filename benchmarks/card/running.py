"""Starts what benchmarks/first_gpu.py runs, within the time that all of it has.

In: a Python's arguments, and the options of first_gpu.py, whose `time` is a Minutes. Out: exit
status and last line, and nothing that still runs.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from card.cases import PACKAGES
from dlperf.measure import by_hand

BENCHMARKS = Path(__file__).resolve().parent.parent
ROOT = BENCHMARKS.parent
#: Less than this is not enough for anything to begin.
LEAST_SECONDS = 5
#: What is cut off has so long to end what it started.
GRACE_SECONDS = 10


class Minutes:
    """What is left of the time that the whole list has; without a limit for 0."""

    def __init__(self, minutes):
        self.minutes, self._end = minutes, time.monotonic() + 60 * minutes

    def left(self):
        return self._end - time.monotonic() if self.minutes else float("inf")

    @property
    def said(self):
        return f"not reached: {self.minutes:g} minutes are over"

    def are_over(self):
        return self.left() < LEAST_SECONDS


def run(command, limit, asked):
    """A Python's end, run from the root: (exit status, last line) after at most `limit` seconds.

    What takes longer, or than is left, is told to end, so that it ends its own ranks: they would
    hold the card.
    """
    environ = dict(os.environ)
    own = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "scripts"), own)))
    left = asked.time.left()
    child = subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = child.communicate(timeout=max(1.0, min(limit, left)))
    except subprocess.TimeoutExpired:
        end(child)
        if left < limit:
            return 124, f"cut off: {asked.time.minutes:g} minutes are over"
        return 124, f"not done after {limit} s"
    except BaseException:  # Ctrl-C
        end(child)
        raise
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return child.returncode, lines[-1] if lines else ""


def end(child):
    """End a process and its group: by SIGTERM, and after a while by SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            child.communicate(timeout=GRACE_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def lacks(framework):
    """Why there is nothing of a framework, or ""."""
    package = PACKAGES[framework]
    return "" if importlib.util.find_spec(package) else f"no {package} in this Python"


def steps(values, out, options, limit, asked):
    """(what steps.py wrote of a case, "" or why it wrote nothing)."""
    reason = lacks(values["framework"])
    if reason:
        return {}, reason
    try:
        document = by_hand.document(values)
    except by_hand.Mistake as mistake:
        return {}, f"unsupported: {mistake}"
    (out / "steps.json").unlink(missing_ok=True)
    command = [BENCHMARKS / "card/steps.py", "--case", json.dumps(document), "--out", out]
    status, last = run([*command, *options], limit, asked)
    found = read(out / "steps.json")
    return (found, "") if not status and found else ({}, f"no steps: {last}")


def read(path):
    """A document, {} where there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
