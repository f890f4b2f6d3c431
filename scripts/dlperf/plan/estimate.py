"""Estimates what a round takes: the seconds of a repetition, and bytes to download and to keep.

The input is cases, earlier records, and the measured sizes of environments. The estimates help
people to decide whether to start. No measurement depends on them.
"""

import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from dlperf import environments, workloads
from dlperf.contract import strict_json
from dlperf.contract.case import Case, made_as
from dlperf.plan import data
from dlperf.plan.cases import document
from dlperf.plan.config import Config
from dlperf.plan.state import records

# Rough defaults until there are records: the training speed of a device in GFLOP/s, on one core of
# a 2023 server CPU in fp32, and on a GPU between a V100 (ResNet-50 in fp32, as DLPerf published it:
# 9,000) and an H100. They are right within a factor of about 3.
CPU_CORE_GFLOPS = {
    "pytorch": 66,
    "tensorflow": 56,
    "tensorflow1": 34,
    "mxnet": 71,
    "paddlepaddle": 29,
    "oneflow": 24,
    "mindspore": 16,
    "jax": 29,
}
GPU_GFLOPS = {"fp32": 15_000, "tf32": 30_000}
GPU_GFLOPS_MIXED = 60_000
STARTUP_SECONDS = 12
CERTIFICATE_SECONDS = 20  # on two cores, one after the other
COMPILE_SECONDS = {"none": 0, "static": 2, "graph": 20, "xla": 30, "inductor": 60, "cinn": 60}


GUESSED_BATCH = 256  # where the largest one is still to be found
SEARCH_TRIES = 11  # two of them as long as a repetition


class Build(NamedTuple):
    """An environment that is still to be built."""

    framework: str
    download_bytes: int
    size_bytes: int


def timer(config: Config, results: Path = Path("results")) -> Callable[[Case], tuple[float, str]]:
    """A function from a case to the expected seconds of one repetition, and their basis.

    'records': the median of its own records; 'similar': the median of the same framework and
    workload in this round; 'defaults': the rough table above.
    """
    same, similar = defaultdict(list), defaultdict(list)
    runs = results / config.round / "runs"
    for path in records(runs):
        seconds = _seconds_total(path)
        if seconds:
            folder = path.parent.relative_to(runs).as_posix()
            same[folder].append(seconds)
            similar[folder.rpartition("/")[0]].append(seconds)

    def expected(case: Case) -> tuple[float, str]:
        if case.folder in same:
            return statistics.median(same[case.folder]), "records"
        pair = f"{case.workload}/{case.framework}"
        if pair in similar:
            return statistics.median(similar[pair]), "similar"
        return default_seconds(case, config), "defaults"

    return expected


def _seconds_total(path: Path) -> float:
    """How long a successful repetition took; 0 if the record does not say."""
    try:
        record = strict_json.read(path)
        return float(record["provenance"]["seconds_total"]) if record["status"] == "ok" else 0.0
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def default_seconds(case: Case, config: Config) -> float:
    """A rough guess from the workload's FLOPs, for when nothing has been measured yet."""
    facts = workloads.facts(case.workload)
    gigaflops = facts.flops_per_sample(case.dimensions, made_as(case.scenario))
    batch_size = case.batch_size or GUESSED_BATCH
    gigaflops *= batch_size * case.parallel.accumulation / 1e9
    if config.device == "cpu":
        speed = CPU_CORE_GFLOPS.get(case.framework, 30) * config.cores_per_device
    else:
        speed = GPU_GFLOPS.get(case.precision, GPU_GFLOPS_MIXED)
    asked = document(case, config, 1)["settings"]
    compilation = COMPILE_SECONDS.get(case.compiler, 30)
    seconds = STARTUP_SECONDS + compilation
    windows = 2 if case.scenario == "infer" else 1
    steps = asked["warmup_steps"] + windows * asked["measured_steps"]
    seconds += steps * gigaflops / speed
    if case.arrival_rate:  # a server waits for requests
        seconds += asked["measured_steps"] / case.arrival_rate
    if case.scenario == "quality":  # each test is a forward pass of so many samples
        tests = workloads.data(case.workload)[case.data].tests * asked["evaluations"]
        seconds += tests * facts.flops_per_sample(case.dimensions, "infer") / 1e9 / speed
    return min(seconds, config.timeout_of(case.workload, case.scenario))


def builds(config: Config, cases: Sequence[Case], results: Path = Path("results")) -> list[Build]:
    """The environments that the round needs and that are not built yet."""
    needed = {case.framework for case in cases if not case.unsupported}
    folders = {each: results / "environments" / f"{each}.{config.device}" for each in needed}
    missing = [
        (each, config.device)
        for each in config.frameworks
        if each in needed and environments.read(folders[each] / "env.json").get("status") != "ok"
    ]
    return builds_of(config, missing)


def builds_of(config: Config, asked: Sequence[tuple[str, str]]) -> list[Build]:
    """What is known of the sizes of environments, each a framework and a device.

    Where the config gives an interpreter, nothing is built.
    """
    found = []
    for framework, device in asked:
        if framework not in config.environments.interpreters:
            sizes = environments.estimate(framework, device)
            found.append(Build(framework, sizes["download_bytes"], sizes["size_bytes"]))
    return found


def free_bytes(results: Path = Path("results")) -> int:
    """The free space where results are written, even if the folder does not exist yet."""
    folder = results.resolve()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check_disk(
    wanted: Sequence[Build], sets: Sequence[data.Data], results: Path = Path("results")
) -> str:
    """A message if environments and data that are to be made do not fit on the disk, else ''.

    Downloads are counted too, because the installer's cache keeps them.
    """
    needed = sum(each.size_bytes + each.download_bytes for each in wanted)
    needed += data.disk_bytes(sets)
    free = free_bytes(results)
    if needed <= free:
        return ""
    names = ", ".join(each.framework for each in wanted)
    what = [f"the environments of {names}"] if wanted else []
    what += [f"the data in {', '.join(each.folder for each in sets)}"] if sets else []
    return (
        f"too little disk: {' and '.join(what)} need about {gigabytes(needed)} with their "
        f"downloads, but {results}/ has {gigabytes(free)} free. Free some space, put {results}/ "
        "on another disk (a link is fine), or ask for fewer `frameworks`."
    )


def gigabytes(count: float) -> str:
    """Bytes for people: 4200000000 -> '4.2 GB'."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
