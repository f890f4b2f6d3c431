"""Which cases have spot runs, and what those and their replays take.

In: the config, cases, and what a round has already. Out: reasons, and lines of the plan.
"""

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dlperf import scenarios, workloads
from dlperf.contract import draws
from dlperf.contract.case import Case
from dlperf.measure import bounds
from dlperf.plan import searches
from dlperf.plan.cases import size_of
from dlperf.plan.config import Config

#: So many replays of a workload show how far what is expected of them is off.
REPLAYS = 9


def unchecked(config: Config, case: Case) -> str:
    """Why a case has no spot run in this round, or ""."""
    if case.unsupported:
        return case.unsupported
    steps = config.steps_of(case.workload, case.scenario).measured
    allowed = config.checks
    if case.searched:  # of its size, the memory alone is known before
        size = bounds.committed(case, config.memory_limit_of(case) or 0)
        if why := bounds.beyond(0, size, allowed.seconds, allowed.gigabytes):
            return why
    return bounds.reason(
        case,
        config.device,
        steps,
        bounds.kinds(case.precision),
        allowed.seconds,
        allowed.gigabytes,
    )


def unreplayed(config: Config, case: Case) -> str:
    """Why no test of a case of the quality scenario is replayed in this round, or ""."""
    allowed = config.checks
    return case.unsupported or bounds.unreplayed(case, allowed.seconds, allowed.gigabytes)


def runs_of(case: Case) -> int:
    """How many trainings, or inferences, a spot run is."""
    return 2 if scenarios.load(case.scenario).TRAINS and workloads.draws(case) else 1


def lines(
    config: Config,
    cases: Sequence[Case],
    expected: Callable[[Case], tuple[float, str]],
    duration: Callable[[float], str],
    results: Path,
) -> Iterator[str]:
    """What the plan says: how many spot runs and replays, what they take, and who has none."""
    yield from _lines_of_tests(config, cases, results)
    counted = [case for case in cases if scenarios.load(case.scenario).COUNTED]
    timed = [case for case in cases if case not in counted and not case.unsupported]
    reasons = {case: unchecked(config, case) for case in timed}
    wanted = [case for case in timed if not reasons[case]]
    if not timed:
        return
    folder = results / config.round
    missing = [case for case in wanted if not (folder / draws.spot_run_of(case)).exists()]
    groups: dict[str, list[Case]] = {}
    for case in wanted:
        groups.setdefault(draws.group_of(case), []).append(case)
    replays = [own for own in groups.values() if not (folder / draws.replay_of(own[0])).exists()]
    said = f"Spot checks of what is timed: {len(wanted)} cases in {len(groups)} groups"
    if missing or replays:
        runs = sum(expected(case)[0] * runs_of(case) for case in missing)
        took_by_estimate = _learned(results)
        took = sum(
            _seconds(config, own, folder) * took_by_estimate.get(own[0].workload, 1)
            for own in replays
        )
        said += f"; spot runs about {duration(runs)}, replays about {duration(took)}"
        if any(own[0].searched for own in replays):
            said += f", at most {config.checks.seconds} s for each group whose sizes are searched"
    elif wanted:
        said += ", all are there"
    yield said
    yield from _alone(reasons.values())


def _seconds(config: Config, group: Sequence[Case], folder: Path) -> float:
    """What a group's replay takes, about; of sizes that are searched only those that were found
    count, each of which is replayed by itself."""
    steps = config.steps_of(group[0].workload, group[0].scenario).measured
    if not group[0].searched:
        return bounds.cost(group[0], config.device, steps)[0]
    sized = [searches.found(case, folder) for case in group]
    took = sum(bounds.cost(case, config.device, steps)[0] for case in sized if size_of(case))
    return min(took, config.checks.seconds)


def _learned(results: Path) -> dict[str, float]:
    """Workload -> what the last REPLAYS of it here took, over what was expected; medians."""
    found: dict[str, list[float]] = {}
    paths = results.glob("*/checks/replays/*.json")
    for path in sorted(paths, key=lambda each: each.stat().st_mtime, reverse=True):
        own = found.setdefault(path.name.partition("-")[0], [])
        if len(own) < REPLAYS and (ratio := _took_by_estimate(path)):
            own.append(ratio)
    return {workload: statistics.median(ratios) for workload, ratios in found.items() if ratios}


def _took_by_estimate(path: Path) -> float:
    """0 where the document does not say."""
    try:
        said: dict[str, Any] = json.loads(path.read_bytes())["provenance"]
        return float(said["seconds"]) / float(said["expected_seconds"])
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError):
        return 0.0


def _lines_of_tests(config: Config, cases: Sequence[Case], results: Path) -> Iterator[str]:
    """The same of the quality scenario."""
    own = [case for case in cases if scenarios.curved(case.scenario) and not case.unsupported]
    if not own:
        return
    reasons = {case: unreplayed(config, case) for case in own}
    wanted = [
        draws.evaluation_of(case, number)
        for case in own
        if not reasons[case]
        for number in range(1, config.repetitions + 1)
    ]
    there = sum((results / config.round / path).exists() for path in wanted)
    yield f"Replays of evaluations: {len(wanted)}, {there} are there"
    yield from _alone(reasons.values())


def _alone(reasons: Iterable[str]) -> Iterator[str]:
    for reason, count in Counter(filter(None, reasons)).items():
        yield f"  certificate only: {count} {'case' if count == 1 else 'cases'}: {reason}"
