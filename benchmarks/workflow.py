"""How long do the workflow's own parts take, without any framework?

    python benchmarks/workflow.py [--repeat 3]

Wall time of: the dry run of a round of 2,000 repetitions; the dry run of the published matrix
(config/rounds/dlperf-v1.yaml); one figure alone, when only records exist; 5,000 records to tables.
All in a copy of the repository in a temporary folder, with generated records. Printed, and written
to results/benchmarks/workflow.tsv; exits 1 where a median is beyond its limit.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import yaml

sys.path.insert(0, str(common.ROOT / "tests"))

import generated_round

from dlperf import plan
from dlperf.analysis import names

BIN = Path(sys.executable).parent
BATCH_SIZES = {"fp32": [2, 4, 8, 16, 32], "amp": [2]}
MANY = generated_round.config(round="many", repetitions=25, resnet50_batch_sizes=BATCH_SIZES)
MORE = generated_round.config(
    round="more", repetitions=125, topologies=["1n1d", "1n2d", "1n3d", "1n4d", "1n5d"]
)
LAPTOP = generated_round.CONFIG


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = checkout(Path(scratch) / "copy")
        for what, limit, prepare, act in (
            (f"dry run of {repetitions(MANY):,} repetitions", 4, nothing, dry_run_many),
            ("dry run of dlperf-v1", 4, nothing, dry_run_published),
            ("one figure from records", 5, laptop_records, one_figure),
            (f"{repetitions(MORE):,} records to tables", 10, more_records, tables),
        ):
            seconds = []
            for _ in range(asked.repeat):
                prepare(copy)
                start = time.perf_counter()
                act(copy)
                seconds.append(time.perf_counter() - start)
            row = {
                "what": what,
                "limit_seconds": limit,
                "median_seconds": round(statistics.median(seconds), 2),
                "min_seconds": round(min(seconds), 2),
                "max_seconds": round(max(seconds), 2),
                "runs": len(seconds),
            }
            rows.append(row)
            print(
                "{what}: {median_seconds} s (at most {limit_seconds} s)".format(**row), flush=True
            )
    print("->", common.write("workflow", rows))
    late = [row["what"] for row in rows if row["median_seconds"] > row["limit_seconds"]]
    if late:
        sys.exit(f"error: too slow: {', '.join(late)}; was the machine quiet?")


def repetitions(mapping):
    made = plan.load(mapping)
    return len(plan.expand(made)) * made.repetitions


def checkout(target):
    """What git would commit, in `target`, so that no result of the real folder is touched."""
    listed = run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], common.ROOT
    )
    for name in filter(None, listed.split("\0")):
        source = common.ROOT / name
        if source.exists() or source.is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    (target / "many.yaml").write_text(yaml.safe_dump(MANY))
    (target / "laptop.yaml").write_text(yaml.safe_dump(LAPTOP))
    return target


def run(command, cwd):
    environ = {**os.environ, "PYTHONPATH": str(Path(cwd) / "scripts")}
    done = subprocess.run(command, cwd=cwd, env=environ, text=True, capture_output=True)
    if done.returncode:
        sys.exit(
            f"error: {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return done.stdout


def snakemake(copy, *arguments):
    return run([BIN / "snakemake", "--profile", "local", *arguments], copy)


def nothing(copy):
    pass


def dry_run_many(copy):
    snakemake(copy, "-n", "all", "--configfile", "many.yaml")


def dry_run_published(copy):
    snakemake(copy, "-n", "all", "--configfile", "config/rounds/dlperf-v1.yaml")


def laptop_records(copy):
    shutil.rmtree(copy / "results", ignore_errors=True)
    generated_round.write_round(copy, LAPTOP)


def one_figure(copy):
    figure = names.figure_ids(plan.expand(plan.load(LAPTOP)))[0]
    snakemake(copy, f"results/laptop/figures/{figure}.svg", "--configfile", "laptop.yaml")


def more_records(copy):
    if not (copy / "results" / "more").exists():
        generated_round.write_round(copy, MORE)


def tables(copy):
    analysis = [sys.executable, "-m", "dlperf.analysis"]
    folder = Path("results/more")
    measurements, cells = folder / "measurements.tsv.gz", folder / "cells.tsv"
    run([*analysis, *generated_round.merging(folder)], copy)
    made = ["--measurements", measurements, "--certificates", folder / "certificates.tsv"]
    run([*analysis, "cells", *made, "--out", cells], copy)
    for table in names.table_ids(plan.expand(plan.load(MORE))):
        outputs = [(f"--{kind}", folder / f"{table}.{kind}") for kind in ("tsv", "md", "html")]
        command = [*analysis, "table", "--cells", cells, "--table", table]
        run([*command, *(each for pair in outputs for each in pair)], copy)


if __name__ == "__main__":
    main()
