"""The analysis, one step a command.

    python -m dlperf.analysis merge  --config C --runs DIR --shared DIR \\
                                     --measurements OUT --parity OUT --certificates OUT \\
                                     --sums OUT [--latencies OUT] [--curves OUT] \\
                                     [--searches OUT]
    python -m dlperf.analysis limits --config C --measurements IN --nodes DIR --peaks IN --out OUT
    python -m dlperf.analysis cells  --measurements IN --certificates IN [--limits IN] --out OUT
    python -m dlperf.analysis roofline --cells IN --measurements IN --limits IN --out OUT
    python -m dlperf.analysis table  --cells IN --table ID --tsv OUT --md OUT --html OUT
    python -m dlperf.analysis markdown --cells IN --measurements IN --out OUT
    python -m dlperf.analysis figure --cells IN --figure ID [--svg OUT] [--png OUT] [--pdf OUT]
    python -m dlperf.analysis report --config C --round DIR --shared DIR --out OUT
    python -m dlperf.analysis certificates --config C --shared DIR
    python -m dlperf.analysis nodes  --folder DIR
    python -m dlperf.analysis import --config C --out DIR
    python -m dlperf.analysis values --config C --runs DIR --out OUT
    python -m dlperf.analysis replay --round DIR --published DIR
    python -m dlperf.analysis speedups --published DIR --out DIR
    python -m dlperf.analysis log    --source NAME --log FILE… --case KEY=VALUE… --warmup N \\
                                     --measured N --out CSV
    python -m dlperf.analysis audit  --round DIR|ARCHIVE --out OUT [--sha256 PUBLISHED] \\
                                     [--allow-other-versions]
    python -m dlperf.analysis archive --round DIR --out OUT
    python -m dlperf.analysis compare --baseline DIR --round DIR [--tolerance SHARE] \\
                                     [--metric NAME] --out-tsv OUT --out-html OUT
    python -m dlperf.analysis verdict --tsv TSV --html HTML

A mistake of the user ends with one message and the exit status 1. `compare` and `verdict` end with
3 where a cell is broken or slower than in the baseline for sure, else with 0.
"""

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract import storage, terminal

# Each command imports its own module: a figure must not wait for what the report needs.


def _merge(asked: argparse.Namespace) -> None:
    from dlperf.analysis.round.merge import merge

    made = asked.measurements, asked.parity, asked.certificates, asked.sums
    more = {name: getattr(asked, name) for name in ("latencies", "curves", "searches")}
    left_out = merge(asked.config, asked.runs, asked.shared, *made, **more)
    for path in left_out:
        print(f"{path}: not a repetition of this round's plan; left out", file=sys.stderr)


def _limits(asked: argparse.Namespace) -> None:
    from dlperf.analysis.round.calibration.limits import limits

    limits(asked.config, asked.measurements, asked.nodes, asked.peaks, asked.out)


def _cells(asked: argparse.Namespace) -> None:
    from dlperf.analysis.round.cells import cells

    cells(asked.measurements, asked.certificates, asked.limits, asked.out)


def _roofline(asked: argparse.Namespace) -> None:
    from dlperf.analysis.round.distances import distances

    distances(asked.cells, asked.measurements, asked.limits, asked.out)


def _table(asked: argparse.Namespace) -> None:
    from dlperf.analysis.report.tables import table

    table(asked.cells, asked.table, asked.tsv, asked.md, asked.html)


def _markdown(asked: argparse.Namespace) -> None:
    from dlperf.analysis.report.markdown import markdown

    markdown(asked.cells, asked.measurements, asked.out)


def _figure(asked: argparse.Namespace) -> None:
    from dlperf.analysis.report.figures import KINDS, figure

    files = {kind: path for kind in KINDS if (path := getattr(asked, kind))}
    if not files:
        options = ", ".join(f"--{kind}" for kind in KINDS)
        raise AnalysisError(f"no file to draw {asked.figure} into: give one or more of {options}")
    figure(asked.cells, asked.figure, files)


def _report(asked: argparse.Namespace) -> None:
    from dlperf.analysis.report.page import report

    report(asked.config, asked.round, asked.shared, asked.out)


def _certificates(asked: argparse.Namespace) -> None:
    from dlperf import plan
    from dlperf.analysis.round import certificates

    config = plan.load(asked.config)
    for line in certificates.lines(certificates.read(config, plan.expand(config), asked.shared)):
        print(line)


def _nodes(asked: argparse.Namespace) -> None:
    from dlperf.analysis.round.calibration import nodes

    print(nodes.show(nodes.rows(asked.folder.glob("*.json"))))


def _import(asked: argparse.Namespace) -> None:
    from dlperf.analysis.publications.records import write_round

    print(f"{asked.out}: {write_round(asked.config, asked.out)} records")


def _values(asked: argparse.Namespace) -> None:
    from dlperf.analysis.publications.records import write_values

    write_values(asked.config, asked.runs, asked.out)


def _replay(asked: argparse.Namespace) -> None:
    from dlperf.analysis.report.replay import replay

    replay(asked.round, asked.published)


def _speedups(asked: argparse.Namespace) -> None:
    from dlperf.analysis.publications.speedups import speedups

    print(speedups(asked.published, asked.out))


def _audit(asked: argparse.Namespace) -> None:
    from dlperf.analysis.audit.recompute import Expected, audit

    audit(asked.round, asked.out, Expected(asked.sha256, asked.allow_other_versions))


def _archive(asked: argparse.Namespace) -> None:
    from dlperf.analysis.audit.archive import archive

    for line in archive(asked.round, asked.out):
        print(line)


def _compare(asked: argparse.Namespace) -> int:
    from dlperf.analysis.compare.comparison import compare

    files = asked.out_tsv, asked.out_html
    compare(asked.baseline, asked.round, *files, asked.tolerance, asked.metric)
    return _show_verdict(asked.out_tsv, asked.out_html)


def _verdict(asked: argparse.Namespace) -> int:
    return _show_verdict(asked.tsv, asked.html)


def _show_verdict(tsv: Path, html: Path) -> int:
    from dlperf.analysis.compare.comparison import show

    lines, bad = show(tsv, html)
    print("\n".join(lines))
    return 3 if bad else 0


#: Options that may be left out. An imported round has no limits: nothing of it was probed. Not
#: every round has latencies, curves or searches. A figure is drawn in the kinds that are named.
DEFAULTS = {
    "tolerance": 0.02,
    "limits": None,
    "latencies": None,
    "curves": None,
    "searches": None,
    "svg": None,
    "png": None,
    "pdf": None,
    "metric": "",
    "sha256": "",
}
COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int | None], dict[str, type]]] = {
    "merge": (
        _merge,
        {
            "config": Path,
            "runs": Path,
            "shared": Path,
            "measurements": Path,
            "parity": Path,
            "certificates": Path,
            "sums": Path,
            "latencies": Path,
            "curves": Path,
            "searches": Path,
        },
    ),
    "limits": (
        _limits,
        {"config": Path, "measurements": Path, "nodes": Path, "peaks": Path, "out": Path},
    ),
    "cells": (
        _cells,
        {"measurements": Path, "certificates": Path, "limits": Path, "out": Path},
    ),
    "roofline": (
        _roofline,
        {"cells": Path, "measurements": Path, "limits": Path, "out": Path},
    ),
    "table": (_table, {"cells": Path, "table": str, "tsv": Path, "md": Path, "html": Path}),
    "markdown": (_markdown, {"cells": Path, "measurements": Path, "out": Path}),
    "figure": (_figure, {"cells": Path, "figure": str, "svg": Path, "png": Path, "pdf": Path}),
    "report": (_report, {"config": Path, "round": Path, "shared": Path, "out": Path}),
    "certificates": (_certificates, {"config": Path, "shared": Path}),
    "nodes": (_nodes, {"folder": Path}),
    "import": (_import, {"config": Path, "out": Path}),
    "values": (_values, {"config": Path, "runs": Path, "out": Path}),
    "replay": (_replay, {"round": Path, "published": Path}),
    "speedups": (_speedups, {"published": Path, "out": Path}),
    "audit": (
        _audit,
        {"round": Path, "out": Path, "sha256": str, "allow-other-versions": bool},
    ),
    "archive": (_archive, {"round": Path, "out": Path}),
    "compare": (
        _compare,
        {
            "baseline": Path,
            "round": Path,
            "out-tsv": Path,
            "out-html": Path,
            "tolerance": float,
            "metric": str,
        },
    ),
    "verdict": (_verdict, {"tsv": Path, "html": Path}),
}


def _log(asked: argparse.Namespace) -> None:
    from dlperf.analysis.logs import command

    for line in command.run(asked):
        print(line)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.analysis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, options) in COMMANDS.items():
        command = commands.add_parser(name)
        for option, kind in options.items():
            if kind is bool:
                command.add_argument(f"--{option}", action="store_true")
                continue
            command.add_argument(
                f"--{option}",
                type=kind,
                required=option not in DEFAULTS,
                default=DEFAULTS.get(option),
            )
    log = commands.add_parser("log")
    if "log" in (sys.argv if arguments is None else arguments):  # its options know all sources
        from dlperf.analysis.logs.command import add_options

        add_options(log)
    asked = parser.parse_args(arguments)
    run = _log if asked.command == "log" else COMMANDS[asked.command][0]
    try:
        return run(asked) or 0
    except Exception as error:
        from dlperf.plan import ConfigError  # only now: a figure needs nothing of the plan

        if isinstance(error, OSError) and error.errno:
            error = AnalysisError(storage.message(error, getattr(asked, "out", "")))
        if not isinstance(error, AnalysisError | ConfigError):
            raise
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    terminal.as_utf8()
    gc.disable()  # rows by the hundred thousand hold no cycles, and looking for some takes its time
    sys.exit(main())
