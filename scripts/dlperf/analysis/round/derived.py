"""Rows of cells.tsv that are made of other rows of it: of one precision over another, and of one
batch of all devices, each in a table of its own.

In: the rows of what was measured. Out: theirs. `over` names the precision that a ratio is over,
`together` the batch of all devices; of measured rows both are empty. A publication has none.
"""

from collections.abc import Sequence
from typing import cast

from dlperf import scenarios
from dlperf.analysis.round import flags, labels, metrics, names
from dlperf.analysis.schema.rows import Cell, value_of
from dlperf.workloads.cases import base_case, case_of_row


def rows(cells: Sequence[Cell]) -> list[Cell]:
    """The rows that are derived from those of what was measured, which have all columns."""
    return [*_over_precisions(cells), *_of_totals(cells)]


def _over_precisions(cells: Sequence[Cell]) -> list[Cell]:
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


def _of_totals(cells: Sequence[Cell]) -> list[Cell]:
    """The rows of the tables of one batch of all devices (`names.of_totals`).

    Their ratios are over that batch on the base's devices. `together`: the batch.
    """
    tables: dict[str, list[Cell]] = {}
    for row in cells:
        total = row["global_batch_size"]
        if total and not row.get("kind"):
            table = names.in_total(row["table"], row["batch_size"], total)
            tables.setdefault(table, []).append(_together(row, table))
    return [
        row
        for own in tables.values()
        if len({(row["nodes"], row["devices_per_node"]) for row in own}) > 1
        or metrics.over_layouts(own)
        for row in own
    ]


def _together(row: Cell, table: str) -> Cell:
    ends = ("", "_low", "_high")
    made = {
        **row,
        **{f"ratio{end}": value_of(row, f"together_ratio{end}") for end in (*ends, "_coverage")},
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
    if metrics.of_row(row).adds_up and made["ratio"] is not None:
        case = case_of_row(row)
        more = case.devices / base_case(case).devices
        made |= {f"efficiency{end}": made[f"ratio{end}"] / more for end in ends}
    return cast(Cell, made)


def _place(row: Cell, precision: str) -> tuple[str, ...]:
    """The place of the same work in this precision."""
    start = f"{row['workload']}-{row['scenario']}-"
    table = names.in_precision(row["table"], start, row["precision"], precision)
    return (*labels.series_key(row), table, labels.short_place(row), row["metric"])


def _ratio(row: Cell, base: Cell) -> Cell:
    said, over = f"{row['precision']}-over-{base['precision']}", base["precision"]
    start = f"{row['workload']}-{row['scenario']}-"
    table = names.in_precision(row["table"], start, row["precision"], said)
    ends = ("", "_low", "_high")
    made = {
        **row,
        **dict.fromkeys(("rank", "rank_last", "detectable", "cv"), None),
        **dict.fromkeys((f"{key}{end}" for key in ("ratio", "efficiency") for end in ends), None),
        **{f"median{end}": value_of(row, f"precision_ratio{end}") for end in ends},
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
    return cast(Cell, made)
