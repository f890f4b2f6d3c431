"""Seconds and memory that the analysis of a large round takes: records to tables and figures.

    .venv/bin/python benchmarks/analysis.py [--records 100000] [--folder results/benchmarks/large]

Makes a round up (tests/support/generated_round.py), then runs the workflow's own commands: merge,
limits, cells, every table (as many at a time as there are cores), all figures. Prints seconds, CPU
seconds and peak memory a step, beside the limits: 60 s and 2 GiB for 100,000 records on 2 cores.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from common import ROOT, write

sys.path.insert(0, str(ROOT / "tests/support"))

from analysis_steps import limiting, merging, shown, summarising
from generated_round import config, write_round

from dlperf import plan
from dlperf.analysis import steps
from dlperf.analysis.round import names

SECONDS, MIB = 60, 2048
FRAMEWORKS = ["pytorch", "tensorflow", "tensorflow1", "mxnet", "paddlepaddle", "oneflow", "jax"]
TOPOLOGIES = ["1n1d", "1n2d", "1n4d", "1n8d", "2n8d", "4n8d"]
TABLES = 12  # the published matrix has 6


def large(records):
    """A config of so many records or a few less, in TABLES tables of all frameworks."""
    cases = TABLES * len(FRAMEWORKS) * len(TOPOLOGIES)
    return config(
        frameworks=FRAMEWORKS,
        topologies=TOPOLOGIES,
        resnet50_batch_sizes={"fp32": list(range(1, TABLES + 1))},
        repetitions=max(1, records // cases),
    )


def run(commands):
    """Run these, as many at a time as there are cores: (wall seconds, CPU seconds, peak MiB).

    Memory is that of all processes together, sampled twice a second; pages that processes share are
    counted for each of them.
    """
    me, peak, done = psutil.Process(), 0, threading.Event()

    def watch():
        nonlocal peak
        while not done.wait(0.5):  # a look at all processes takes its own time
            now = 0
            for child in me.children(recursive=True):
                try:
                    now += child.memory_info().rss
                except psutil.Error:  # it has ended
                    continue
            peak = max(peak, now)

    environment = dict(os.environ, PYTHONPATH=str(ROOT / "scripts"))
    python = [sys.executable, "-m", "dlperf.analysis"]
    start, before = time.perf_counter(), os.times()
    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        calls = [
            pool.submit(subprocess.run, [*python, *each], env=environment) for each in commands
        ]
        failed = [call for call in calls if call.result().returncode]
    wall, after = time.perf_counter() - start, os.times()
    done.set()
    watcher.join()
    if failed:
        sys.exit(f"error: {len(failed)} of {len(commands)} commands failed")
    spent = sum(after[2:4]) - sum(before[2:4])
    return wall, spent, peak / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=ROOT / "results/benchmarks/large")
    asked = parser.parse_args()
    mapping = large(asked.records)
    cases = plan.expand(plan.load(mapping))
    count = len(cases) * mapping["repetitions"]
    results = asked.folder / str(count) / "results" / mapping["round"]
    if not results.exists():
        print(f"making {count} records in {results}", flush=True)
        write_round(asked.folder / str(count), mapping)
    made = {
        "merge": [merging(results)],
        "limits": [limiting(results)],
        "cells": [summarising(results)],
        "tables": [shown("table", results, name) for name in names.table_ids(cases)],
        "figures": [steps.FIGURES.arguments(results, cases, {"only": None})],
    }
    rows = []
    for step, commands in made.items():
        wall, spent, memory = run(commands)
        rows.append(
            (f"{step} ({len(commands)})" if len(commands) > 1 else step, wall, spent, memory)
        )
    total = [sum(row[1] for row in rows), sum(row[2] for row in rows), max(row[3] for row in rows)]
    rows.append(("all", *total))
    print(f"{count} records, {len(cases)} cells; load {os.getloadavg()[0]:.1f}")
    for step, wall, spent, memory in rows:
        print(f"{step:14} {wall:7.1f} s  {spent:7.1f} CPU s  {memory:6.0f} MiB")
    fits = count < 90_000 or (total[0] <= SECONDS and total[2] <= MIB)
    print(f"limit for 100,000 records: {SECONDS} s, {MIB} MiB: {'kept' if fits else 'NOT kept'}")
    keys = ("step", "seconds", "cpu_seconds", "peak_mib")
    kept = [
        {
            "records": count,
            **dict(zip(keys, (row[0], *(round(x, 1) for x in row[1:])), strict=True)),
        }
        for row in rows
    ]
    print(write("analysis", kept, ("records", "step")))


if __name__ == "__main__":
    main()
