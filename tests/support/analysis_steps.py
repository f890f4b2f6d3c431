"""The analysis of a round on disk, a step a command, as the workflow's rules call it.

Each function returns the arguments of `python -m dlperf.analysis` for the round in `results`;
`show` and `everything` run them.
"""

from pathlib import Path

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.round import names

#: What a step reads or writes under the name of its option, in the round's folder.
FILES = {
    "config": "config.yaml",
    "runs": "runs",
    "nodes": "nodes",
    "peaks": "peaks.yaml",
    "measurements": "measurements.tsv.gz",
    "parity": "parity.tsv",
    "certificates": "certificates.tsv",
    "sums": "SHA256SUMS",
    "latencies": names.LATENCIES,
    "curves": names.CURVES,
    "searches": "searches.tsv",
    "limits": "limits.tsv",
    "cells": "cells.tsv",
}


def merging(results: Path) -> list[str]:
    own: tuple[str, ...] = ("config", "runs", "measurements", "parity", "certificates", "sums")
    own += ("latencies",) if names.have_latencies(_cases(results)) else ()
    own += ("curves",) if names.have_curves(_cases(results)) else ()
    own += ("searches",) if (results / "searches").exists() else ()
    return _step("merge", results, own, shared=results.parent)


def limiting(results: Path) -> list[str]:
    own = ("config", "measurements", "nodes", "peaks")
    return _step("limits", results, own, out=results / "limits.tsv")


def summarising(results: Path) -> list[str]:
    own = ("measurements", "certificates", "limits")
    return _step("cells", results, own, out=results / "cells.tsv")


def bounding(results: Path) -> list[str]:
    own = ("cells", "measurements", "limits")
    return _step("roofline", results, own, out=results / "roofline.tsv")


def listing(results: Path) -> list[str]:
    return _step("markdown", results, ("cells", "measurements"), out=results / "tables.md")


def reporting(results: Path) -> list[str]:
    places = {"round": results, "out": results / "report.html"}
    return _step("report", results, ("config",), shared=results.parent, **places)


def everything(results: Path) -> None:
    """From records to the report, as the workflow does."""
    for step in (merging, limiting, summarising, bounding):
        assert main(step(results)) == 0
    show(results)


def show(results: Path) -> None:
    """From cells to the report."""
    cases = _cases(results)
    for name in names.table_ids(cases):
        assert main(shown("table", results, name)) == 0
    for name in names.figure_ids(cases):
        assert main(shown("figure", results, name)) == 0
    assert main(listing(results)) == 0
    assert main(reporting(results)) == 0


def _cases(results: Path) -> list[plan.Case]:
    """Those of the round; none of a config that is wrong, which the step itself must say."""
    try:
        return plan.expand(plan.load(results / "config.yaml"))
    except plan.ConfigError:
        return []


def shown(what: str, results: Path, name: str) -> list[str]:
    """One table or figure."""
    kinds = {"table": ("tsv", "md", "html"), "figure": ("svg", "png")}[what]
    files = {kind: results / f"{what}s" / f"{name}.{kind}" for kind in kinds}
    return [*_step(what, results, ("cells",), **files), f"--{what}", name]


def _step(command: str, results: Path, own: tuple[str, ...], **others: Path) -> list[str]:
    options = {key: results / FILES[key] for key in own} | others
    return [command, *(text for key, path in options.items() for text in (f"--{key}", str(path)))]
