"""Expected seconds of a repetition and of a certificate, learned from what was measured before.

The input is cases, records of this round and of other rounds on the same machine, and certificates.
The output is seconds, and what they are based on. A record of the same case counts as it is; one of
the same framework and workload is scaled by FLOPs; without one there are rough defaults. Little is
read, however many records there are: a few of each case, and of other rounds the most similar ones.
"""

import json
import math
import os
import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dlperf import scenarios, workloads
from dlperf.contract.case import Case, made_as
from dlperf.measure import host
from dlperf.plan import searches
from dlperf.plan.cases import document
from dlperf.plan.certificates import ROOT
from dlperf.plan.config import Config
from dlperf.workloads.cases import case_of, parse_case

# Rough defaults until there are records, right within a factor of about 3. The training speed of a
# device in GFLOP/s: of one core of a server CPU in fp32, between ResNet-50 on images of 64 pixels
# and of 224 (2.4 GHz, AVX2); of a GPU between a V100 (ResNet-50 in fp32, as DLPerf published it:
# 9,000) and an H100.
CPU_CORE_GFLOPS = {
    "pytorch": 50,
    "deepspeed": 45,
    "megatron": 45,
    "tensorflow": 48,
    "tensorflow1": 30,
    "mxnet": 55,
    "paddlepaddle": 26,
    "oneflow": 22,
    "mindspore": 22,
    "jax": 35,
}
GPU_GFLOPS = {"fp32": 15_000, "tf32": 30_000}
GPU_GFLOPS_MIXED = 60_000
# From the start of a repetition to its first step, without compiling; and what more of compiling
# takes than a step. On a CPU the least of the laptop round's records on two busy cores, from the
# second repetition on, times 0.7: so the sum is the 12 minutes that the round took on quiet ones.
CPU_STARTUP_SECONDS = {
    "pytorch": 4,
    "deepspeed": 7,
    "megatron": 8,
    "tensorflow": 5,
    "tensorflow1": 5,
    "mxnet": 2,
    "paddlepaddle": 5,
    "oneflow": 3,
    "mindspore": 5,
    "jax": 3,
}
STARTUP_SECONDS = 12  # on a GPU
SEVERAL_RANKS_SECONDS = 2  # to meet
CPU_COMPILE_SECONDS = {"none": 0, "static": 2, "graph": 3, "xla": 4, "inductor": 45}
COMPILE_SECONDS = {"none": 0, "static": 2, "graph": 20, "xla": 30, "inductor": 60, "cinn": 60}
CERTIFICATE_SECONDS = 20  # of a workload that has no certificate yet

GUESSED_BATCH = 256  # where the largest one is still to be found

# What is read at most:
RECORDS = 3  # of a case
ROUNDS = 10  # beside this one
FOLDERS = 5  # of similar cases, until one has a record that counts


class Machine(NamedTuple):
    """What is equal on equal nodes, whatever their names."""

    cpu: str
    cores: int
    gpus: tuple[str, ...]  # their names


class Measured(NamedTuple):
    """What a record says of the time that its repetition took, in seconds."""

    case: Case
    settings: Mapping[str, Any]
    device: str
    cores: int  # of a device on a CPU
    total: float
    busy: float  # in steps; the rest is starting, compiling, and waiting for requests
    speed: float  # in FLOP/s of a device, in steps
    machine: Machine


def timer(config: Config, results: Path = Path("results")) -> Callable[[Case], tuple[float, str]]:
    """A function from a case to the expected seconds of one repetition, and their basis.

    'records': the case's own records; 'rounds': those of the same case in other rounds on this
    machine; 'similar': records of the same framework and workload, scaled; 'defaults': the rough
    table above.
    """
    own = results / config.round / "runs"
    others = list(_other_rounds(config, results))

    @cache
    def here() -> Machine:
        return this_machine(config.device)

    @cache
    def measured(runs: Path, folder: str) -> list[Measured]:
        """A few records of a case. This round's count wherever they were made, as nodes differ
        from the machine that plans; those of other rounds if they are of this machine."""
        found = []
        for path in sorted((runs / folder).glob("rep*.json"))[:RECORDS]:
            each = read(path)
            if each and each.device == config.device:
                if runs == own or _same_machine(each.machine, here(), config.device):
                    found.append(each)
        return found

    @cache
    def known(workload: str, framework: str) -> dict[str, tuple[Likeness, list[Path]]]:
        """Folder -> of a case of this framework and workload what it is like, and the rounds that
        have it: this one, then the newest."""
        found: dict[str, tuple[Likeness, list[Path]]] = {}
        for runs in (own, *others):
            for name in _names(runs / workload / framework):
                folder = f"{workload}/{framework}/{name}"
                if folder not in found:
                    if (case := _parsed(folder)) is None:
                        continue
                    found[folder] = (likeness(case), [])
                found[folder][1].append(runs)
        return found

    def median(found: list[Measured], case: Case) -> float:
        return statistics.median(scaled(each, case, config) for each in found)

    def expected(case: Case) -> tuple[float, str]:
        sized = searches.found(case, results / config.round)
        if found := measured(own, case.folder):
            return median(found, sized), "records"
        for runs in others:
            if found := measured(runs, case.folder):
                return median(found, sized), "rounds"
        wanted, similar = likeness(sized), known(case.workload, case.framework)
        nearest = sorted(similar, key=lambda folder: far(similar[folder][0], wanted))
        places = ((runs, folder) for folder in nearest for runs in similar[folder][1])
        for runs, folder in islice(places, FOLDERS):
            if found := measured(runs, folder):
                return median(found, sized), "similar"
        return default_seconds(sized, config), "defaults"

    return expected


def _other_rounds(config: Config, results: Path) -> Iterator[Path]:
    """The folders runs/ of other rounds on the same kind of device, the newest first."""
    found = []
    for runs in results.glob("*/runs"):
        try:
            if runs.parent.name != config.round and _device(runs.parent) in (config.device, ""):
                found.append((runs.stat().st_mtime, runs))
        except OSError:  # just deleted, or not ours to read
            continue
    yield from (runs for _, runs in sorted(found, reverse=True)[:ROUNDS])


def _device(folder: Path) -> str:
    """The device of a round, by its config; "" where there is none."""
    try:
        text = (folder / "config.yaml").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    match = re.search(r"^device: (\w+)$", text, re.MULTILINE)
    return match[1] if match else ""


def _parsed(folder: str) -> Case | None:
    try:
        return parse_case(folder)
    except ValueError:
        return None


def _names(folder: Path) -> list[str]:
    """What is in a folder; nothing where there is none."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


class Likeness(NamedTuple):
    """What decides the time of a case of a framework and workload, the most important first."""

    made_as: str
    scenario: str
    precision: str
    compiler: str
    devices: int
    log_flops: float  # of a step of a device
    data: str


def likeness(case: Case) -> Likeness:
    return Likeness(
        made_as(case.scenario),
        case.scenario,
        case.precision,
        case.compiler,
        case.devices,
        math.log(max(flops(case), 1.0)),
        case.data,
    )


def far(one: Likeness, other: Likeness) -> tuple[Any, ...]:
    """How unlike two cases are: smaller tuples are nearer."""
    distances = {"log_flops": abs(one.log_flops - other.log_flops)}
    return tuple(
        distances.get(name, getattr(one, name) != getattr(other, name)) for name in one._fields
    )


def this_machine(device: str) -> Machine:
    """The machine that plans."""
    gpus = host.gpu_facts(host.visible_gpus()) if device == "cuda" else []
    return _machine({**host.facts(), "gpus": gpus})


def _machine(facts: Mapping[str, Any]) -> Machine:
    gpus = sorted(str(each.get("name", "")) for each in facts.get("gpus") or [])
    return Machine(facts["cpu"], facts["cores"], tuple(gpus))


def _same_machine(of_record: Machine, here: Machine, device: str) -> bool:
    """Whether a record is of this machine.

    On a cluster a plan is made where no GPU is: there, records on GPUs are of the cluster's nodes.
    """
    if device == "cuda" and not here.gpus:
        return bool(of_record.gpus)
    alike = of_record[:2] == here[:2]
    return alike and (device == "cpu" or of_record.gpus == here.gpus)


def read(path: Path) -> Measured | None:
    """The times of a successful repetition; None if the record does not have them."""
    try:
        record = json.loads(path.read_bytes())
        if record["status"] != "ok":
            return None
        case, settings = case_of(record["identity"]), record["settings"]
        device, cores = settings["device"], int(settings["cores_per_device"])
        total = float(record["provenance"]["seconds_total"])
        machine = _machine(record["host"])
        ranks = record["window"]
        window = max(each["end"] for each in ranks) - min(each["start"] for each in ranks)
        timed = int(record["steps"]["measured"])
        # the window of a server is as long as its requests take to arrive
        speed = math.inf if case.arrival_rate else flops_of_window(case, settings, timed) / window
        all_steps = seconds_of_steps(case, settings, speed)
        busy = min(all_steps, total)
        speed = speed if case.arrival_rate else speed * all_steps / busy
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return None
    found = Measured(case, settings, device, cores, total, busy, speed, machine)
    return found if total > 0 and cores > 0 and speed > 0 else None


def scaled(measured: Measured, case: Case, config: Config) -> float:
    """The seconds of a repetition of `case`, from those of one of the same or of another case."""
    settings = document(case, config, 1)["settings"]
    speed = measured.speed
    if config.device == "cpu":
        speed *= config.cores_per_device / measured.cores
    idle = measured.total - measured.busy - _waiting(measured.case, measured.settings)
    seconds = max(idle, 0) + seconds_of_steps(case, settings, speed) + _waiting(case, settings)
    return min(seconds, config.timeout_of(case.workload, case.scenario))


def _waiting(case: Case, settings: Mapping[str, Any]) -> float:
    """How long a server waits for its requests."""
    return settings["measured_steps"] / case.arrival_rate if case.arrival_rate else 0.0


def flops(case: Case) -> float:
    """The FLOPs of a step of a device: of a model replica, those of its share."""
    each = workloads.of(case.workload).flops_per_sample(case.dimensions, made_as(case.scenario))
    replica = float(each) * (case.batch_size or GUESSED_BATCH) * case.layout.accumulation
    return replica / case.layout.devices_per_replica


def flops_of_window(case: Case, settings: Mapping[str, Any], steps: int) -> float:
    """The FLOPs of a device in a repetition's first window, of so many steps.

    Each test of the quality scenario is a forward pass of so many samples.
    """
    found = steps * flops(case)
    if scenarios.curved(case.scenario):
        own = workloads.of(case.workload)
        samples = workloads.data(case.workload)[case.data].tests * settings.get("evaluations", 0)
        found += samples * own.flops_per_sample(case.dimensions, "infer")
    return found


def seconds_of_steps(case: Case, settings: Mapping[str, Any], speed: float) -> float:
    """The seconds of all steps of a repetition on a device of this speed, in FLOP/s."""
    asked, least = settings["measured_steps"], settings.get("minimum_seconds", 0)
    step = flops(case) / speed
    window = max(flops_of_window(case, settings, asked) / speed, least)
    trial = asked * step if least else 0.0
    answered = asked * step if case.scenario == "infer" else 0.0  # its window for latency
    return settings["warmup_steps"] * step + trial + window + answered


def default_seconds(case: Case, config: Config) -> float:
    """A rough guess from the workload's FLOPs, for when nothing has been measured yet."""
    settings = document(case, config, 1)["settings"]
    if config.device == "cpu":
        speed = CPU_CORE_GFLOPS.get(case.framework, 30) * config.cores_per_device
        seconds: float = CPU_STARTUP_SECONDS.get(case.framework, 5)
        seconds += CPU_COMPILE_SECONDS.get(case.compiler, 10)
    else:
        speed = GPU_GFLOPS.get(case.precision, GPU_GFLOPS_MIXED)
        seconds = STARTUP_SECONDS + COMPILE_SECONDS.get(case.compiler, 30)
    seconds += SEVERAL_RANKS_SECONDS if case.devices > 1 else 0
    seconds += seconds_of_steps(case, settings, 1e9 * speed) + _waiting(case, settings)
    return min(seconds, config.timeout_of(case.workload, case.scenario))


def certificate_timer(results: Path = Path("results")) -> Callable[[str], float]:
    """A function from a certificate's path below results/ to the expected seconds of making it.

    From the certificate that was made before, here or for a release; else the median of those of
    the same framework and workload, or of the same workload.
    """

    @cache
    def known(workload: str, framework: str) -> dict[str, float]:
        """certificates by their names: their seconds; those made here count before others."""
        below = Path("certificates", workload, framework)
        paths = [*(ROOT / below).glob("*.json"), *(results / below).glob("*.json")]
        return {path.name: seconds for path in paths if (seconds := _certificate_seconds(path))}

    @cache
    def of_workload(workload: str) -> float:
        names = {
            path.name
            for folder in (ROOT, results)
            for path in (folder / "certificates" / workload).glob("*/")
        }
        found = [seconds for name in sorted(names) for seconds in known(workload, name).values()]
        return statistics.median(found) if found else CERTIFICATE_SECONDS

    def expected(certificate: str) -> float:
        _, workload, framework, name = certificate.split("/")
        found = known(workload, framework)
        if name in found:
            return found[name]
        return statistics.median(found.values()) if found else of_workload(workload)

    return expected


def _certificate_seconds(path: Path) -> float:
    """How long a certificate took; 0 where it does not say."""
    try:
        return float(json.loads(path.read_bytes())["provenance"]["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0
