"""Seconds that the workflow adds between two repetitions of one job, on a real Slurm.

    .venv/bin/python benchmarks/allocation.py [--repetitions 6]

Starts the tests' cluster (tests/slurm/cluster.py: root, and Slurm's packages), and runs
`snakemake --profile slurm` for repetitions of one case, with `groups` switched on. Between the end
of one timed window and the start of the next there is the framework's own start-up and warm-up,
which the records have; the rest is the workflow's and Snakemake's. Needs PyTorch's environment.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common
import workflow
import yaml

sys.path.insert(0, str(common.ROOT / "tests" / "slurm"))

import cluster as slurm

from dlperf import plan

SECONDS = 2
ROUND = {
    "round": "allocation",
    "device": "cpu",
    "frameworks": ["pytorch"],
    "workloads": {
        "resnet50": {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "image_size": 64}
    },
    "topologies": ["1n1d"],
    "steps": {"warmup": 2, "measured": 10},
    "timeout_seconds": 120,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=6)
    mapping = {**ROUND, "repetitions": parser.parse_args().repetitions}
    if problem := slurm.missing():
        sys.exit(f"error: {problem}")
    with tempfile.TemporaryDirectory() as scratch:
        copy = workflow.checkout(Path(scratch) / "copy")
        (copy / "results").mkdir(exist_ok=True)
        (copy / "results/environments").symlink_to(common.ROOT / "results/environments")
        (copy / "config/config.yaml").write_text(yaml.safe_dump(mapping))
        slurm.share_jobs(copy / "profiles/slurm/config.yaml")
        own = slurm.Cluster(Path(scratch) / "slurm")
        own.start()
        try:
            records = measure(copy, mapping)
        finally:
            own.stop()
    rows = [common.timed("between two windows, beyond start-up", SECONDS, between(records))]
    common.end("allocation", rows)


def measure(copy, mapping):
    """The records, in the order in which they ran."""
    (case,) = plan.expand(plan.load(mapping))
    folder = Path("results", mapping["round"], "runs", case.folder)
    names = [str(folder / f"rep{number + 1}.json") for number in range(mapping["repetitions"])]
    command = [workflow.BIN / "snakemake", "--profile", "slurm", *names]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=copy, env=environ, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"error: {done.stderr[-4000:]}")
    records = [json.loads((copy / name).read_text()) for name in names]
    wrong = [record["reason"] for record in records if record["status"] != "ok"]
    jobs = {record["provenance"]["scheduler_job"] for record in records}
    if wrong or len(jobs) != 1:
        sys.exit(f"error: jobs {sorted(jobs)}; {wrong}")
    return sorted(records, key=lambda record: record["window"][0]["start_utc"])


def between(records):
    """Seconds from each window to the next, without what the next one took to start."""
    found = [
        after["window"][0]["start_utc"]
        - before["window"][0]["end_utc"]
        - after["host"]["startup_seconds"]
        for before, after in itertools.pairwise(records)
    ]
    startup = statistics.median(record["host"]["startup_seconds"] for record in records)
    print(f"start-up of each: {startup:.1f} s; between: {', '.join(f'{x:.2f}' for x in found)} s")
    return found


if __name__ == "__main__":
    main()
