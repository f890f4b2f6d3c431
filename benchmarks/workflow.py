"""How long do the workflow's own parts take, without any framework?

    python benchmarks/workflow.py [--repeat 3]

Wall time of: the dry run of rounds of 2,000, 5,000 and 20,000 repetitions, and of one target in the
last; the dry run of the published matrix (config/rounds/dlperf-v1.yaml, on synthetic data); one
figure alone, when only records exist; 5,000 records to tables. Beside it, Snakemake's own time for
as many jobs: a workflow with our rule's directives, and constants for what its functions return.
All in a temporary folder, with generated records. Printed, and written to
results/benchmarks/workflow.tsv; exits 1 where a median is beyond its limit.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import yaml

sys.path.insert(0, str(common.ROOT / "tests/support"))

import analysis_steps
import generated_round

from dlperf import plan
from dlperf.analysis.round import names

BIN = Path(sys.executable).parent
PUBLISHED = ("config/rounds/dlperf-v1.yaml", "config/rounds/dlperf-v1/synthetic.yaml")
BATCH_SIZES = {"fp32": [2, 4, 8, 16, 32], "amp": [2]}
MANY = generated_round.config(round="many", repetitions=25, resnet50_batch_sizes=BATCH_SIZES)
MORE = generated_round.config(
    round="more", repetitions=125, topologies=["1n1d", "1n2d", "1n3d", "1n4d", "1n5d"]
)
MOST = generated_round.config(round="most", repetitions=250, resnet50_batch_sizes=BATCH_SIZES)
LAPTOP = generated_round.CONFIG
PLAIN = """
rule all:
    input:
        [f"case{case}/rep{repetition}.json" for case in range(80) for repetition in range(250)],


rule environment:
    output:
        "{case}.env",


rule data:
    output:
        "data",


rule repetition:
    input:
        unpack(lambda wildcards: {"environment": f"{wildcards.case}.env", "data": "data"}),
    output:
        "{case}/rep{repetition}.json",
    log:
        "{case}/rep{repetition}.log",
    priority: lambda wildcards: 1
    threads: lambda wildcards: 2
    resources:
        exclusive=1,
        runtime=30,
    params:
        case=lambda wildcards: "constant",
    shell:
        "measure --case {params.case:q} --out {output} > {log} 2>&1"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = checkout(Path(scratch) / "copy")
        for what, limit, prepare, act in (
            (f"dry run of {repetitions(MANY):,} repetitions", 4, nothing, dry_run("many.yaml")),
            ("dry run of dlperf-v1", 4, nothing, dry_run(*PUBLISHED)),
            (f"dry run of {repetitions(MORE):,} repetitions", 8, nothing, dry_run("more.yaml")),
            (f"dry run of {repetitions(MOST):,} repetitions", None, nothing, dry_run("most.yaml")),
            ("plain Snakemake, as many jobs", None, nothing, plain),
            ("dry run of one target in it", 2, nothing, one_target),
            ("one figure from records", 5, laptop_records, one_figure),
            (f"{repetitions(MORE):,} records to tables", 10, more_records, tables),
        ):
            seconds = []
            for _ in range(asked.repeat):
                prepare(copy)
                start = time.perf_counter()
                act(copy)
                seconds.append(time.perf_counter() - start)
            rows.append(common.timed(what, limit or "", seconds))
    common.end("workflow", rows)


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
    for mapping in (MANY, MORE, MOST, LAPTOP):
        (target / f"{mapping['round']}.yaml").write_text(yaml.safe_dump(mapping))
    (target / "plain").mkdir()
    (target / "plain" / "Snakefile").write_text(PLAIN)
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


def dry_run(*configs):
    return lambda copy: snakemake(copy, "-n", "all", "--configfile", *configs)


def plain(copy):
    run([BIN / "snakemake", "-n", "--cores", "2", "--resources", "exclusive=1"], copy / "plain")


def one_target(copy):
    case = plan.expand(plan.load(MOST))[0]
    snakemake(copy, "-n", f"results/most/runs/{case.folder}/rep7.json", "--configfile", "most.yaml")


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
    folder = copy / "results/more"
    for arguments in (analysis_steps.merging, analysis_steps.limiting, analysis_steps.summarising):
        run([*analysis, *arguments(folder)], copy)
    for table in names.table_ids(plan.expand(plan.load(MORE))):
        run([*analysis, *analysis_steps.shown("table", folder, table)], copy)


if __name__ == "__main__":
    main()
