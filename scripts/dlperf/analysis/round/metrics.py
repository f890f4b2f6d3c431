"""Metrics in rows of cells.tsv, where a case has a row for each of them.

In: rows of cells.tsv. Out: those of one metric, and what a metric is called.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dlperf import scenarios
from dlperf.analysis.round import flags, labels, names
from dlperf.analysis.schema.files import Row
from dlperf.scenarios import Metric
from dlperf.workloads.cases import base_case, case_of_row

#: What is drawn over batch sizes, from left to right.
OVER_BATCHES = ("throughput", "latency_p50")


def own(scenario: str) -> str:
    """The name of a scenario's own metric: what tables and figures are of if none is asked for."""
    return next(iter(scenarios.metrics(scenario)))


def of_row(row: Mapping[str, Any]) -> Metric:
    return scenarios.metrics(row["scenario"])[row["metric"]].of(row["workload"])


def is_own(row: Mapping[str, Any]) -> bool:
    return bool(row["metric"] == own(row["scenario"]))


def select(rows: Iterable[Row], name: str = "") -> list[Row]:
    """The rows of one metric; without a name each scenario's own."""
    return [row for row in rows if (row["metric"] == name if name else is_own(row))]


def shown(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """(name, rows) of each table that stands in a report, in the order of the rows.

    One of another metric than the scenario's own does where any cell has a value.
    """
    tables: dict[str, dict[str, list[Row]]] = {}
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


def with_derived(cells: Sequence[Row]) -> list[Row]:
    """The rows of cells.tsv, and behind them those of the tables that are made of them: of one
    precision over another, and of one batch of all devices."""
    return [*cells, *_over_precisions(cells), *_of_totals(cells)]


def _over_precisions(cells: Sequence[Row]) -> list[Row]:
    """The rows of the tables of one precision over another.

    They have the ratio in place of the median, its interval and coverage; `over` names the other
    precision. What is said against one of the two cells is said of their ratio; over one that is
    excluded from ranks there is none.
    """
    by_place = {_place(row, row["precision"]): row for row in cells}
    found = []
    for row in cells:
        base = next(
            (
                by_place[place]
                for each in names.full_precisions(row["precision"])
                if (place := _place(row, each)) in by_place
            ),
            None,
        )
        if base and not row.get("kind") and row["metric"] in scenarios.shown(row["scenario"]):
            found.append(_ratio(row, base))
    return found


def _of_totals(cells: Sequence[Row]) -> list[Row]:
    """The rows of the tables of one batch of all devices (`names.of_totals`).

    Their ratios are over that batch on the base's devices. `together`: the batch.
    """
    tables: dict[str, list[Row]] = {}
    for row in cells:
        if total := row.get("global_batch_size"):
            table = names.in_total(row["table"], row["batch_size"], total)
            tables.setdefault(table, []).append(_together(row, table))
    return [
        row
        for own in tables.values()
        if len({(row["nodes"], row["devices_per_node"]) for row in own}) > 1
        for row in own
    ]


def _together(row: Row, table: str) -> Row:
    ends = ("", "_low", "_high")
    made = {
        **row,
        **{f"ratio{end}": row[f"together_ratio{end}"] for end in (*ends, "_coverage")},
        **dict.fromkeys((f"efficiency{end}" for end in ends), None),
        "table": table,
        "together": row["global_batch_size"],
        "flags": " ".join(
            # this table's ratio is the one with an equal global batch
            {flags.NO_GLOBAL_BATCH_RATIO: flags.NO_SPEED_UP}.get(flag, flag)
            for flag in (row["flags"] or "").split()
            if flag != flags.NO_SPEED_UP
        ),
    }
    if of_row(row).adds_up and made["ratio"] is not None:
        case = case_of_row(row)
        more = case.devices / base_case(case).devices
        made |= {f"efficiency{end}": made[f"ratio{end}"] / more for end in ends}
    return made


def _place(row: Row, precision: str) -> tuple[str, ...]:
    """The place of the same work in this precision."""
    start = f"{row['workload']}-{row['scenario']}-"
    table = names.in_precision(row["table"], start, row["precision"], precision)
    return (*labels.series_key(row), table, labels.short_place(row), row["metric"])


def _ratio(row: Row, base: Row) -> Row:
    said, over = f"{row['precision']}-over-{base['precision']}", base["precision"]
    start = f"{row['workload']}-{row['scenario']}-"
    table = names.in_precision(row["table"], start, row["precision"], said)
    ends = ("", "_low", "_high")
    made = {
        **row,
        **dict.fromkeys(("rank", "rank_last", "detectable", "cv"), None),
        **dict.fromkeys((f"{key}{end}" for key in ("ratio", "efficiency") for end in ends), None),
        **{f"median{end}": row[f"precision_ratio{end}"] for end in ends},
        "table": table,
        "precision": said.replace("-", " "),
        "over": over,
        "unit": f"× {over}",
        "coverage": row["precision_ratio_coverage"],
        "n_outliers": None,
        "n_ok": min(row["n_ok"], base["n_ok"]),
        "certificate": base["certificate"] if flags.comparable(row) else row["certificate"],
        "flags": " ".join(dict.fromkeys(f"{row['flags']} {base['flags']}".split())),
    }
    if doubts := flags.excluding(base):
        why = "; ".join(map(flags.flag, doubts))
        made |= {"status": "excluded", "reason": f"in {over}: {why}"}
    for each in (base, row):
        if each["status"] != "ok":
            reason = f"in {each['precision']}: {each['reason']}"
            made |= {"status": each["status"], "reason": reason}
    return made


def over_batches(rows: Iterable[Row], group: str) -> list[Row]:
    """The rows of a figure over batch sizes (`names.over_batches`), on the fewest devices."""
    return _on_fewest_devices(
        row
        for row in rows
        if row["metric"] in OVER_BATCHES and names.without_batch(row["table"]) == group
    )


def distribution(rows: Iterable[Row], table: str) -> list[Row]:
    """The rows of a table's figure of latencies, its marked percentiles, on the fewest devices."""
    return _on_fewest_devices(
        row
        for row in rows
        if row["table"] == table and row["metric"] in scenarios.marked(row["scenario"])
    )


def tested(rows: Iterable[Row], table: str) -> list[Row]:
    """The rows of a table's figure of curves: its scenario's own metric, on the fewest devices."""
    own = [row for row in rows if row["table"] == table and scenarios.curved(row["scenario"])]
    return _on_fewest_devices(select(own))


def _on_fewest_devices(rows: Iterable[Row]) -> list[Row]:
    found = list(rows)
    fewest = min((labels.devices(row) for row in found), default=0)
    return [row for row in found if labels.devices(row) == fewest]


def better_first(rows: Iterable[Row]) -> list[Row]:
    """Rows of one metric, the best value first."""
    return sorted(
        rows, key=lambda row: row["median"] if of_row(row).lower_is_better else -row["median"]
    )


def better_by(row: Row, other: Row) -> float:
    """By which factor the first one is better than the other: 2.0, twice as good."""
    factor = row["median"] / other["median"]
    return 1 / factor if of_row(row).lower_is_better else factor


def higher_first(better: Row, other: Row) -> tuple[Row, Row]:
    """The two in the order in which their ratio is above 1."""
    return (other, better) if of_row(better).lower_is_better else (better, other)


def superlative(row: Row, best: bool = True) -> str:
    """What the best (or the worst) value of a metric is: 'highest' or 'lowest'."""
    return "lowest" if of_row(row).lower_is_better == best else "highest"


def present(having: Iterable[str], scenario: str) -> list[Metric]:
    """The metrics of a scenario: all that are always shown, and of the others those in `having`."""
    return [
        metric
        for name, metric in scenarios.metrics(scenario).items()
        if name in scenarios.shown(scenario) or name in having
    ]
