"""How long does an audit of 10,000 records take?

    python benchmarks/audit.py [--repeat 3]

Rounds of generated records, in a temporary folder, whole to the report: 10,000 records in 10 tables
with 20 figures (25 repetitions a case), and in 36 tables with 72 figures (7 a case). Wall time of
the audit of the folder, of packing it, and of the audit of the archive. Printed, and written to
results/benchmarks/audit.tsv, with the CPU time, which a busy machine disturbs less; exits 1 where
a median is beyond its limit.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import common

sys.path.insert(0, str(common.ROOT / "tests/support"))

import generated_round

from dlperf import plan
from dlperf.analysis.audit.recompute import made_again

TOPOLOGIES = ["1n1d", "1n2d", "1n4d", "2n2d", "4n2d"]
FEW = generated_round.config(
    round="few",
    repetitions=25,
    topologies=TOPOLOGIES,
    resnet50_batch_sizes={"fp32": list(range(1, 11)), "amp": [2]},
)
MANY = generated_round.config(
    round="many",
    repetitions=7,
    topologies=TOPOLOGIES,
    resnet50_batch_sizes={"fp32": list(range(1, 37)), "amp": [2]},
)
LIMIT_SECONDS = 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    rows = []
    for mapping in (FEW, MANY):
        with tempfile.TemporaryDirectory() as scratch:
            folder = whole(Path(scratch), mapping)
            cases = plan.expand(plan.load(mapping))
            records = len(cases) * mapping["repetitions"]
            tables = len(list((folder / "tables").glob("*.tsv")))
            packed = folder.with_suffix(".zip")
            for what, limit, command, where, out in (
                ("audit", LIMIT_SECONDS, "audit", folder, folder / "audit.tsv"),
                ("archive", "", "archive", folder, packed),
                ("audit of the archive", "", "audit", packed, folder / "audit.tsv"),
            ):
                seconds, busy = [], []
                for _ in range(asked.repeat):
                    start, before = time.perf_counter(), cpu_seconds()
                    run(command, "--round", where, "--out", out)
                    seconds.append(time.perf_counter() - start)
                    busy.append(cpu_seconds() - before)
                named = f"{what} of {records:,} records, {tables} tables"
                cpu = round(statistics.median(busy), 2)
                rows.append(common.timed(named, limit, seconds, cpu_seconds=cpu))
    common.end("audit", rows)


def cpu_seconds():
    """Of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def whole(root, mapping):
    """A round with everything that is made of its records: what an audit would make."""
    folder = generated_round.write_round(root, mapping)
    with ProcessPoolExecutor(1) as pool:  # its memory goes with it
        pool.submit(make, folder).result()
    return folder


def make(folder):
    list(made_again(folder, folder))


def run(*arguments):
    command = [sys.executable, "-m", "dlperf.analysis", *map(str, arguments)]
    environ = {"PYTHONPATH": str(common.ROOT / "scripts"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environ, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


if __name__ == "__main__":
    main()
