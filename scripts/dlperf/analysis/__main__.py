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
    python -m dlperf.analysis figures --config C --cells IN [--only OUT…]
    python -m dlperf.analysis beside --config C --cells IN --measurements IN --parity IN \\
                                     --shared DIR --others DIR --out OUT
    python -m dlperf.analysis beside-figure --config C --beside IN --shared DIR --others DIR \\
                                     --other NAME [--svg OUT] [--png OUT] [--pdf OUT]
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
from collections.abc import Sequence
from typing import Any

from dlperf.analysis import steps
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract import storage, terminal


def _log(asked: argparse.Namespace) -> list[str]:
    from dlperf.analysis.logs import command

    return command.run(asked)


def _tell(command: str, told: Any) -> int:
    """Print what a step returned, where it is lines; returns the exit status."""
    if isinstance(told, int):
        return told
    if command == steps.MERGE.name:
        for path in told:
            print(f"{path}: not a repetition of this round's plan; left out", file=sys.stderr)
        return 0
    for line in told or ():
        print(line)
    return 0


def _add_options(command: argparse.ArgumentParser, step: steps.Step) -> None:
    for option in step.options:
        if not option.given:
            continue
        if option.kind is bool:
            command.add_argument(f"--{option.name}", action="store_true")
            continue
        command.add_argument(
            f"--{option.name}",
            type=option.kind,
            required=not option.may_lack,
            default=option.default,
            nargs="+" if option.several else None,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.analysis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, step in steps.STEPS.items():
        _add_options(commands.add_parser(name), step)
    log = commands.add_parser("log")
    if "log" in (sys.argv if arguments is None else arguments):  # its options know all sources
        from dlperf.analysis.logs.command import add_options

        add_options(log)
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "log":
            return _tell("log", _log(asked))
        return _tell(asked.command, steps.STEPS[asked.command].run(vars(asked)))
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
