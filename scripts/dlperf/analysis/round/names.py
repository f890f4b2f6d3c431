"""Names of tables, figures and series, known from the plan alone.

In: the plan's cases. Out: identifiers such as `resnet50-train-fp32-b8` (one table a workload,
scenario, precision and batch size per device, or, as `resnet50-train-fp32-total16`, with the same
batch of all devices together) and `resnet50-train-fp32-b8-scaling`. Data and the workload's
dimensions are spelled only where they vary; layouts never are, as a table has rows for each. Cheap
to import: every Snakemake process reads it, cluster jobs included.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dlperf import frameworks, scenarios, workloads

if TYPE_CHECKING:  # a figure needs names only, and must not wait for the plan's own imports
    from dlperf.plan import Case


#: The figure of a table that is of no metric: over devices, with the ideal.
SCALING = "scaling"
#: The figure of a table with several layouts on one topology: step time and memory of each.
LAYOUTS = "layouts"
#: What other precisions are shown over, equal batch: the first of these that the round has.
FULL_PRECISIONS = ("fp32", "tf32")
#: The figure of tables that differ in batch size: throughput and latency over it.
BATCHES = "batches"
#: The figure of how latencies are distributed, of a scenario that has some.
ECDF = "ecdf"
#: The file of a round that it is drawn from, beside CELLS.
LATENCIES = "latencies.tsv.gz"
#: The figure of how runs of the quality scenario go, and the file that it is drawn from.
CURVE, CURVES = "curve", "curves.tsv.gz"
#: Other files of a round, in its folder.
MEASUREMENTS, CELLS, SEARCHES = "measurements.tsv.gz", "cells.tsv", "searches.tsv"
ROOFLINE, PEAKS, SUMS = "roofline.tsv", "peaks.yaml", "SHA256SUMS"
#: Verdicts on the figures of others that a config names under `beside`; and the folder of copies of
#: those of other rounds.
VERDICTS, BESIDE = "beside.tsv", "beside"
#: The kinds of files of a table.
TABLED = ("tsv", "md", "html")
#: The kinds of files of a figure that are always made, and those that are made on request.
DRAWN, DRAWN_ON_REQUEST = ("svg", "png"), ("pdf",)


def by_table(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases of each table, by the table's identifier, in the order of the plan."""
    cases = list(cases)
    kinds: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.workload, case.scenario), []).append(case)
    varying = {kind: _varying(kind[0], own) for kind, own in kinds.items()}
    tables: dict[str, list[Case]] = {}
    for case in cases:
        tables.setdefault(_table(case, varying[case.workload, case.scenario]), []).append(case)
    return tables


def table_ids(cases: Iterable[Case]) -> list[str]:
    """Each table, of its scenario's own metric, and those of the other metrics that are shown."""
    cases, found = list(cases), []
    for table, members in by_table(cases).items():
        _, *others = scenarios.shown(members[0].scenario)
        found += [table, *(f"{table}-{name}" for name in others)]
    for table, scenario in over_precision(cases).items():
        found += [table, *(f"{table}-{name}" for name in scenarios.shown(scenario)[1:])]
    for table, members in of_totals(cases).items():
        _, *others = scenarios.shown(members[0].scenario)
        found += [table, *(f"{table}-{name}" for name in others)]
    return found


def figure_ids(cases: Iterable[Case]) -> list[str]:
    """The figures of each table: of its scenario's metrics that are shown, as of a training the
    throughput, the distribution of its latencies, scaling where the table has more than one
    topology, and layouts where it has several on one."""
    cases, found = list(cases), []
    for table, members in by_table(cases).items():
        found += [f"{table}-{name}" for name in scenarios.shown(members[0].scenario)]
        found += [f"{table}-{ECDF}"] if scenarios.marked(members[0].scenario) else []
        found += [f"{table}-{CURVE}"] if scenarios.curved(members[0].scenario) else []
        if len({case.topology for case in members}) > 1 and not members[0].searched:
            found.append(f"{table}-{SCALING}")
        found += [f"{table}-{LAYOUTS}"] if have_layouts(members) else []
    for table, scenario in over_precision(cases).items():
        found += [f"{table}-{name}" for name in scenarios.shown(scenario)]
    for table, members in of_totals(cases).items():
        found += [f"{table}-{name}" for name in scenarios.shown(members[0].scenario)]
        if len({case.topology for case in members}) > 1 and not members[0].searched:
            found.append(f"{table}-{SCALING}")
        found += [f"{table}-{LAYOUTS}"] if have_layouts(members) else []
    return found + over_batches(cases)


def of_totals(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """The cases of each table of one batch of all devices, where it is of several topologies, or
    of several layouts."""
    found: dict[str, list[Case]] = {}
    for table, members in by_table(cases).items():
        for case in members:
            if case.together and case.global_batch_size:  # 0 where devices hold no replica
                total = in_total(table, case.batch_size, case.global_batch_size)
                found.setdefault(total, []).append(case)
    return {
        name: own
        for name, own in found.items()
        if len({case.topology for case in own}) > 1 or have_layouts(own)
    }


def have_layouts(cases: Iterable[Case]) -> bool:
    """Whether these cases of a table, of a training, have several layouts on one topology."""
    able = [case for case in cases if case.scenario == "train" and not case.unsupported]
    pairs = {(case.topology, case.layout) for case in able}
    return len(pairs) > len({topology for topology, _ in pairs})


def in_total(table: str, batch_size: int, global_batch_size: int) -> str:
    """'resnet50-train-fp32-total16' of the table 'resnet50-train-fp32-b8' on two devices."""
    return re.sub(rf"-b{batch_size}(?=-|$)", f"-total{global_batch_size}", table, count=1)


def over_precision(cases: Iterable[Case]) -> dict[str, str]:
    """The tables of one precision over another, `resnet50-train-amp-over-fp32-b8`: scenarios."""
    tables = by_table(cases)
    found = {}
    for table, (case, *_) in tables.items():
        for base in full_precisions(case.precision):
            start = f"{case.workload}-{case.scenario}-"
            if in_precision(table, start, case.precision, base) in tables:
                name = in_precision(table, start, case.precision, f"{case.precision}-over-{base}")
                found[name] = case.scenario
                break
    return found


def full_precisions(precision: str) -> tuple[str, ...]:
    """What a precision is shown over: mixed ones over fp32, else TF32; TF32 over fp32."""
    if precision in FULL_PRECISIONS:
        return FULL_PRECISIONS[: FULL_PRECISIONS.index(precision)]
    return FULL_PRECISIONS


def in_precision(table: str, start: str, precision: str, other: str) -> str:
    """The name of the table of another precision."""
    return start + other + table.removeprefix(start + precision)


def have_curves(cases: Iterable[Case]) -> bool:
    """Whether a round of these cases has the file CURVES."""
    return any(scenarios.curved(case.scenario) for case in cases)


def have_latencies(cases: Iterable[Case]) -> bool:
    """Whether a round of these cases has the file LATENCIES."""
    return any(scenarios.marked(case.scenario) for case in cases)


def over_batches(cases: Iterable[Case]) -> list[str]:
    """The figures over batch sizes of what infers with several: `resnet50-infer-fp32-batches`."""
    tables = [name for name, own in by_table(cases).items() if own[0].scenario == "infer"]
    groups = [without_batch(name) for name in tables]
    several = [name for name in dict.fromkeys(groups) if groups.count(name) > 1]
    return [f"{name}-{BATCHES}" for name in several]


def without_batch(table: str) -> str:
    """'resnet50-infer-fp32' of the table 'resnet50-infer-fp32-b8'."""
    return re.sub(r"-b\d+", "", table, count=1)


def of_other_metrics(cases: Iterable[Case]) -> list[str]:
    """Names of tables, and of figures, that are made on request: `<table>-memory`."""
    cases, found = list(cases), []
    for table, members in {**by_table(cases), **of_totals(cases)}.items():
        workload, scenario = members[0].workload, members[0].scenario
        found += [
            f"{table}-{name}"
            for name in scenarios.metrics(scenario, workload)
            if name not in scenarios.shown(scenario)
        ]
    return found


def split(name: str, tables: Iterable[str]) -> tuple[str, str]:
    """(table, what stands behind it) of a table's or figure's name; ("", "") of another one."""
    if name in tables:
        return name, ""
    table, _, rest = name.rpartition("-")
    return (table, rest) if table in tables else ("", "")


def known(name: str, names: Sequence[str], what: str) -> str:
    """`name` if it is among `names`. Raises LookupError that says what there is, nearest first."""
    if name in names:
        return name
    nearest = difflib.get_close_matches(name, names, 1, 0.0)
    hint = f"; did you mean '{nearest[0]}'?" if nearest else ""
    raise LookupError(f"no {what} '{name}' in this round{hint} [there are: {', '.join(names)}]")


def framework_title(framework: str) -> str:
    """'pytorch' -> 'PyTorch'; the bare name where a framework has no module yet."""
    own = frameworks.find(framework)
    return own.title if own else framework


def series_title(framework: str, compiler: str, implementation: str = "") -> str:
    """'PyTorch', or 'PyTorch [inductor]': a column of a table, a line of a figure."""
    title = implementation or framework_title(framework)
    return title if compiler == "none" else f"{title} [{compiler}]"


def _varying(workload: str, own: Sequence[Case]) -> set[str]:
    """What differs between these cases of a workload, all of one scenario."""
    varying = {
        name
        for name in workloads.dimensions(workload)
        if len({case.dimensions[name] for case in own}) > 1
        or any(case.searched == name for case in own)
    }
    return varying | ({"data"} if len({case.data for case in own}) > 1 else set())


def _table(case: Case, varying: set[str]) -> str:
    parts = [case.workload, case.scenario, case.precision, case.batch]
    parts += [f"e{case.epochs}"] if case.epochs else []
    parts += [f"r{case.arrival_rate}"] if case.arrival_rate else []
    if "data" in varying:
        parts.append(case.data)
    for name, each in case.dimensions.declared.items():
        if name in varying:
            value = "max" if name == case.searched else case.dimensions[name]
            parts.append(each.spell(value))
    return "-".join(parts)
