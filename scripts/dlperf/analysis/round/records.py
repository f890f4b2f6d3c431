"""All records of a round, read and checked against the plan.

In: the round's config and its folder runs/. Out: one `Repetition` for each that the plan asks for,
with its record where there is one. A file that is not what its path says stops the merge: it would
be a wrong number.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from dlperf import frameworks, plan, scenarios, workloads
from dlperf.analysis.schema import documents
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract import searched, storage
from dlperf.contract.case import INFERRING, UNSAID, upgraded
from dlperf.measure import outside
from dlperf.plan import Case, Config, searches
from dlperf.scenarios import early_return, quality, server, train

#: Settings that change what a number means; a record measured with others is not of this round.
BINDING_SETTINGS = (
    *("device", "warmup_steps", "measured_steps", "cores_per_device"),
    *("evaluations", "memory_limit_bytes", "minimum_seconds"),
)
#: Records that a process reads in one go, and from which on another process is worth it.
CHUNK, WORTH = 1000, 1500
#: How far a window may be from its UTC stamps (a clock may be set meanwhile), steps from their
#: window, and a window from the whole seconds of the repetition's start and end.
UTC_SECONDS, UTC_SHARE, STEPS_SHARE, SPAN_SECONDS = 0.1, 0.02, 0.01, 5.0
#: How many wrong files a message names.
SHOWN = 20

Taken = TypeVar("Taken")


@dataclass(frozen=True)
class Repetition:
    """One repetition of the plan. `record` is None, and `sha256` empty, where none was made."""

    case: Case
    number: int
    path: str
    record: dict[str, Any] | None
    sha256: str


def read_round(
    config: Config, cases: list[Case], runs: Path, take: Callable[[list[Repetition]], Taken]
) -> list[Taken]:
    """Read every record that the plan asks for, and `take` what is wanted of each case's.

    Case by case, in the order of the plan, so that no two cases' records are in memory at once; a
    large round by a process a core (`take` must be known by a name there). `path` of a repetition
    is relative to the folder that holds `runs`. Raises AnalysisError, which names every file that
    is half-written, not a record, or of another case than its path says.
    """
    many = -(-CHUNK // config.repetitions)  # cases
    chunks = [cases[first : first + many] for first in range(0, len(cases), many)]
    workers = min(len(os.sched_getaffinity(0)), len(cases) * config.repetitions // WORTH)
    read = partial(_read_cases, config, runs, take)
    if workers < 2:
        found = [read(chunk) for chunk in chunks]
    else:
        with ProcessPoolExecutor(workers) as pool:
            found = list(pool.map(read, chunks))
    problems = [problem for _, wrong in found for problem in wrong]
    if problems:
        more = len(problems) - SHOWN
        listed = "\n".join(problems[:SHOWN]) + (f"\n... and {more} more" if more > 0 else "")
        raise AnalysisError(
            f"{listed}\nThese are not records of this round, so nothing was merged. Move them "
            "away and run the same command again: what is missing is measured anew."
        )
    return [taken for own, _ in found for taken in own]


def _read_cases(
    config: Config, runs: Path, take: Callable[[list[Repetition]], Taken], cases: list[Case]
) -> tuple[list[Taken], list[str]]:
    """(what is taken of each case, what is wrong with its files)."""
    taken, problems = [], []
    for case in cases:
        own, wrong = _read_case(config, case, runs)
        problems += wrong
        if not problems:
            taken.append(take(own))
    return taken, problems


def _read_case(config: Config, case: Case, runs: Path) -> tuple[list[Repetition], list[str]]:
    found, problems = [], []
    unsized = case
    try:
        case = searches.found(case, runs.parent)
    except ValueError as error:
        problems.append(str(error))
    wanted = plan.document(case, config, 1)
    folder = case.folder
    for number in range(1, config.repetitions + 1):
        shown = f"{runs.name}/{folder}/rep{number}.json"
        path = f"{runs}/{folder}/rep{number}.json"
        record, sha256 = None, ""
        try:
            with open(path, "rb", buffering=0) as stream:
                content = stream.read()
        except FileNotFoundError:
            pass
        except OSError as error:
            if storage.is_lacking(error):
                raise
            problems.append(f"{path}: cannot be read: {error.strerror}")
        else:
            sha256 = hashlib.sha256(content).hexdigest()
            if case.searched and case == unsized:
                search = runs.parent / searched.path_of(case)
                problems.append(f"{path}: its size is not known: there is no {search}")
                continue
            wanted["identity"]["repetition"] = number
            wanted["settings"]["seed"] = plan.seed(case, config, number)
            record, wrong = parse(content, wanted, case)
            problems += [f"{path}: {each}" for each in wrong]
        found.append(Repetition(case, number, shown, record, sha256))
    return found, problems


def parse(
    content: bytes, wanted: dict[str, Any], case: Case
) -> tuple[dict[str, Any] | None, list[str]]:
    """(record, problems) of a file's content that should hold `wanted`, the document of `case`."""
    try:
        record = documents.parse(content)
    except ValueError as error:
        if not content.strip():
            return None, ["is empty"]
        return None, [f"is not JSON, perhaps half-written: {error}"]
    if isinstance(record, dict) and record.get("kind") == "imported":
        return None, [
            "is an imported record: it was not measured here, so no measured round has it"
        ]
    if wrong := documents.problems(record, documents.RECORD):
        return None, [f"is not a dlperf.record/2: {each}" for each in wrong]
    problems = [*_disagreements(record, wanted)]
    if not problems and record["status"] == "ok":
        try:
            problems = [*_contradictions(record, case)]
        except OverflowError:  # an integer of hundreds of digits
            problems = ["a number is too large"]
    return (None, problems) if problems else (record, [])


def _disagreements(record: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    identity, settings = record["identity"], record["settings"]
    if identity != wanted["identity"]:
        identity = whole(identity, wanted["identity"]["workload"])
        for key in sorted({*identity, *wanted["identity"]}):
            there, asked = identity.get(key), wanted["identity"].get(key)
            if there != asked:
                yield f"identity.{key} is {there!r}, but its path says {asked!r}"
    for key in BINDING_SETTINGS:
        unsaid = UNSAID.get(key)
        there, asked = settings.get(key, unsaid), wanted["settings"].get(key, unsaid)
        if there != asked:
            yield (
                f"was measured with {key}={there!r}, but the round's config.yaml asks for {asked!r}"
            )
    curved = scenarios.curved(wanted["identity"]["scenario"])  # there a repetition is a seed
    if curved and settings.get("seed") != wanted["settings"]["seed"]:
        yield f"was trained from seed {settings.get('seed')!r}, not {wanted['settings']['seed']!r}"


def whole(identity: Mapping[str, Any], workload: str) -> dict[str, Any]:
    """A document's identity with all fields that one has now.

    A dimension that it does not name came later, and had its standard value before.
    """
    declared = workloads.dimensions(workload)
    return {**{name: each.standard for name, each in declared.items()}, **upgraded(identity)}


def _contradictions(record: dict[str, Any], case: Case) -> Iterator[str]:
    """What an ok record says of itself in two places must agree."""
    steps, ranks = record["steps"], _ranks(case)
    measured = steps["measured"]
    yield from _count(record)
    if len(steps["seconds"]) != measured:
        yield f"steps.seconds has {len(steps['seconds'])} values for {measured} measured steps"
    samples = quality.samples_of(case, measured)
    if record["samples"] != samples:
        yield f"samples is {record['samples']}, but the batches of its steps make {samples}"
    if sorted(window["rank"] for window in record["window"]) != list(range(ranks)):
        yield f"window does not have each of the {ranks} ranks once"
        return
    if any(window["end"] <= window["start"] for window in record["window"]):
        yield "window ends before it starts"
        return
    yield from _clocks(record)
    yield from _processes(record, ranks)
    yield from _parts(record, case)


def _count(record: dict[str, Any]) -> Iterator[str]:
    """Whether the window has as many steps as the settings, or the pace of the trial, say."""
    steps, settings = record["steps"], {**UNSAID, **record["settings"]}
    wanted, why = settings["measured_steps"], "settings.measured_steps"
    if settings["minimum_seconds"] > 0:
        if "trial" not in steps:
            yield "steps.trial is missing: settings.minimum_seconds is not 0"
            return
        wanted, why = train.timed_steps(settings, steps["trial"]), "by steps.trial it should be"
    elif "trial" in steps:
        yield "steps.trial is there, but settings.minimum_seconds is 0"
    if steps["measured"] != wanted:
        yield f"steps.measured is {steps['measured']}, but {why} {wanted}"


def _clocks(record: dict[str, Any]) -> Iterator[str]:
    """Whether windows, steps, UTC stamps and the whole repetition are as long as each other says.

    Steps do not fill the window where a framework returns before the work is done. A clock's UTC
    may be set while it runs, and nodes' clocks differ, so these are held to one node and loosely.
    """
    provenance, windows = record["provenance"], record["window"]
    total = provenance.get("seconds_total")
    longest = max(window["end"] - window["start"] for window in windows)
    if total is not None and longest > total + 0.01:
        yield f"window: {longest:.3f} s are longer than all of it, {total} s (seconds_total)"
    for window in windows:
        seconds, utc = window["end"] - window["start"], window["end_utc"] - window["start_utc"]
        if abs(seconds - utc) > UTC_SECONDS + UTC_SHARE * seconds:
            yield (
                f"window of rank {window['rank']} is {seconds:.3f} s long, but {utc:.3f} s by its "
                "UTC stamps"
            )
        if reason := outside.disagreement(window):
            yield f"window of rank {window['rank']}: {reason}"
    if len({window["start"] for window in windows}) > 1:
        yield "window: not all ranks start at once, as the stopwatch lets them go"
    first = next(window for window in windows if window["rank"] == 0)
    steps, seconds = sum(record["steps"]["seconds"]), first["end"] - first["start"]
    if steps > seconds * (1 + STEPS_SHARE) + 0.001:
        yield f"steps.seconds are {steps:.3f} s in a window of {seconds:.3f} s"
    if record["identity"]["nodes"] == 1:
        try:
            start = datetime.fromisoformat(provenance["start_utc"]).timestamp()
            end = datetime.fromisoformat(provenance["end_utc"]).timestamp()
        except ValueError as error:
            yield f"provenance: start_utc or end_utc is not a time: {error}"
            return
        early = min(window["start_utc"] for window in windows) < start - SPAN_SECONDS
        if early or max(window["end_utc"] for window in windows) > end + SPAN_SECONDS:
            yield "window lies outside provenance.start_utc and end_utc"


def _processes(record: dict[str, Any], ranks: int) -> Iterator[str]:
    """Whether the stopwatch saw each rank's processes do no more than the case allows."""
    found, settings = record["processes"], record["settings"]
    may_work = early_return.may_work(settings["device"], record["identity"]["data"])
    if sorted(each["rank"] for each in found) != list(range(ranks)):
        yield f"processes does not have each of the {ranks} ranks once"
        return
    lengths = {each["rank"]: each["end"] - each["start"] for each in record["window"]}
    cores = settings["cores_per_device"]
    for each in found:
        if reason := outside.too_much(each, record["steps"]["measured"], may_work):
            yield f"processes of rank {each['rank']}: {reason}"
        if settings["device"] == "cpu" and len(each["cores_allowed"]) > cores:
            yield f"processes of rank {each['rank']}: it has more than the case's {cores} cores"
        # on another node, the window begins and ends when the messages come
        length = lengths[each["rank"]]
        if each["elapsed_seconds"] < length * (1 - STEPS_SHARE) - outside.CLOCKS_SECONDS:
            yield (
                f"processes of rank {each['rank']} were watched for "
                f"{each['elapsed_seconds']:.3f} s in a window of {length:.3f} s"
            )


def _parts(record: dict[str, Any], case: Case) -> Iterator[str]:
    """Whether each rank, step, unit and setting is the case's."""
    steps, settings, parity = record["steps"], record["settings"], record["parity"]
    ranks = _ranks(case)
    if steps["warmup"] != settings["warmup_steps"]:
        yield (
            f"steps.warmup is {steps['warmup']}, but settings.warmup_steps "
            f"{settings['warmup_steps']}"
        )
    losses = steps.get("loss", [])
    if len(losses) != _losses(case, steps["measured"]):
        yield f"steps.loss has {len(losses)} values for {steps['measured']} measured steps"
    if sorted(each["rank"] for each in record["memory"]) != list(range(ranks)):
        yield f"memory does not have each of the {ranks} ranks once"
    if not math.isfinite(math.fsum(losses)):
        yield "steps.loss is not finite"
    if case.scenario == "infer":
        yield from _latency(record, case)
    if case.scenario == "server":
        yield from _requests(record, case)
    if scenarios.curved(case.scenario):
        yield from _curve(record, case)
    counted = record.get("energy")
    math.fsum(each["joules"] for each in counted or ())  # OverflowError where it has none
    if counted and sorted(each["device"] for each in counted) != list(range(ranks)):
        yield f"energy does not have each of the {ranks} devices once"
    if (steps.get("loader_seconds") or 0) > record["provenance"].get("seconds_total", math.inf):
        yield "steps.loader_seconds are longer than all of it (provenance.seconds_total)"
    names: dict[int, list[str]] = {}
    for node, name in sorted(
        {(w["rank"] * case.nodes // ranks, w["node"]) for w in record["window"]}
    ):
        names.setdefault(node, []).append(name)
    for node, found in names.items():
        if len(found) > 1:
            yield f"window: ranks of node {node} name several nodes: {', '.join(found)}"
    unit, parameters, matrices = _facts(case.workload, tuple(case.dimensions.items()))
    if case.scenario not in INFERRING:
        yield from _weights(
            record.get("weights", []), ranks, matrices, case.layout.devices_per_replica > 1
        )
    if record["unit"] != unit:
        yield f"unit is {record['unit']!r}, but {case.workload} is measured in {unit!r}"
    wanted = {"parameters": parameters, "precision": case.precision, "compiler": case.compiler}
    for key, value in wanted.items():
        if key in parity and (parity[key] != value or type(parity[key]) is not type(value)):
            yield f"parity.{key} is {parity[key]!r}, but the case's is {value!r}"
    if case.precision == "fp32" and parity.get("compute_dtype", "float32") != "float32":
        yield f"parity.compute_dtype is {parity['compute_dtype']!r} in a case of fp32"


def _ranks(case: Case) -> int:
    """The processes of a case: one a device, or one a node."""
    return case.nodes * frameworks.ranks_of_node(case.framework, case.devices_per_node)


def _losses(case: Case, measured: int) -> int:
    """How many losses a record of so many steps has."""
    if case.scenario in INFERRING:
        return 0
    framework = frameworks.find(case.framework)  # None while there is only its name
    return measured if framework is None or framework.keeps_losses else 1


def _latency(record: dict[str, Any], case: Case) -> Iterator[str]:
    """Whether each rank has a time of each batch, within the time that all took."""
    if "latency" not in record:
        yield "latency is missing"
        return
    ranks, measured = record["latency"]["ranks"], record["settings"]["measured_steps"]
    if sorted(each["rank"] for each in ranks) != list(range(case.devices)):
        yield f"latency does not have each of the {case.devices} ranks once"
    for each in ranks:
        if len(each["seconds"]) != measured:
            found = len(each["seconds"])
            yield f"latency of rank {each['rank']} has {found} values, not {measured}"
        if math.fsum(each["seconds"]) > record["provenance"].get("seconds_total", math.inf):
            yield f"latency of rank {each['rank']} is longer than all of it (seconds_total)"


def _requests(record: dict[str, Any], case: Case) -> Iterator[str]:
    """Whether each request came as scheduled, and was answered in its turn, within the window."""
    if "server" not in record:
        yield "server is missing"
        return
    identity, settings = record["identity"], record["settings"]
    if sorted(each["rank"] for each in record["server"]["ranks"]) != list(range(case.devices)):
        yield f"server does not have each of the {case.devices} ranks once"
        return
    ends = {each["rank"]: each["end"] - each["start"] for each in record["window"]}
    for each in record["server"]["ranks"]:
        due = server.schedule(
            *(settings["seed"], identity["repetition"], each["rank"], case.arrival_rate),
            settings["measured_steps"],
        )
        if any(len(each[key]) != len(due) for key in ("due", "begun", "ended")):
            yield f"server of rank {each['rank']} has not {len(due)} requests"
        elif any(
            not math.isclose(*pair, rel_tol=1e-9) for pair in zip(each["due"], due, strict=True)
        ):
            yield f"server of rank {each['rank']}: its requests are not due as scheduled"
        else:
            before = [0.0, *each["ended"][:-1]]
            turns = zip(each["due"], before, each["begun"], each["ended"], strict=True)
            if any(not max(due, last) <= begun < ended for due, last, begun, ended in turns):
                yield f"server of rank {each['rank']}: requests are not answered one after another"
            if each["ended"][-1] > ends[each["rank"]] + 0.001:
                yield f"server of rank {each['rank']} ends after its window"


def _curve(record: dict[str, Any], case: Case) -> Iterator[str]:
    """Whether the model was tested when it should be, with the whole test set, in the window."""
    if "curve" not in record:
        yield "curve is missing"
        return
    settings, judge = record["settings"], workloads.of(case.workload).quality
    assert judge, "a case of the scenario quality has it"
    score, tests = judge.score, workloads.data(case.workload)[case.data].tests
    steps = quality.evaluated_at(settings["measured_steps"], settings.get("evaluations", 0))
    wanted = [quality.samples_of(case, step) for step in steps]
    if [point["samples"] for point in record["curve"]] != wanted:
        yield f"curve has not its {len(wanted)} points, evenly over the samples"
    before = 0.0
    for point in record["curve"]:
        at = f"curve at {point['samples']} samples"
        if point["count"] != tests:
            yield f"{at}: {point['count']} are tested, but {case.data} has {tests} to test with"
        value = judge.value(point["sums"])
        if not 0 <= value <= (score.most or math.inf):
            yield f"{at}: {score.name} {value:g}; at most {score.most} is possible"
        if not before < point["seconds_trained"] < point["seconds_tested"]:
            yield f"{at}: its seconds do not follow the ones before"
        before = point["seconds_tested"]
    if before > train.window_seconds(record) * (1 + STEPS_SHARE) + 0.001:
        yield f"curve: its last test ends after {before:.3f} s, behind the window"


def _weights(
    found: list[dict[str, Any]], ranks: int, matrices: int, is_split: bool
) -> Iterator[str]:
    """Whether each rank's trained weights are there once, and can be what is said of them.

    A rank of a split model has some of the matrices, or a part of each.
    """
    if sorted(each["rank"] for each in found) != list(range(ranks)):
        yield f"weights does not have each of the {ranks} ranks once"
    said: dict[str, tuple[float, int]] = {}
    for each in found:
        change, unchanged = each["change"], each["unchanged"]
        none_moved = change == 0 and not is_split
        if unchanged > matrices or (none_moved and unchanged < matrices):
            yield (
                f"weights of rank {each['rank']}: {unchanged} of {matrices} kernels and matrices "
                f"are unchanged, and change is {change}"
            )
        if said.setdefault(each["sha256"], (change, unchanged)) != (change, unchanged):
            yield f"weights of rank {each['rank']}: the same sha256 as another rank's, other values"


@cache
def _facts(workload: str, dimensions: tuple[tuple[str, Any], ...]) -> tuple[str, int, int]:
    """A workload's unit; how many values, and matrices, of a model of that size are trained."""
    own, sizes = workloads.of(workload), dict(dimensions)
    matrices = sum(each.is_matrix for each in own.parameters(sizes).values())
    return own.unit, workloads.parameter_count(workload, sizes), matrices


def strangers(cases: list[Case], repetitions: int, runs: Path) -> list[str]:
    """Records under runs/ that the plan does not ask for: left out of tables, and named."""
    planned = {case.folder for case in cases}
    asked = {f"rep{number}.json" for number in range(1, repetitions + 1)}
    found = []
    for folder, _, names in os.walk(runs):
        inside = Path(folder).relative_to(runs).as_posix()
        for name in names:
            if not name.endswith(".json"):
                continue
            if inside not in planned or name not in asked:
                found.append(f"{runs.name}/{inside}/{name}")
    return sorted(found)
