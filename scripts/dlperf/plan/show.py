"""The plan as text: a page for people, within 100 columns, and plan.tsv for programs."""

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from dlperf.contract import searched
from dlperf.contract.case import COLUMNS, Case
from dlperf.contract.choices import MAX
from dlperf.plan import certificates, checked, data
from dlperf.plan.config import Config
from dlperf.plan.durations import certificate_timer, timer
from dlperf.plan.estimate import builds, check_disk, free_bytes, gigabytes
from dlperf.plan.state import is_due, record_path, states

STATES = ("done", "missing", "outdated", "failed", "unsupported")
GROUNDS = {
    "records": "earlier records of the same case",
    "rounds": "records of the same case in other rounds on this machine",
    "similar": "records of other cases of the same framework and workload, scaled by FLOPs",
    "defaults": "rough defaults, within a factor of 3",
}
SEARCH_TRIES = 11  # two of them as long as a repetition


def show(
    config: Config,
    cases: Sequence[Case],
    results: Path = Path("results"),
    backend: str = "",
    remake: bool = False,
) -> str:
    """Counts by state, a line for each case, reasons, time, environments, and disk.

    backend: what makes environments, if the command line says so; remake: whether certificates that
    come with the code are made again.
    """
    numbers = range(1, config.repetitions + 1)
    state = states(config, cases, results)
    lines = [
        f"Round {config.round}: {len(cases)} cases x {config.repetitions} repetitions on "
        + config.device,
        f"Repetitions: {_counts(state.values())}",
        "",
    ]
    expected = timer(config, results)
    seconds, grounds = 0.0, set()
    for workload in config.workloads.asked():
        steps = config.steps_of(workload)
        lines.append(f"{workload}, each {steps.warmup} + {steps.measured} steps")
        if least := config.minimum_seconds_of("train"):
            lines[-1] += f", or more for windows of {least:g} s"
        if (inferred := config.steps_of(workload, "infer")) != steps:
            lines[-1] += f"; infer {inferred.warmup} + twice {inferred.measured} batches"
        if rates := config.workloads.asked()[workload].arrival_rates_of("server"):
            lines[-1] += f"; server {', '.join(map(str, rates))} requests/s"
        if quality := config.workloads.asked()[workload].quality:
            lines[-1] += f"; quality {', '.join(map(str, quality.epochs))} epochs"
        lines += [f"  {'framework':<13}{'case':<44}{'seconds':>7}  repetitions"]
        for case in _by_framework(config, cases, workload):
            own = [state[case, number] for number in numbers]
            due = sum(is_due(config, word) for word in own)
            each, ground = expected(case)
            seconds += due * each
            grounds.update([ground] if due else [])
            shown = "" if case.unsupported else f"{each:.0f}"
            line = f"  {case.framework:<13}{case.name:<44}{shown:>7}  {_counts(own)}"
            lines.append(_wrapped(line, 68))
        lines.append("")
    lines += _reasons(cases)
    lines += _time(seconds, [text for ground, text in GROUNDS.items() if ground in grounds])
    lines += _searches(config, cases, expected, results)
    lines += _certificates(config, cases, results, backend, remake)
    lines += checked.lines(config, cases, expected, duration, results)
    lines += _environments(config, cases, results)
    lines += _data(cases, results)
    message = check_disk(builds(config, cases, results), data.missing(cases, results), results)
    if message:
        lines.append(_wrapped(message[0].upper() + message[1:], 0))
    to_run = [case for (case, _), word in state.items() if is_due(config, word)]
    if message := data.without_weights(to_run, results):
        lines.append(_wrapped(f"Refused: {message}", 0))
    return "\n".join(lines)


def _by_framework(config: Config, cases: Sequence[Case], workload: str) -> list[Case]:
    own = [case for case in cases if case.workload == workload]
    return sorted(own, key=lambda case: config.all_frameworks.index(case.framework))


def _wrapped(line: str, indent: int) -> str:
    spaces = " " * indent
    return textwrap.fill(line, 100, subsequent_indent=spaces, break_on_hyphens=False)


def _counts(states: Iterable[str]) -> str:
    """['done', 'done', 'failed:oom'] -> '2 done, 1 failed:oom'."""
    found = Counter(states)
    ordered = sorted(found, key=lambda state: (STATES.index(state.partition(":")[0]), state))
    return ", ".join(f"{found[state]} {state}" for state in ordered)


def _reasons(cases: Sequence[Case]) -> Iterator[str]:
    """Why cases are unsupported, with each reason once for each framework."""
    found = Counter((case.framework, case.unsupported) for case in cases if case.unsupported)
    if found:
        yield "Unsupported:"
        for (framework, reason), count in found.items():
            noun = "case" if count == 1 else "cases"
            yield _wrapped(f"  {framework:<13}{count} {noun}: {reason}", 15)
        yield ""


def _time(seconds: float, grounds: Sequence[str]) -> Iterator[str]:
    if not grounds:
        yield "Nothing is left to run."
        return
    yield f"Expected time: {duration(seconds)} of measuring, one repetition after another"
    yield from (f"  estimated from {ground}" for ground in grounds)


def _searches(
    config: Config,
    cases: Sequence[Case],
    expected: Callable[[Case], tuple[float, str]],
    results: Path,
) -> Iterator[str]:
    wanted = [case for case in cases if case.searched and not case.unsupported]
    folder = results / config.round
    missing = [case for case in wanted if not (folder / searched.path_of(case)).exists()]
    if wanted:
        seconds = SEARCH_TRIES * sum(expected(case)[0] for case in missing)
        left = f"{len(missing)} to do, at most about {duration(seconds)}"
        how = left if missing else "all are done"
        yield f"Searches for the largest that fits: {len(wanted)}, {how}"


def _certificates(
    config: Config, cases: Sequence[Case], results: Path, backend: str, remake: bool
) -> Iterator[str]:
    wanted = {
        case.certificate(config.device): certificates.backend_of(config, case.framework, backend)
        for case in cases
        if not case.unsupported
    }
    state = {
        path: certificates.state(path, made_with, results, remake)
        for path, made_with in wanted.items()
    }
    counts = Counter(state.values())
    if counts["there"] == len(wanted):
        yield f"Certificates of equal work: {len(wanted)}, all are there"
        return
    expected = certificate_timer(results)
    to_make = [path for path, word in state.items() if word == "to make"]
    seconds = sum(expected(path) for path in to_make)
    said = [f"{counts['there']} are there"] if counts["there"] else []
    said += [f"{counts['released']} taken from certificates/"] if counts["released"] else []
    said += [f"{len(to_make)} to make" + (f", about {duration(seconds)}" if to_make else "")]
    yield f"Certificates of equal work: {len(wanted)}, {', '.join(said)}"


def duration(seconds: float) -> str:
    """Seconds for people: 754 -> '13 min'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _environments(config: Config, cases: Sequence[Case], results: Path) -> Iterator[str]:
    wanted = builds(config, cases, results)
    if not wanted:
        yield "Environments: all are there."
        return
    download = sum(build.download_bytes for build in wanted)
    size = sum(build.size_bytes for build in wanted)
    known = f"{gigabytes(download)} to download, {gigabytes(size)} on disk"
    free = gigabytes(free_bytes(results))
    yield f"Environments to build: {known if size else 'sizes not known'}; {free} are free"
    for build in wanted:
        sizes = f"{gigabytes(build.download_bytes)}, {gigabytes(build.size_bytes)}"
        yield f"  {build.framework:<13}{sizes if build.size_bytes else 'size not known'}"


def _data(cases: Sequence[Case], results: Path) -> Iterator[str]:
    sets = data.missing(cases, results)
    if not sets:
        return
    sizes = f"{gigabytes(data.download_bytes(sets))} to download, "
    sizes += f"{gigabytes(sum(each.size_bytes for each in sets))} more on disk"
    yield f"Data to make: {sizes}; {gigabytes(free_bytes(results))} are free"
    for each in sets:
        yield f"  {each.folder:<26}from {', '.join(each.downloads)}"


def tsv(config: Config, cases: Sequence[Case]) -> str:
    """plan.tsv: for each repetition its identity, why it is unsupported, and its record."""
    dimensions = dict.fromkeys(name for case in cases for name in case.dimensions)
    columns = [
        *(name for name in COLUMNS if name not in ("round", "repetition")),
        *(*dimensions, "repetition", "unsupported", "record"),
    ]
    rows = [columns]
    for case in cases:
        for repetition in range(1, config.repetitions + 1):
            values = {
                **case.columns(config.round, repetition),
                "unsupported": case.unsupported,
                "record": record_path(config, case, repetition),
            }
            if case.searched:  # a search says the number; a plan does not depend on one
                values[case.searched] = MAX
            rows.append([str(values.get(column, "")) for column in columns])
    return "".join("\t".join(row) + "\n" for row in rows)
