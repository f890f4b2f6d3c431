"""Certify that an implementation does the reference's work: one certificate.

    PYTHONPATH=scripts python -m dlperf.certify --workload resnet50 --framework jax --device cpu \\
        --precision fp32 --compiler xla --layout 1 --data-dir results/data/sample \\
        --reference results/certificates/resnet50/reference \\
        --environment results/environments/jax.cpu/env.json --out certificate.json

Two runs: a step in the precision and compiler that are timed, and some in float64 where the
framework has it; a third, longer one where that is mixed precision or a compiler, which may do slow
damage. Of other layouts than 1, what matters is how devices exchange gradients, or how micro-steps
add them up: where float64 goes another way there, or is missing, two steps run as they are timed.
On a CPU, runs stand side by side as far as cores allow. The exit status is 0 when a certificate was
written, passed or not.
"""

import argparse
import dataclasses
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from dlperf import frameworks, workloads
from dlperf.certify import KEPT_MEMORY, LONG_STEPS, SCHEMA, judge, required
from dlperf.certify.required import Subject
from dlperf.contract import case, files, ownership, storage, strict_json, terminal
from dlperf.contract.layout import Proved
from dlperf.contract.mesh import Mesh
from dlperf.contract.tensor import Tensor
from dlperf.measure import code, host, node, processes, reached, record, stopwatch
from dlperf.scenarios import train


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.certify",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workload", choices=workloads.NAMES, required=True)
    parser.add_argument("--framework", choices=frameworks.NAMES, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=case.PRECISIONS, default="fp32")
    parser.add_argument("--compiler", default="none")
    parser.add_argument(
        "--layout", default="1", help="such as 1, dp2 or dp2acc2; dp2-2n is on two nodes"
    )
    parser.add_argument("--launcher", default="", help="of several nodes: as of dlperf.measure")
    parser.add_argument("--interface", default="", help="network interface, as of dlperf.measure")
    parser.add_argument("--reference", required=True, help="folder of dlperf.certify.reference")
    parser.add_argument("--data-dir", required=True, help="folder of the sample data")
    parser.add_argument(
        "--environment", default="", help="env.json of the environment (default: this Python)"
    )
    # ELECTRA's takes up to 230 s alone, and that a machine is busy says nothing of the work
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for each of the runs")
    parser.add_argument(
        "--cores", type=int, help="of a CPU, a rank takes one (default: all that there are)"
    )
    parser.add_argument("--no-long-run", action="store_true", help="leave the third run out")
    parser.add_argument("--float64-only", action="store_true", help="leave what is timed out")
    parser.add_argument("--out", required=True, help="the certificate to write")
    asked = parser.parse_args(arguments)
    try:
        asked.layout = Proved.parse(asked.layout)
    except ValueError as error:
        parser.error(f"--layout: {error}")
    framework = frameworks.find(asked.framework)
    if framework and asked.compiler not in framework.compilers:
        has = ", ".join(framework.compilers)
        parser.error(f"--compiler: {asked.compiler!r}; {framework.title} has: {has}")
    if asked.environment and not Path(asked.environment).exists():
        sys.exit(f"error: {asked.environment}: no such file")
    reference = Path(asked.reference) / "manifest.json"
    if not reference.exists():
        fix = f"python -m dlperf.certify.reference --workload {asked.workload} …"
        sys.exit(f"error: {reference}: no reference is there; make it: {fix}")
    asked.ranks = asked.layout.devices
    asked.nodes = asked.layout.nodes
    # End at once, as by SIGTERM: the processes of the runs see it, and end their ranks. It
    # stays ignored where a shell without job control started this in the background.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    certificate = certify(asked)
    try:
        files.write(asked.out, json.dumps(certificate, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        sys.exit("error: " + storage.message(error, asked.out))
    name = (
        f"{asked.framework} {asked.workload} {asked.precision} {asked.compiler} {asked.layout.name}"
    )
    print(f"{name}: {'passed' if certificate['passed'] else 'not passed'} -> {asked.out}")
    for tier in certificate["tiers"]:
        print("  " + describe(tier))


def certify(asked: argparse.Namespace) -> dict[str, Any]:
    """The certificate's document."""
    started = time.time()
    manifest = strict_json.read(Path(asked.reference) / "manifest.json")
    environment = strict_json.read(asked.environment) if asked.environment else {}
    if environment:
        node.nothing_else_to_import()
    subject = Subject(
        asked.workload,
        asked.framework,
        asked.device,
        asked.precision,
        asked.compiler,
        manifest.get("variant", ""),
        asked.layout.name,
    )
    parity: dict[str, Any] = {}
    if manifest["status"] != "ok":
        tiers = [judge.failed("reference", manifest)]
    else:
        tiers, parity = _tiers(asked, subject, manifest, environment)
    return {
        "schema": SCHEMA,
        **dataclasses.asdict(subject),
        "passed": all(tier["passed"] is not False for tier in tiers),
        "tiers": tiers,
        "float64_compiler": required.float64_compiler(subject),
        "parity": parity,
        "provenance": {
            "git_commit": record.git_commit(),
            "code_sha256": code.sha256(code.of_implementation(asked.workload, asked.framework)),
            "unexplained": reached.unexplained(asked.workload, asked.framework),
            "lock_sha256": code.applied_lock(environment),
            "reference": manifest.get("provenance", {}),
            "processor": host.facts()["cpu"],
            "released": False,
            "start_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
            "nodes": asked.nodes,
            "seconds": round(time.time() - started, 1),
        },
    }


def _tiers(
    asked: argparse.Namespace,
    subject: Subject,
    manifest: dict[str, Any],
    environment: dict[str, Any],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All tiers, and what the timed process reported of itself."""
    expected = manifest  # of an inference, whose ranks exchange nothing
    if workloads.scenario_of(subject.variant) != "infer":
        expected = manifest["parts"][str(asked.layout.parts)]
    without = {"timed", "free"} if asked.float64_only else set()
    without |= {"long"} if asked.no_long_run else set()
    steps = {"steps": lambda: len(expected["loss"]), "long": lambda: LONG_STEPS}
    runs = {}
    for name, (precision, compiler, task) in required.runs(subject).items():
        if name not in without:
            count = steps.get(task["kind"], lambda: 1)()
            runs[name] = (precision, compiler, {**task, "steps": count})
    if "long" in runs:
        manifest = {**manifest, "long_run": _long_run(asked, manifest)}
    found = _side_by_side(asked, manifest, environment, runs)
    tiers = judge.tiers(subject, manifest, expected, found, without)
    return tiers, (found.get("timed") or found.get("float64") or {}).get("parity", {})


def _long_run(asked: argparse.Namespace, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The reference's own long run, which stands beside it. Ends here where there is none."""
    path = Path(asked.reference) / "long.json"
    own = f"--workload {asked.workload} --variant={manifest['variant']!r} --out {path}"
    fix = f"make it (python -m dlperf.certify.long_run {own} …), or leave it out: --no-long-run"
    if not path.exists():
        sys.exit(f"error: {path}: the reference has no long run beside it; {fix}")
    found = strict_json.read(path)
    if found["status"] == "ok" and found["provenance"] != manifest["provenance"]:
        sys.exit(f"error: {path}: was made with other code or packages than the reference; {fix}")
    return found


def _side_by_side(
    asked: argparse.Namespace,
    manifest: dict[str, Any],
    environment: dict[str, Any],
    runs: dict[str, Any],
) -> dict[str, dict[str, Any]]:
    """What each run left, by name, as `_run` gives it."""
    # Processes, not threads: ranks end with the thread that started them, and this one by a signal.
    with ProcessPoolExecutor(_runs_at_a_time(asked), initializer=processes.end_with_ranks) as pool:
        waiting = {
            name: pool.submit(_run_or_end, asked, manifest, environment, *run)
            for name, run in runs.items()
        }
        return {name: each.result() for name, each in waiting.items()}


def _runs_at_a_time(asked: argparse.Namespace) -> int:
    """On a GPU one: it is each run's own. Over several nodes too."""
    if asked.device != "cpu" or asked.nodes > 1:
        return 1
    return max(1, (asked.cores or len(host.cores())) // asked.ranks)


def _run_or_end(*arguments: Any) -> dict[str, Any]:
    """`_run` in a process of the pool, which ends when a signal stops it: else it would wait for
    more to do, for ever where the signal came because its parent is gone."""
    try:
        return _run(*arguments)
    except SystemExit as stopped:
        os._exit(stopped.code if isinstance(stopped.code, int) else 1)


def _run(
    asked: argparse.Namespace,
    manifest: dict[str, Any],
    environment: dict[str, Any],
    precision: str,
    compiler: str,
    task: dict[str, Any],
) -> dict[str, Any]:
    """What rank 0 left, the largest differences of all ranks in it; or status and reason."""
    if environment.get("status") == "failed":
        return {"status": "crashed", "reason": "no environment: " + environment["reason"]}
    case = {
        "identity": {
            "workload": asked.workload,
            "framework": asked.framework,
            "scenario": workloads.scenario_of(manifest["variant"]),
            "precision": precision,
            "compiler": compiler,
            "nodes": asked.nodes,
            "devices_per_node": task.get("ranks", asked.ranks) // asked.nodes,
            "layout": dataclasses.asdict(asked.layout.layout),
            "batch_size": manifest["batch_size"],
            "data": "sample",
            **manifest["dimensions"],
        },
        "settings": {
            "device": asked.device,
            "warmup_steps": 0,
            "measured_steps": task["steps"],
            "cores_per_device": 1,
            "seed": manifest["seed"],
            "data_dir": asked.data_dir,
            "timeout_seconds": asked.timeout,
        },
    }
    # nothing is timed: ranks may share cores
    reason = stopwatch.cannot_run(case, asked.launcher, pinned=False)
    if reason:
        return {"status": "unsupported", "reason": reason}
    environ = {**KEPT_MEMORY, **environment.get("environ", {})}
    task = {"own": False, **task, "reference": os.path.abspath(asked.reference)}
    for each in ("optimizer", "dropout", "neutral", "sampler"):
        task.setdefault(each, False)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as stream:
        json.dump(task, stream)
        stream.flush()
        program = ("dlperf.certify.rank", stream.name)
        attempt = stopwatch.Attempt(
            case,
            {**environment, "environ": environ},
            sys.stderr,
            program,
            pinned=False,
            launcher=asked.launcher,
            interface=asked.interface,
        )
    if attempt.failure:
        return dict(zip(("status", "reason"), attempt.failure, strict=True))
    mesh = asked.layout.layout.mesh(len(attempt.facts))
    grid = Grid.of(asked.workload, manifest["dimensions"], mesh, asked.layout.layout.zero_stage)
    return of_all_ranks(attempt.facts, task, grid)


@dataclasses.dataclass(frozen=True)
class Grid:
    """Which rank has to have what: the mesh, the model's Tensors, and which stages have them."""

    mesh: Mesh
    tensors: Mapping[str, Tensor]
    stages: Mapping[str, tuple[int, ...]]
    zero_stage: int

    @classmethod
    def of(
        cls, workload: str, dimensions: Mapping[str, Any], mesh: Mesh, zero_stage: int
    ) -> "Grid":
        """The grid of a workload's ranks that are arranged so."""
        tensors = workloads.of(workload).parameters(dimensions)
        stages = workloads.stages(workload, dimensions, mesh.pipeline)
        return cls(mesh, tensors, stages, zero_stage)

    @property
    def is_whole(self) -> bool:
        """Whether each rank has the whole model."""
        divided = any(ownership.is_divided(self.mesh, each) for each in self.tensors.values())
        return not (self.mesh.is_split or divided or self.zero_stage == 3)


def of_all_ranks(
    ranks: list[dict[str, Any]], task: Mapping[str, Any], grid: Grid
) -> dict[str, Any]:
    """What rank 0 left, with the mean loss and the largest differences of all ranks.

    Of a tensor that ranks divide, differences are those of a copy: its parts' together. Where parts
    do not make each copy once, `shapes` says so.
    """
    first = ranks[0]
    if task["kind"] == "outputs":
        return first
    other = next((each["shapes"] for each in ranks if each["shapes"]), None)
    if other:
        return {**first, "shapes": other}
    first["loss"] = train.mean_losses(ranks)
    if "again_loss" in first:
        first["again_loss"] = sum(each["again_loss"] for each in ranks) / len(ranks)
    if "sampler" in first:
        first["sampler"] = [line for each in ranks for line in each["sampler"]]
    if "tested" in first:
        first["tested"] = max(each["tested"] for each in ranks)
    if "ranks" in task:
        first["parts"] = task["ranks"]
    for what in first["compared"]:
        compared = [each["compared"][what] for each in ranks]
        if grid.is_whole or what == "statistics":
            groups = {name: [(rank,) for rank in range(len(ranks))] for name in compared[0]}
        else:
            owned = [
                [ownership.part_of((name, *found[2:])) for name, found in own.items()]
                for own in compared
            ]
            grid_of = (grid.mesh, grid.tensors, grid.stages, owned, grid.zero_stage)
            wrong = next(ownership.problems(*grid_of), "")
            if wrong:
                return {**first, "shapes": [["all ranks together", "each tensor once", wrong]]}
            groups = {
                name: ownership.copies(grid.mesh, tensor, grid.stages[name], grid.zero_stage)
                for name, tensor in grid.tensors.items()
            }
        first["compared"][what] = {
            name: judge.furthest(_together(compared, name, ranks) for ranks in copies)
            for name, copies in groups.items()
        }
    return first


def _together(
    compared: list[dict[str, list[Any]]], name: str, ranks: tuple[int, ...]
) -> list[float]:
    """[norm of the difference, norm of what is expected] of a copy whose parts these ranks have."""
    own = [compared[rank][name] for rank in ranks]
    return [math.hypot(*(each[index] for each in own)) for index in (0, 1)]


def describe(tier: dict[str, Any]) -> str:
    """A tier in a line."""
    if tier["passed"] is None:
        return f"{tier['name']}: not run: {tier['reason']}"
    verdict = "passed" if tier["passed"] else "NOT PASSED"
    if "measured" not in tier:
        return f"{tier['name']}: {verdict}: {tier['reason']}"
    worst = ", ".join(f"{key} {value}" for key, value in tier["worst"].items())
    return (
        f"{tier['name']}: {verdict}: {tier['measured']:.2g}, at most {tier['tolerance']:g}"
        f"{f' ({worst})' if worst else ''}"
    )


if __name__ == "__main__":
    terminal.as_utf8()
    main()
