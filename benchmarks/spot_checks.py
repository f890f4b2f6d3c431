"""How much of each spot check's tolerance do honest implementations use, whatever is drawn?

    .venv/bin/python benchmarks/spot_checks.py --workload wide_deep --draws 10

Makes the spot runs of a round's cases and their replays, by the workflow's own rules, once for each
draw, in results/spot-checks-<number>/. What is there already is kept, so the same command resumes,
and more `--draws` go on. Prints for each workload, framework and precision how many checks there
were, how many did not pass, and the tier that came nearest to its tolerance; writes every tier to
results/benchmarks/spot-checks.tsv.

Every second draw is made in another locale and time zone than this shell's. Nothing is timed, so
the machine may be busy.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from common import ROOT, write

from dlperf import plan, workloads
from dlperf.analysis.round import checks
from dlperf.contract import draws
from dlperf.plan.checked import unchecked

#: Of every second draw: a comma in numbers, where the system has the locale, and half an hour off.
ELSEWHERE = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Kolkata"}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=10, help="how many (default: 10)")
    parser.add_argument("--workload", nargs="+", choices=workloads.NAMES, default=workloads.NAMES)
    parser.add_argument("--scenario", nargs="+", help="such as train (default: all of the round)")
    parser.add_argument("--precision", nargs="+", help="such as amp (default: all of the round)")
    parser.add_argument("--topology", nargs="+", help="such as 1n2d (default: all of the round)")
    parser.add_argument(
        "--round",
        type=Path,
        default=ROOT / "config/rounds/laptop-full.yaml",
        help="a config (default: config/rounds/laptop-full.yaml)",
    )
    asked = parser.parse_args()
    config = plan.load(asked.round)
    cases = [case for case in plan.expand(config) if is_asked(asked, config, case)]
    if not cases:
        parser.error(f"{asked.round}: no case that is asked for has a spot check")
    rows = []
    for number in range(1, asked.draws + 1):
        make(asked, number, cases)
        rows += read(asked, number, cases)
    write("spot-checks", rows)
    show(rows, {case.name: case.precision for case in cases})


def is_asked(asked, config, case):
    """Whether it was asked for and has a spot check."""
    return (
        case.workload in asked.workload
        and case.scenario in (asked.scenario or [case.scenario])
        and case.precision in (asked.precision or [case.precision])
        and str(case.topology) in (asked.topology or [str(case.topology)])
        and not unchecked(config, case)
    )


def round_of(number):
    return f"spot-checks-{number}"


def make(asked, number, cases):
    """All replays of a draw, and so its spot runs."""
    folder = f"results/{round_of(number)}"
    targets = {f"{folder}/{draws.replay_of(case)}" for case in cases}
    command = [
        *(sys.executable, "-m", "snakemake", "--profile", "local", "--quiet", "all"),
        *("--configfile", str(asked.round), "--config", f"round={round_of(number)}"),
        *("--", *sorted(targets)),
    ]
    environ = {**os.environ, **(ELSEWHERE if number % 2 == 0 else {})}
    done = subprocess.run(command, cwd=ROOT, env=environ, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")
    print(f"draw {number}: {len(targets)} replays", flush=True)


def read(asked, number, cases):
    """A row a tier of each check; a check without tiers has one row, with its reason."""
    config = plan.load(asked.round).model_copy(update={"round": round_of(number)})
    for row in checks.read(config, cases, ROOT / "results" / round_of(number)):
        yield {"draw": number, **row}


def share(row):
    """The share of its tolerance that a tier used; of a check that has none, all of it."""
    if row.get("measured") is None:
        return float("inf")
    if not row["tolerance"]:
        return float(row["measured"] > 0)
    return row["measured"] / row["tolerance"]


def show(rows, precisions):
    found = {}
    for row in rows:
        names = row["workload"], row["framework"], precisions[row["case"]]
        found.setdefault(names, []).append(row)
    print("\n| workload | framework | precision | checks | not passed | worst tier | share | in |")
    print("|---|---|---|---:|---:|---|---:|---|")
    for names, own in found.items():
        made = {(row["draw"], row["case"]): row["status"] for row in own}
        refused = sum(status != checks.PASSED for status in made.values())
        worst = max(own, key=share)
        print(
            f"| {' | '.join(names)} | {len(made)} | {refused} | "
            f"{worst.get('tier') or worst.get('reason')} | {share(worst):.2f} | "
            f"{worst['case']}, draw {worst['draw']} |"
        )


if __name__ == "__main__":
    main()
