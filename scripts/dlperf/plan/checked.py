"""Which cases have spot runs, and what those and their replays take.

In: the config, cases, and what a round has already. Out: reasons, and lines of the plan.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from dlperf import scenarios, workloads
from dlperf.contract import draws
from dlperf.contract.case import Case
from dlperf.measure import bounds
from dlperf.plan.config import Config


def unchecked(config: Config, case: Case) -> str:
    """Why a case has no spot run in this round, or ""."""
    if case.unsupported:
        return case.unsupported
    steps = config.steps_of(case.workload, case.scenario).measured
    allowed = config.checks
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
    groups = {draws.group_of(case): case for case in wanted}
    replays = [case for case in groups.values() if not (folder / draws.replay_of(case)).exists()]
    said = f"Spot checks of what is timed: {len(wanted)} cases in {len(groups)} groups"
    if missing or replays:
        runs = sum(expected(case)[0] * runs_of(case) for case in missing)
        took = sum(
            bounds.cost(
                case, config.device, config.steps_of(case.workload, case.scenario).measured
            )[0]
            for case in replays
        )
        said += f"; spot runs about {duration(runs)}, replays about {duration(took)}"
    elif wanted:
        said += ", all are there"
    yield said
    yield from _alone(reasons.values())


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
