"""The command `log`: the logs of one run -> rows of the table of raw repetitions.

    python -m dlperf.analysis log --source dllogger --log rank0.log --warmup 20 --measured 100 \\
        --case workload=resnet50 precision=amp nodes=1 devices_per_node=8 batch_size=256 \\
               data=imagenet --out rows.csv
"""

import argparse
import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlperf.analysis.logs import SOURCES, load
from dlperf.analysis.logs.case import Case, check, names, parse
from dlperf.analysis.logs.entries import Read
from dlperf.analysis.logs.entries import read as read_entries
from dlperf.analysis.logs.estimate import estimates
from dlperf.analysis.logs.lines import read as read_lines
from dlperf.analysis.logs.window import Asked, Window, skipped, stall, windows
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract.files import write

Row = dict[str, str]


def add_options(command: argparse.ArgumentParser) -> None:
    """The command line of `log`."""
    command.description = __doc__
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = "sources:\n" + "\n".join(
        f"  {name:<10} {load(name).title}" for name in SOURCES
    )
    add = command.add_argument
    add("--source", required=True, choices=list(SOURCES), help="whose lines the log has")
    add(
        "--log", required=True, nargs="+", type=Path, help="the logs of one run: one, or one a rank"
    )
    add("--case", required=True, nargs="+", metavar="KEY=VALUE", help="what the run was of")
    add("--warmup", required=True, type=int, help="steps before the window")
    add("--measured", required=True, type=int, help="steps in the window")
    add("--epoch", type=int, help="whose steps count, as the log calls it (default: its first)")
    add("--run", default="", help="which run of a log that was started again: 1, 2, … or last")
    add("--global-batch-size", type=int, help="where it is not batch_size x devices")
    add("--out", required=True, type=Path, help="the table (CSV)")
    add("--append", action="store_true", help="add to the table instead of writing it anew")


def run(asked: argparse.Namespace) -> list[str]:
    """Write the rows of a run; the lines to print, one a row."""
    case = parse(asked.case, asked.global_batch_size)
    window = _window(asked)
    source = load(asked.source)
    logs = [read_lines(path) for path in asked.log]
    for number, log in enumerate(logs):
        if log.sha256 in [each.sha256 for each in logs[:number]]:
            raise AnalysisError(
                f"{log.path}: has the contents of another --log: a rank counts once"
            )
    reads = [read_entries(log, source) for log in logs]
    found = windows(reads, window, case.values["nodes"], case.devices)
    unsaid = check(case, reads, found)
    rows = _rows(case, reads, found, window, unsaid)
    _write(asked.out, list(rows[0]), rows, asked.append)
    return [f"{row['estimator']}: {row['value']} {row['unit']} ({row['note']})" for row in rows]


def _window(asked: argparse.Namespace) -> Asked:
    if asked.warmup < 0:
        raise AnalysisError(f"--warmup {asked.warmup}: must be at least 0")
    if asked.measured < 1:
        raise AnalysisError(f"--measured {asked.measured}: must be at least 1")
    if asked.global_batch_size is not None and asked.global_batch_size < 1:
        raise AnalysisError(f"--global-batch-size {asked.global_batch_size}: must be at least 1")
    if not re.fullmatch(r"(last|[1-9]\d{0,6})?", asked.run):
        raise AnalysisError(f"--run {asked.run}: must be a number from 1, or last")
    return Asked(asked.warmup, asked.measured, asked.run, asked.epoch)


def _rows(
    case: Case,
    reads: Sequence[Read],
    found: Sequence[Window],
    window: Asked,
    unsaid: Sequence[str],
) -> list[Row]:
    form = reads[0].form
    given = {
        **case.values,
        "framework": case.values["framework"] or form.framework,
        "implementation": case.values["implementation"] or form.implementation,
    }
    source = "; ".join(f"{read.log.path.name} sha256:{read.log.sha256}" for read in reads)
    said = _said(reads, found, window)
    if unsaid:
        said += f"; the log does not say: {', '.join(unsaid)}"
    rows = []
    for estimate in estimates(found, case, window.measured):
        values: dict[str, Any] = {
            **{key: given[key] for key in names(())},
            "repetition": given["repetition"],
            "metric": "throughput",
            "value": f"{estimate.value:.6g}",
            "unit": case.unit,
            "estimator": estimate.estimator,
            "source": source,
            "note": f"{said}; {estimate.note}",
            **case.dimensions,
        }
        rows.append({key: str(value) for key, value in values.items()})
    return rows


def _said(reads: Sequence[Read], found: Sequence[Window], window: Asked) -> str:
    """What a reader of the table must know of the window."""
    said = f"steps {window.warmup} to {window.end}"
    if window.epoch is not None:
        said += f" of epoch {window.epoch}"
    if window.run:
        said += f", run {window.run}"
    lost = sum(
        not math.isfinite(entry.number_of("loss") or 0.0)
        for each in found
        for entry in each.entries
    )
    if lost:
        said += f"; the loss is no number in {lost} lines"
    if reads[0].form.note:
        said += f"; {reads[0].form.note}"
    if skips := skipped(found[0]):
        said += f"; {skips}"
    if len(found) > 1:
        said += f"; {len(found)} ranks"
    if stalls := [each for each in map(stall, found) if each]:
        said += f"; {stalls[0]}"
    return said


def _write(path: Path, columns: list[str], rows: Sequence[Row], append: bool) -> None:
    before: list[Row] = []
    if append and path.exists():
        try:
            reader = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise AnalysisError(f"{path}: cannot be read: {error}") from None
        before = list(reader)
        if list(reader.fieldnames or ()) != columns:
            raise AnalysisError(
                f"{path}: has other columns than these rows (another workload?): give another --out"
            )
        _not_twice(path, before, rows[0])
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*before, *rows])
    write(path, text.getvalue().encode())


def _not_twice(path: Path, before: Sequence[Row], row: Row) -> None:
    """A log, or a repetition of a case, stands in a table once."""
    same = [key for key in row if key not in ("value", "estimator", "source", "note", "unit")]
    for number, each in enumerate(before, start=2):
        if each["source"] == row["source"]:
            raise AnalysisError(f"{path}: line {number} is of this log already")
        if all(each[key] == row[key] for key in same):
            raise AnalysisError(
                f"{path}: line {number} is this repetition of this case already: "
                f"repetition={row['repetition']} [--case repetition=…]"
            )
