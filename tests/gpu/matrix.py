"""Compile JAX's training steps for an H100 on a machine without one, and print what they are.

    .venv/bin/python tests/gpu/matrix.py [--workload bert …] [--precision amp …] [--devices 8 …]

Nothing is measured: the table says what the programs have in them. Programs are written to
results/benchmarks/compiled_for_gpu/, a folder for each step, and the table of all that are there to
compiled_for_gpu.tsv beside it. A step that is there is compiled again with `--again` only.
`--markdown` prints the table of docs/gpu-results.md.
"""

import argparse
import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/support")]

import xla_packages  # noqa: E402
import xla_steps  # noqa: E402
from xla_checks import problems  # noqa: E402
from xla_steps import Step  # noqa: E402

from dlperf import workloads  # noqa: E402
from dlperf.contract.traffic import COUNTS  # noqa: E402
from dlperf.environments import EnvironmentProblem  # noqa: E402

PROGRAMS = ROOT / "results/benchmarks/compiled_for_gpu"
TABLE = PROGRAMS.with_suffix(".tsv")
PRECISIONS = ("amp", "tf32", "fp32")
KEYS = ("workload", "precision", "layout", "batch_size", "dimensions")

#: Steps beside the standard ones: what a workload's own layouts and dimensions are.
LAYOUTS = {
    "resnet50": [(1, {}, {}), (8, {}, {}), (1, {"accumulation": 2}, {})],
    "bert": [(1, {}, {}), (8, {}, {})],
    "wide_deep": [
        (1, {}, {}),
        (8, {}, {}),
        (8, {}, {"tables": "sharded"}),
        (1, {}, {"adam": "dense"}),
    ],
    "electra": [(1, {}, {}), (8, {}, {}), (1, {"accumulation": 2}, {})],
    "electra_squad": [(1, {}, {}), (8, {}, {})],
    "gpt": [
        (1, {}, {}),
        (8, {}, {}),
        (1, {"activation_checkpointing": True}, {}),
        (2, {"tensor_parallel": 2}, {}),
        (2, {"pipeline_parallel": 2, "accumulation": 4}, {}),
        (8, {"tensor_parallel": 2, "pipeline_parallel": 2, "accumulation": 4}, {}),
    ],
    "insightface": [
        (1, {}, {}),
        (8, {}, {}),
        (8, {}, {"head": "model"}),
        (8, {}, {"head": "partial"}),
    ],
}


def steps(names, precisions, devices):
    """All steps of the matrix: of each workload in each layout and precision."""
    for precision in precisions:
        for name in names:
            for count, layout, dimensions in LAYOUTS[name]:
                if not devices or count in devices:
                    yield Step(name, precision, count, layout, dimensions=dimensions)


def named(step):
    """A row's KEYS."""
    return {
        "workload": step.workload,
        "precision": step.precision,
        "layout": step.replicas,
        "batch_size": str(step.batch),
        "dimensions": " ".join(f"{name}={value}" for name, value in step.dimensions.items()),
    }


def key(row):
    return tuple(row[name] for name in KEYS)


def folder_of(step):
    return PROGRAMS / "-".join(filter(None, key(named(step)))).replace(" ", "-")


def make(step, python, about):
    """Compile a step into its folder, where only the reason stands if it does not compile."""
    folder = folder_of(step)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        xla_steps.compile_into(folder, step, python)
    except (xla_steps.CompileError, subprocess.TimeoutExpired) as error:
        about = {**about, "problem": str(error)}
    else:
        program = folder / "program.txt"
        (folder / "program.txt.gz").write_bytes(gzip.compress(program.read_bytes()))
        program.unlink()
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")


def row_of(step):
    """A row of the table, of what is in a step's folder."""
    folder = folder_of(step)
    about = json.loads((folder / "about.json").read_text())
    own = {**named(step), "status": "compiled", "commit": about["commit"], "utc": about["utc"]}
    if "problem" in about:
        return {**own, "status": about["problem"].splitlines()[-1]}
    made = xla_steps.read(folder, step)
    program, limits = made.program, made.limits or {}
    convolutions = [each for each in program.products if each.kind == "convolution"]
    copies, moved = program.transposed
    return {
        **own,
        "kernels": program.kernels,
        "launches": program.launches.total(),
        "products": len(program.products),
        "float32_products": sum("f32" in each.types for each in program.products),
        "tf32_products": sum(each.is_tf32 for each in program.products),
        "convolutions": len(convolutions),
        "convolutions_nhwc": sum(each.is_channels_last for each in convolutions),
        "copies": copies,
        "copies_gb": gigabytes(moved),
        "gb": gigabytes(program.bytes),
        **{f"{name}_gb": gigabytes(limits.get(name)) for name in COUNTS},
        "temporary_gb": gigabytes(made.temporary_bytes),
        "argument_gb": gigabytes(made.facts["argument_bytes"]),
        "collectives": len(program.collectives),
        "collectives_waited_for": sum(not each.asynchronous for each in program.collectives),
        "collectives_gb": gigabytes(sum(each.bytes for each in program.collectives)),
        "breaks": "; ".join(f"{kind}: {what}" for kind, what in problems(made).items()),
        "breaks_kinds": list(problems(made)),
        "compile_seconds": made.facts["seconds"],
    }


COLUMNS = (
    *KEYS,
    "status",
    "kernels",
    "launches",
    "products",
    "float32_products",
    "tf32_products",
    "convolutions",
    "convolutions_nhwc",
    "copies",
    "copies_gb",
    "gb",
    "least_gb",
    "fused_gb",
    "eager_gb",
    "temporary_gb",
    "argument_gb",
    "collectives",
    "collectives_waited_for",
    "collectives_gb",
    "breaks",
    "compile_seconds",
    "commit",
    "utc",
)


def gigabytes(count):
    return "" if count is None else round(count / 1e9, 2)


def write(rows):
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    with open(TABLE, "w", newline="") as stream:
        writer = csv.DictWriter(
            stream, COLUMNS, extrasaction="ignore", delimiter="\t", lineterminator="\n", restval=""
        )
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows):
    """The table of docs/gpu-results.md."""
    titles = {
        "workload": "workload",
        "precision": "precision",
        "layout": "layout",
        "batch_size": "batch",
        "dimensions": "dimensions",
        "kernels": "kernels",
        "copies": "copies",
        "gb": "GB",
        "least_gb": "least",
        "eager_gb": "separate",
        "temporary_gb": "temporary GB",
        "float32_products": "float32 products",
        "collectives": "exchanges",
        "collectives_waited_for": "waited for",
        "breaks": "breaks",
    }
    sides = ["---" if name in (*KEYS, "breaks") else "---:" for name in titles]
    yield "| " + " | ".join(titles.values()) + " |"
    yield "|" + "|".join(sides) + "|"
    for row in rows:
        if row["status"] == "compiled":
            row = {**row, "breaks": ", ".join(row["breaks_kinds"])}
        else:
            row = {**row, "breaks": f"does not compile: {row['status']}"}
        yield "| " + " | ".join(str(row.get(name, "")) for name in titles) + " |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", nargs="*", choices=workloads.NAMES, default=list(LAYOUTS))
    parser.add_argument("--precision", nargs="*", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--devices", nargs="*", type=int, choices=(1, 2, 8), default=[])
    parser.add_argument("--markdown", action="store_true", help="print the file as Markdown")
    parser.add_argument("--again", action="store_true", help="also what is in the file already")
    asked = parser.parse_args()
    whole = list(steps(LAYOUTS, PRECISIONS, ()))
    if not asked.markdown:
        compile_all(steps(asked.workload, asked.precision, asked.devices), asked.again)
    rows = [row_of(step) for step in whole if (folder_of(step) / "about.json").exists()]
    write(rows)
    print("\n".join(markdown(rows)))
    print("->", os.path.relpath(TABLE), file=sys.stderr)


def compile_all(asked, again):
    try:
        python = xla_packages.python()
    except EnvironmentProblem as problem:
        sys.exit(f"error: {problem}")
    of_head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(of_head, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    about = {"commit": commit, "utc": datetime.now(UTC).strftime("%Y-%m-%d")}
    for step in asked:
        if again or not (folder_of(step) / "about.json").exists():
            began = time.monotonic()
            make(step, python, about)
            row = {name: value for name, value in row_of(step).items() if value != ""}
            told = ", ".join(f"{name} {row[name]}" for name in COLUMNS[5:-3] if name in row)
            said = (
                f"{folder_of(step).name}: {row['status']} ({time.monotonic() - began:.0f} s) {told}"
            )
            print(said, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
