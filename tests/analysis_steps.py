"""The analysis of a round on disk, a step a command, as the workflow's rules call it."""

from collections.abc import Mapping
from pathlib import Path

from dlperf.plan.peaks import PEAKS


def merging(results: Path) -> list[str]:
    """The arguments of `python -m dlperf.analysis` that merge the round."""
    options = {
        "config": results / "config.yaml",
        "runs": results / "runs",
        "shared": results.parent,
        "measurements": results / "measurements.tsv.gz",
        "parity": results / "parity.tsv",
        "certificates": results / "certificates.tsv",
        "sums": results / "SHA256SUMS",
    }
    return _spelled("merge", options)


def limiting(results: Path) -> list[str]:
    """The arguments of `python -m dlperf.analysis` that write the round's limits."""
    options = {
        "config": results / "config.yaml",
        "measurements": results / "measurements.tsv.gz",
        "nodes": results / "nodes",
        "peaks": PEAKS,
        "out": results / "limits.tsv",
    }
    return _spelled("limits", options)


def summarising(results: Path) -> list[str]:
    """The arguments of `python -m dlperf.analysis` that make cells of what was merged."""
    options = {
        "measurements": results / "measurements.tsv.gz",
        "certificates": results / "certificates.tsv",
        "limits": results / "limits.tsv",
        "out": results / "cells.tsv",
    }
    return _spelled("cells", options)


def listing(results: Path) -> list[str]:
    """The arguments of `python -m dlperf.analysis` that write tables.md."""
    options = {
        "cells": results / "cells.tsv",
        "measurements": results / "measurements.tsv.gz",
        "out": results / "tables.md",
    }
    return _spelled("markdown", options)


def _spelled(command: str, options: Mapping[str, Path]) -> list[str]:
    return [command, *(text for key, path in options.items() for text in (f"--{key}", str(path)))]
