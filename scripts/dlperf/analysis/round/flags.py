"""Flags of cells: what a reader must know before believing a number.

In: a cell, its ok repetitions, and what only the whole round shows. Out: the flags, and their
meaning in words. docs/statistics.md has the rule of each.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dlperf import workloads
from dlperf.analysis.schema.files import Row
from dlperf.analysis.statistics.medians import median

#: Below this share of idle CPU time before the start, something else was running on the host.
IDLE_SHARE = 0.9
#: Above this share of the host's CPU time in the window, something else was running beside it.
FOREIGN_SHARE = 0.1
#: Above this share of the window spent waiting for batches, it is reading that was measured.
LOADER_SHARE = 0.02
#: A loss of the timed window may be so far from the median over the frameworks of its table, as a
#: share of it: in float32, in other precisions, and where dropout makes it random.
LOSS_SHARE, LOSS_SHARE_ROUNDED, LOSS_SHARE_RANDOM = 1e-3, 1e-2, 0.1
#: And so much of the way that losses went from the first measured step to the last one.
LOSS_MOVE = 0.25
NOT_EQUIVALENT = "not-equivalent"
FLAGS = {
    f"{NOT_EQUIVALENT}:missing": "not equivalent: no certificate of equal work was made",
    "certificate-stale": "its certificate of equal work was made with other code or another lock",
    "partial": "fewer repetitions are ok than were asked for",
    "mixed-code": "repetitions were measured at different commits",
    "mixed-environment": "repetitions were measured with different locks",
    "mixed-data": "repetitions were measured on different data",
    "suspect:scaling-above-100%": "scaling efficiency is above 100 % by more than the noise",
    "suspect:overlapping-repetitions": "another repetition ran on the same host at that time",
    "suspect:busy-host-before": "the host was not idle before a repetition started",
    "suspect:loader": "steps waited for data for more than 2 % of the time",
    "suspect:mfu-above-100%": "MFU is above 100 %: a wrong peak, a calibration that was disturbed, "
    "or less work than is counted",
    "suspect:throttled": "a processor was slowed down by heat or a power brake: see `throttled`",
    "suspect:drift": "the host's speed drifted, and this was measured at other times than the rest",
    "suspect:losses": "its losses are not those of the other frameworks, or do not change: it may "
    "compute something else while it is timed than its certificate proves",
    "suspect:foreign-load": "other processes used the host's CPU in the timed window",
}

#: What only the whole round shows: records that overlap, cells that drift moved, other losses.
Disturbed = Mapping[str, set[Any]]


def found(cell: Row, ok: Sequence[Row], disturbed: Disturbed) -> Iterable[str]:
    """The flags of a cell with these ok repetitions; those of its certificate: certificates.py."""
    if cell["n_ok"] < cell["n_asked"]:
        yield "partial"
    if len({(row["git_commit"], row["git_dirty"]) for row in ok}) > 1:
        yield "mixed-code"
    if len({row["lock_sha256"] for row in ok}) > 1:
        yield "mixed-environment"
    if len({row["data_manifest_sha256"] for row in ok}) > 1:
        yield "mixed-data"
    if (cell.get("efficiency_low") or 0) > 1:
        yield "suspect:scaling-above-100%"
    if any(row["record"] in disturbed["overlapping-repetitions"] for row in ok):
        yield "suspect:overlapping-repetitions"
    if any(
        row["idle_share_before"] is not None and row["idle_share_before"] < IDLE_SHARE for row in ok
    ):
        yield "suspect:busy-host-before"
    if any((row["foreign_cpu_share"] or 0) > FOREIGN_SHARE for row in ok):
        yield "suspect:foreign-load"
    if (cell["loader_share"] or 0) > LOADER_SHARE:
        yield "suspect:loader"
    if max(cell.get("mfu_stated") or 0, cell.get("mfu_measured") or 0) > 1:
        yield "suspect:mfu-above-100%"
    if any(row["throttled"] for row in ok):
        yield "suspect:throttled"
    if (cell["workload"], cell["framework"], cell["case"]) in disturbed["drift"]:
        yield "suspect:drift"
    if (cell["workload"], cell["framework"], cell["case"]) in disturbed["losses"]:
        yield "suspect:losses"


def flag(text: str) -> str:
    """A flag in words; 'not-equivalent:<tier>[:<tensor>]' names the tier and the tensor."""
    if text in FLAGS or not text.startswith(NOT_EQUIVALENT):
        return FLAGS[text]
    _, tier, *tensor = text.split(":", 2)
    where = f", tensor {tensor[0]}" if tensor else ""
    return f"not equivalent: its certificate fails in the tier {tier}{where}"


def not_equivalent(row: Mapping[str, Any]) -> bool:
    """Whether a cell's number stands without a proof of equal work."""
    return row["status"] == "ok" and row["certificate"] in ("failed", "missing")


def comparable(row: Mapping[str, Any]) -> bool:
    """Whether a cell's number may be ranked: equal work is certified, in the cell's environment."""
    return row["status"] == "ok" and row["certificate"] == "passed"


def strange_losses(rows: Sequence[Row]) -> set[tuple[str, str, str]]:
    """Cells whose losses in the timed window differ from those beside them, or do not change.

    All frameworks start from the same weights and see the same batches. The middle of two would be
    neither's: a table of less than three is not compared.
    """
    cells: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["status"] == "ok" and row["loss_first"] is not None:
            cells.setdefault((row["workload"], row["framework"], row["case"]), []).append(row)
    tables: dict[tuple[Any, ...], dict[tuple[str, str, str], tuple[float, float]]] = {}
    found = set()
    for cell, own in cells.items():
        place = tuple(own[0][key] for key in ("table", "nodes", "devices_per_node"))
        losses = tuple(median([row[key] for row in own]) for key in ("loss_first", "loss_last"))
        tables.setdefault((*place, own[0]["precision"]), {})[cell] = (losses[0], losses[1])
        if any(r["measured_steps"] > 1 and r["loss_first"] == r["loss_last"] for r in own):
            found.add(cell)
    for (*_, precision), beside in tables.items():
        if len(beside) < 3:
            continue
        middles = [median(list(each)) for each in zip(*beside.values(), strict=True)]
        moved = LOSS_MOVE * abs(middles[0] - middles[1])
        for cell, own_losses in beside.items():
            share = LOSS_SHARE if precision == "fp32" else LOSS_SHARE_ROUNDED
            if hasattr(workloads.facts(cell[0]), "DROPOUT"):
                share = LOSS_SHARE_RANDOM
            for loss, middle in zip(own_losses, middles, strict=True):
                if abs(loss - middle) > share * middle + moved:
                    found.add(cell)
    return found


def overlapping(rows: Sequence[Row]) -> set[str]:
    """Records whose run shared a host with another run at the same time.

    Both the timed windows (microseconds) and the whole runs (seconds, as records keep them) are
    compared: a repetition that only starts up disturbs the window of another one as well.
    """
    run = _overlapping(rows, "start_utc", "end_utc")
    return run | _overlapping(rows, "window_start_utc", "window_end_utc")


def _overlapping(rows: Iterable[Row], first: str, last: str) -> set[str]:
    spans: dict[str, list[tuple[datetime, datetime, str]]] = {}
    for row in rows:
        if row[first] and row[last]:
            start, end = datetime.fromisoformat(row[first]), datetime.fromisoformat(row[last])
            for host in (row["nodes_used"] or row["hostname"]).split():
                spans.setdefault(host, []).append((start, end, row["record"]))
    found: set[str] = set()
    for each in spans.values():
        each.sort()
        _, latest, owner = each[0]
        for start, end, record in each[1:]:
            if start < latest:
                found |= {owner, record}
            if end > latest:
                latest, owner = end, record
    return found
