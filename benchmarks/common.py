"""What the benchmarks share: interpreters, a Run on one core, statistics of pairs, TSV."""

import csv
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "benchmarks"
ALTERNATE = ROOT / "benchmarks" / "alternate.py"
sys.path.insert(0, str(ROOT / "scripts"))

from dlperf import frameworks, workloads  # noqa: E402
from dlperf.analysis.statistics.medians import median_interval  # noqa: E402
from dlperf.contract.dimension import Dimensions  # noqa: E402
from dlperf.contract.layout import Layout  # noqa: E402
from dlperf.contract.run import Run  # noqa: E402
from dlperf.measure import host  # noqa: E402


def environment(framework):
    """(interpreter, variables) of the framework's CPU environment; exits where there is none."""
    folder = ROOT / "results" / "environments" / f"{framework}.cpu"
    described, built = folder / "env.json", {}
    if described.exists():
        built = json.loads(described.read_text())
        if built["status"] != "ok":
            sys.exit(f"error: {described}: {built['reason']}")
    interpreter = ROOT / built.get("interpreter", folder / "bin" / "python")
    if not interpreter.exists():
        sys.exit(f"error: no {interpreter}; make it: snakemake --profile local {described}")
    return str(interpreter), built.get("environ", {})


def one_core(framework, interpreter, scratch, **asked):
    """A Run on one core, the last that this process may use; of ResNet-50 unless `asked`."""
    values = dict(
        workload="resnet50",
        framework=framework,
        scenario="train",
        precision="fp32",
        compiler=frameworks.of(framework).default_compiler["cpu"],
        batch_size=8,
        layout=Layout(),
        data="synthetic",
        dimensions={"image_size": 64},
        device="cpu",
        warmup_steps=0,
        measured_steps=0,
        cores_per_device=1,
        seed=1,
        data_dir="",
        rank=0,
        local_rank=0,
        ranks=1,
        local_ranks=1,
        cores=host.cores()[-1:],
        interpreter=interpreter,
        address="127.0.0.1",
        port=0,
        peers=["127.0.0.1:0"],
        interface="lo",
        meeting="",
        gpus=[],
        capability="",
        result=os.path.join(scratch, "result.json"),
    )
    values.update(asked)
    declared = workloads.dimensions(values["workload"])
    values["dimensions"] = dict(Dimensions(declared, values["dimensions"]))
    return Run(**values)


def variables(run, environ, paths):
    """The variables that a rank of the stopwatch would have, for a process on one core."""
    found = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, paths)), PYTHONUNBUFFERED="1")
    found.update(environ, CUDA_VISIBLE_DEVICES="")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        found[name] = str(len(run.cores))
    found.update(frameworks.load(run.framework).environment(run))
    return found


def start(command, run, environ, paths, log, **options):
    """A process pinned to the run's cores, its errors in `log`."""
    return subprocess.Popen(
        command,
        env=variables(run, environ, paths),
        stderr=log,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, run.cores),
        **options,
    )


class Contestants:
    """One process with all modules, or one each; commanded block by block."""

    def __init__(self, run, environ, modules, separate, packages, scratch, log):
        spec = f"{scratch}/run.json"
        run.save(spec)
        paths = [ROOT / "scripts", *packages]
        named = [f"{name}={path}" for name, path in modules.items()]
        groups = [[each] for each in named] if separate else [named]
        self._log, self._processes, self._of = log, [], {}
        self.about = {}  # what each says of itself
        for group in groups:
            process = start(
                [run.interpreter, str(ALTERNATE), spec, *group],
                run,
                environ,
                paths,
                log,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._processes.append(process)
            self._of.update({each.partition("=")[0]: process for each in group})
            self.about.update(self._answer(process))

    def _answer(self, process):
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended with {process.wait()}; see {self._log.name}")
        return json.loads(line)

    def block(self, name, steps):
        process = self._of[name]
        process.stdin.write(f"{name} {steps}\n")
        process.stdin.flush()
        return self._answer(process)

    def close(self):
        for process in self._processes:
            process.kill()
            process.wait()


def summary(ratios):
    """Median, its interval with coverage, least and largest of the ratios, for a TSV."""
    interval = median_interval(ratios)
    return {
        "pairs": len(ratios),
        "ratio_median": round(statistics.median(ratios), 4),
        "ratio_low": round(interval.low, 4),
        "ratio_high": round(interval.high, 4),
        "coverage": round(interval.coverage, 4),
        "ratio_min": round(min(ratios), 4),
        "ratio_max": round(max(ratios), 4),
    }


def cpu_summary(ratios):
    """Median and interval of the same ratio of CPU time."""
    found = summary(ratios)
    return {"cpu_" + name: found[name] for name in ("ratio_median", "ratio_low", "ratio_high")}


def write(name, rows, keys=()):
    """Write rows (dicts with the same keys) to results/benchmarks/<name>.tsv; return its path.

    Rows that are there already stay where none of the new ones has the same values of `keys`.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    about = {
        "cpu": host.facts()["cpu"],
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "utc": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    rows = [{key: str(value) for key, value in {**row, **about}.items()} for row in rows]
    path = RESULTS / f"{name}.tsv"
    if keys and path.exists():
        with open(path, newline="") as stream:
            there = list(csv.DictReader(stream, delimiter="\t"))
        new = {tuple(row[key] for key in keys) for row in rows}
        stay = [row for row in there if tuple(row.get(key) for key in keys) not in new]
        rows = sorted(
            [row for row in stay if row.keys() == rows[0].keys()] + rows,
            key=lambda row: [row[key] for key in keys],
        )
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path.relative_to(ROOT)


def timed(what, limit, seconds, **more):
    """Print seconds of several runs beside their limit ("" for none); return the row for a TSV."""
    row = {
        "what": what,
        "limit_seconds": limit,
        "median_seconds": round(statistics.median(seconds), 2),
        "min_seconds": round(min(seconds), 2),
        "max_seconds": round(max(seconds), 2),
        **more,
        "runs": len(seconds),
    }
    told = "".join(f", {key.replace('_', ' ')} {value}" for key, value in more.items())
    at_most = f" (at most {limit} s)" if limit else ""
    print(f"{what}: {row['median_seconds']} s{told}{at_most}", flush=True)
    return row


def end(name, rows):
    """Write the rows of `timed`; exit with an error that names what took longer than its limit."""
    print("->", write(name, rows))
    late = [
        row["what"]
        for row in rows
        if row["limit_seconds"] and row["median_seconds"] > row["limit_seconds"]
    ]
    if late:
        sys.exit(f"error: too slow: {', '.join(late)}; was the machine quiet?")
