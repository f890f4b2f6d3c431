"""What pipelines leave unused: their bubble as the schedule says, and what was measured.

In: a case that is split by layers, and its repetitions beside those of one stage's devices. Out:
columns of its cell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dlperf.analysis.schema.files import Row
from dlperf.analysis.statistics.medians import median, ratio_interval
from dlperf.contract.case import Case


def bubble(case: Case) -> float | None:
    """The share of a step in which a stage has nothing to do, (p - 1) / (m + p - 1), of p stages of
    equal length and m micro-steps (Narayanan et al. 2021, section 2.2); None without stages.

    Of both schedules that frameworks have here: 1F1B and GPipe differ in memory alone.
    """
    stages, micro_steps = case.layout.pipeline_parallel, case.layout.accumulation
    return (stages - 1) / (micro_steps + stages - 1) if stages > 1 else None


def without_stages(case: Case) -> Iterator[Case]:
    """The same layout on one stage's devices: with as many micro-steps, else with one."""
    stages = case.layout.pipeline_parallel
    devices = case.devices // stages
    if devices <= case.devices_per_node:
        alone = case.on(1, devices)
    else:
        alone = case.on(devices // case.devices_per_node, case.devices_per_node)
    for micro_steps in dict.fromkeys((case.layout.accumulation, 1)):
        layout = replace(case.layout, pipeline_parallel=1, accumulation=micro_steps)
        yield replace(alone, layout=layout)


def idle(stages: int, values: Sequence[float], alone: Sequence[float]) -> Row:
    """How much of its devices' speed a pipeline does not reach: the bubble, stages of unequal
    length, and messages between them.

    values, alone: throughputs of the pipeline, and of the same layout on one stage's devices, which
    would do `stages` times that.
    """
    found = ratio_interval(values, alone)
    return {
        "idle": 1 - median(values) / median(alone) / stages,
        "idle_low": 1 - found.high / stages,
        "idle_high": 1 - found.low / stages,
        "idle_coverage": found.coverage,
    }
