"""The analysis of a round on disk, a step a command, as the workflow's rules call it.

Each function returns the arguments of `python -m dlperf.analysis` for the round in `results`.
"""

from pathlib import Path

from dlperf.plan.peaks import PEAKS

#: What a step reads or writes under the name of its option, in the round's folder.
FILES = {
    "config": "config.yaml",
    "runs": "runs",
    "nodes": "nodes",
    "measurements": "measurements.tsv.gz",
    "parity": "parity.tsv",
    "certificates": "certificates.tsv",
    "sums": "SHA256SUMS",
    "limits": "limits.tsv",
    "cells": "cells.tsv",
}


def merging(results: Path) -> list[str]:
    own = ("config", "runs", "measurements", "parity", "certificates", "sums")
    return _step("merge", results, own, shared=results.parent)


def limiting(results: Path) -> list[str]:
    own = ("config", "measurements", "nodes")
    return _step("limits", results, own, peaks=PEAKS, out=results / "limits.tsv")


def summarising(results: Path) -> list[str]:
    own = ("measurements", "certificates", "limits")
    return _step("cells", results, own, out=results / "cells.tsv")


def listing(results: Path) -> list[str]:
    return _step("markdown", results, ("cells", "measurements"), out=results / "tables.md")


def _step(command: str, results: Path, own: tuple[str, ...], **others: Path) -> list[str]:
    options = {key: results / FILES[key] for key in own} | others
    return [command, *(text for key, path in options.items() for text in (f"--{key}", str(path)))]
