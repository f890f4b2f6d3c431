"""Look at steps for an H100 on a machine without one, and print what they are.

    .venv/bin/python tests/gpu/matrix.py [--framework pytorch] [--workload bert …]
        [--precision amp …] [--devices 2 …] [--compiler none …]

JAX's are compiled, PyTorch's driven on a device that does nothing, TensorFlow's traced. Nothing is
measured: the table says what the steps have in them. They are written to results/benchmarks/
compiled_for_gpu/, on_null_device/ or traced_for_gpu/, a folder for each step, and the table of all
that are there to a .tsv file beside it. A step that is there is made again with `--again` only.
`--markdown` prints the table of docs/gpu-results.md, and `--release` also puts these steps into
config/gpu_programs.tsv, from which reports have them.
"""

import argparse
import csv
import itertools
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

import tf_rows  # noqa: E402
import torch_rows  # noqa: E402
import xla_rows  # noqa: E402
from gpu_steps import Step  # noqa: E402

from dlperf import workloads  # noqa: E402
from dlperf.environments import EnvironmentProblem  # noqa: E402

#: Of each framework the module that makes its steps and reads them.
FRAMEWORKS = {"jax": xla_rows, "pytorch": torch_rows, "tensorflow": tf_rows}
PRECISIONS = ("amp", "tf32", "fp32")
KEYS = ("workload", "precision", "compiler", "layout", "batch_size", "dimensions")
#: What reports show of steps of several frameworks.
RELEASED = ROOT / "config/gpu_programs.tsv"
RELEASED_KEYS = ("framework", *KEYS)
RELEASED_NUMBERS = (
    *("kernels", "launches", "gb", "least_gb", "separate_gb", "memory_gb"),
    *("exchanges", "waited_for", "made"),
)


class Matrix:
    """All steps of a framework, and those of them that were made."""

    def __init__(self, framework: str):
        self.framework = framework
        self.rows_of = FRAMEWORKS[framework]
        self.folder = ROOT / "results/benchmarks" / self.rows_of.FOLDER
        self.table = self.folder.with_suffix(".tsv")
        self.columns = (
            *KEYS,
            "status",
            *self.rows_of.COLUMNS,
            "breaks",
            "seconds",
            "commit",
            "utc",
        )

    def steps(self, names, precisions, devices=(), compilers=()):
        """Of each workload in each precision, compiler and layout."""
        parts = itertools.product(precisions, names, compilers or self.rows_of.COMPILERS)
        for precision, name, compiler in parts:
            for count, layout, dimensions in self.rows_of.LAYOUTS[name]:
                if not devices or count in devices:
                    for rank in self.rows_of.ranks(count, layout):
                        own = {"dimensions": dimensions, "compiler": compiler, "rank": rank}
                        yield Step(name, precision, count, layout, **own)

    def folder_of(self, step):
        return self.folder / "-".join(filter(None, named(step).values())).replace(" ", "-")

    def is_made(self, step):
        return (self.folder_of(step) / "about.json").exists()

    def row(self, step):
        """A row of the table, of what is in a step's folder."""
        folder = self.folder_of(step)
        about = json.loads((folder / "about.json").read_text())
        own = {**named(step), "status": "made", "commit": about["commit"], "utc": about["utc"]}
        if "problem" in about:
            return {**own, "status": about["problem"].splitlines()[-1]}
        found = self.rows_of.row(step, folder)
        breaks = found.pop("breaks")
        told = "; ".join(f"{kind}: {what}" for kind, what in breaks.items())
        return {**own, **found, "breaks": told, "kinds": ", ".join(breaks)}

    def make(self, asked, again):
        """Make steps in their folders, where only the reason stands if one cannot be made."""
        of_head = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(of_head, cwd=ROOT, capture_output=True, text=True).stdout.strip()
        about = {"commit": commit, "utc": datetime.now(UTC).strftime("%Y-%m-%d")}
        missing = [step for step in asked if again or not self.is_made(step)]
        if not missing:
            return
        with self.rows_of.maker() as make:
            for step in missing:
                began, folder = time.monotonic(), self.folder_of(step)
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                problem = make(step, folder)
                document = {**about, "problem": problem} if problem else about
                (folder / "about.json").write_text(json.dumps(document, indent=1) + "\n")
                row = {name: value for name, value in self.row(step).items() if value != ""}
                shown = (*self.rows_of.COLUMNS, "breaks")
                told = ", ".join(f"{name} {row[name]}" for name in shown if name in row)
                took = f"{time.monotonic() - began:.0f} s"
                said = f"{folder.name}: {row['status']} ({took}) {told}"
                print(said, file=sys.stderr, flush=True)

    def write(self, rows):
        self.table.parent.mkdir(parents=True, exist_ok=True)
        options = {"delimiter": "\t", "lineterminator": "\n", "restval": ""}
        with open(self.table, "w", newline="") as stream:
            writer = csv.DictWriter(stream, self.columns, extrasaction="ignore", **options)
            writer.writeheader()
            writer.writerows(rows)

    def release(self, rows):
        """Put these rows into the released table, in the place of those of the same steps."""
        with open(RELEASED, newline="") as stream:
            there = list(csv.DictReader(stream, delimiter="\t"))
        found = {tuple(row[name] for name in RELEASED_KEYS): row for row in there}
        for row in rows:
            if row["status"] == "made" and self.rows_of.RELEASED:
                released = {own: row.get(name, "") for own, name in self.rows_of.RELEASED.items()}
                own = {"framework": self.framework, **{name: row[name] for name in KEYS}}
                own["compiler"] = own["compiler"] or self.rows_of.COMPILER
                key = tuple(str(own[name]) for name in RELEASED_KEYS)
                found[key] = {**own, **released, "made": row["utc"]}
        names = list(xla_rows.LAYOUTS)
        ordered = sorted(
            found.values(),
            key=lambda row: (
                *(list(FRAMEWORKS).index(row["framework"]), PRECISIONS.index(row["precision"])),
                names.index(row["workload"]),
            ),
        )
        columns = (*RELEASED_KEYS, *RELEASED_NUMBERS)
        options = {"delimiter": "\t", "lineterminator": "\n", "restval": ""}
        with open(RELEASED, "w", newline="") as stream:
            writer = csv.DictWriter(stream, columns, **options)
            writer.writeheader()
            writer.writerows(ordered)

    def markdown(self, rows):
        """The table of docs/gpu-results.md."""
        keys = {name: name.replace("_size", "") for name in KEYS}
        if self.rows_of.COMPILERS == ("",):
            del keys["compiler"]
        titles = {**keys, **self.rows_of.TITLES, "breaks": "breaks"}
        sides = ["---" if name in (*KEYS, "attention", "breaks") else "---:" for name in titles]
        yield "| " + " | ".join(titles.values()) + " |"
        yield "|" + "|".join(sides) + "|"
        for row in rows:
            is_made = row["status"] == "made"
            breaks = row["kinds"] if is_made else f"does not run: {row['status']}"
            shown = {**row, "breaks": breaks}
            yield "| " + " | ".join(str(shown.get(name, "")) for name in titles) + " |"


def named(step):
    """A row's KEYS."""
    return {
        "workload": step.workload,
        "precision": step.precision,
        "compiler": step.compiler,
        "layout": step.replicas,
        "batch_size": str(step.batch),
        "dimensions": " ".join(f"{name}={value}" for name, value in step.dimensions.items()),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(xla_rows.LAYOUTS)
    parser.add_argument("--framework", choices=FRAMEWORKS, default="jax")
    parser.add_argument("--workload", nargs="*", choices=workloads.NAMES, default=names)
    parser.add_argument("--precision", nargs="*", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--devices", nargs="*", type=int, choices=(1, 2, 4, 8), default=[])
    compilers = sorted({each for own in FRAMEWORKS.values() for each in own.COMPILERS if each})
    parser.add_argument("--compiler", nargs="*", choices=compilers, default=[])
    parser.add_argument("--markdown", action="store_true", help="print the file as Markdown")
    parser.add_argument("--release", action="store_true", help="put them into gpu_programs.tsv")
    parser.add_argument("--again", action="store_true", help="also what is in the file already")
    asked = parser.parse_args()
    matrix = Matrix(asked.framework)
    if not asked.markdown:
        try:
            steps = matrix.steps(asked.workload, asked.precision, asked.devices, asked.compiler)
            matrix.make(steps, asked.again)
        except EnvironmentProblem as problem:
            sys.exit(f"error: {problem}")
    rows = [matrix.row(step) for step in matrix.steps(names, PRECISIONS) if matrix.is_made(step)]
    matrix.write(rows)
    if asked.release:
        matrix.release(rows)
    print("\n".join(matrix.markdown(rows)))
    print("->", os.path.relpath(matrix.table), file=sys.stderr)


if __name__ == "__main__":
    main()
