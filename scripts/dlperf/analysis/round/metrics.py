"""Metrics in rows of cells.tsv, where a case has a row for each of them.

In: rows of cells.tsv. Out: those of one metric, and what a metric is called.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from dlperf import scenarios
from dlperf.analysis.round import labels, names
from dlperf.analysis.schema.rows import Cell
from dlperf.scenarios import Metric

#: What is drawn over batch sizes, from left to right.
OVER_BATCHES = ("throughput", "latency_p50")
#: What is drawn of each layout, likewise.
OVER_LAYOUTS = ("step_time", "memory")


def own(scenario: str) -> str:
    """The name of a scenario's own metric: what tables and figures are of if none is asked for."""
    return next(iter(scenarios.metrics(scenario)))


def of_row(row: Mapping[str, Any]) -> Metric:
    return scenarios.metrics(row["scenario"])[row["metric"]].of(row["workload"])


def is_own(row: Mapping[str, Any]) -> bool:
    return bool(row["metric"] == own(row["scenario"]))


def is_derived(row: Mapping[str, Any]) -> bool:
    """Whether a row of cells.tsv was made of other rows: see round/derived.py."""
    return bool(row.get("over") or row.get("together"))


def measured(rows: Iterable[Cell]) -> list[Cell]:
    """The rows of what was measured, without those that are derived from them."""
    return [row for row in rows if not is_derived(row)]


def select(rows: Iterable[Cell], name: str = "") -> list[Cell]:
    """The rows of one metric that was measured; without a name each scenario's own."""
    return of_metric(measured(rows), name)


def of_metric(rows: Iterable[Cell], name: str = "") -> list[Cell]:
    """The rows of one metric, also derived ones; without a name each scenario's own."""
    return [row for row in rows if (row["metric"] == name if name else is_own(row))]


def shown(rows: Iterable[Cell]) -> list[tuple[str, list[Cell]]]:
    """(name, rows) of each table that stands in a report, in the order of the rows.

    One of another metric than the scenario's own does where any cell has a value.
    """
    tables: dict[str, dict[str, list[Cell]]] = {}
    for row in rows:
        tables.setdefault(row["table"], {}).setdefault(row["metric"], []).append(row)
    found = []
    for table, of_metric in tables.items():
        scenario = next(iter(of_metric.values()))[0]["scenario"]
        for name in scenarios.shown(scenario):
            some = any(row["status"] == "ok" for row in of_metric.get(name, ()))
            if some or (name == own(scenario) and name in of_metric):
                found.append(
                    (table if name == own(scenario) else f"{table}-{name}", of_metric[name])
                )
    return found


def over_batches(rows: Iterable[Cell], group: str) -> list[Cell]:
    """The rows of a figure over batch sizes (`names.over_batches`), on the fewest devices."""
    return _on_fewest_devices(
        row
        for row in rows
        if row["metric"] in OVER_BATCHES and names.without_batch(row["table"]) == group
    )


def over_layouts(rows: Iterable[Cell]) -> list[Cell]:
    """Of a table's rows those of its figure of layouts: on topologies that have several of them.

    Without what is unsupported: not every framework can split a model.
    """
    able = [
        row
        for row in rows
        if row["scenario"] == "train"
        and row["metric"] in OVER_LAYOUTS
        and row["status"] != "unsupported"
    ]
    layouts: dict[tuple[int, int], set[str]] = {}
    for row in able:
        topology = row["nodes"], row["devices_per_node"]
        layouts.setdefault(topology, set()).add(labels.layout(row))
    return [row for row in able if len(layouts[row["nodes"], row["devices_per_node"]]) > 1]


def distribution(rows: Iterable[Cell], table: str) -> list[Cell]:
    """The rows of a table's figure of latencies, its marked percentiles, on the fewest devices."""
    return _on_fewest_devices(
        row
        for row in rows
        if row["table"] == table and row["metric"] in scenarios.marked(row["scenario"])
    )


def tested(rows: Iterable[Cell], table: str) -> list[Cell]:
    """The rows of a table's figure of curves: its scenario's own metric, on the fewest devices."""
    own = [row for row in rows if row["table"] == table and scenarios.curved(row["scenario"])]
    return _on_fewest_devices(select(own))


def _on_fewest_devices(rows: Iterable[Cell]) -> list[Cell]:
    found = list(rows)
    fewest = min((labels.devices(row) for row in found), default=0)
    return [row for row in found if labels.devices(row) == fewest]


def better_first(rows: Iterable[Cell]) -> list[Cell]:
    """Rows of one metric, the best value first."""
    return sorted(
        rows, key=lambda row: row["median"] if of_row(row).lower_is_better else -row["median"]
    )


def better_by(row: Cell, other: Cell) -> float:
    """By which factor the first one is better than the other: 2.0, twice as good."""
    factor = row["median"] / other["median"]
    return 1 / factor if of_row(row).lower_is_better else factor


def higher_first(better: Cell, other: Cell) -> tuple[Cell, Cell]:
    """The two in the order in which their ratio is above 1."""
    return (other, better) if of_row(better).lower_is_better else (better, other)


def superlative(row: Cell, best: bool = True) -> str:
    """What the best (or the worst) value of a metric is: 'highest' or 'lowest'."""
    return "lowest" if of_row(row).lower_is_better == best else "highest"


def present(having: Iterable[str], scenario: str) -> list[Metric]:
    """The metrics of a scenario: all that are always shown, and of the others those in `having`."""
    return [
        metric
        for name, metric in scenarios.metrics(scenario).items()
        if name in scenarios.shown(scenario) or name in having
    ]
