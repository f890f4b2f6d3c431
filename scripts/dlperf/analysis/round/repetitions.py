"""The repetitions of a round, case by case.

In: measurements.tsv.gz as a DataFrame. Out: of each case what its cells are made of. All cases are
grouped at once: a round may have a hundred thousand repetitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas

from dlperf.analysis import frames
from dlperf.analysis.round import disturbances
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import Row

#: What tells the cases of a round apart. An imported one has several implementations of one case.
CASE = ("table", "workload", "framework", "compiler", *columns.PUBLISHED, "case")
#: By what the repetitions of a case may differ, and should not.
KINDS = (
    *("git_commit", "git_dirty", *columns.MADE_WITH, "data_manifest_sha256"),
    *("ran_beside_sha256", "unvouched"),
    *("device", "gpu", "cpu", "hostname", "nodes_used", "peak_precision", "cuda_graphs"),
)
LARGEST = ("host_peak_rss_bytes", "device_peak_bytes")
MEDIANS = ("loader_share", "loss_first", "loss_last")


@dataclass(frozen=True)
class Repetitions:
    """The repetitions of one case. All but `first`, `statuses` and `reasons` is of the ok ones."""

    first: Row
    statuses: Mapping[str, int]  # how many have a status
    reasons: Mapping[str, str]  # of the first one that has it
    values: Mapping[str, Sequence[float]]  # by metric, of those that have one
    summary: Row  # n_outliers, LARGEST, MEDIANS
    kinds: Sequence[Row]  # a row for each combination of KINDS
    flags: Sequence[str]

    @property
    def asked(self) -> int:
        return sum(self.statuses.values())


def by_case(measured: pandas.DataFrame) -> list[Repetitions]:
    """Each case's repetitions, in the order of the rows."""
    keys = [name for name in CASE if name in measured]
    number = measured.groupby(keys, sort=False, dropna=False).ngroup()
    measured = measured.assign(number=number)
    ok = measured[measured["status"] == "ok"]
    own = ok.groupby("number")
    largest, medians = own[list(LARGEST)].max(), own[list(MEDIANS)].median()
    outliers = own["outlier"].count().rename("n_outliers")
    summaries = _by_number(pandas.concat([outliers, largest, medians], axis=1).reset_index())
    statuses = _by_number(measured.groupby(["number", "status"]).size().reset_index(name="count"))
    reasons = _by_number(
        measured.drop_duplicates(["number", "status"])[["number", "status", "reason"]]
    )
    distinct = ok[["number", *KINDS]].drop_duplicates()
    kinds = _by_number(distinct)
    values = {name: _values(ok["number"], ok[name]) for name in columns.METRICS if name in measured}
    raised = disturbances.raised(measured, ok, distinct)
    return [
        Repetitions(
            first=first,
            statuses={row["status"]: row["count"] for row in statuses[number]},
            reasons={row["status"]: row["reason"] for row in reasons[number]},
            values={name: found.get(number, []) for name, found in values.items()},
            summary=summaries[number][0] if number in summaries else {},
            kinds=kinds.get(number, []),
            flags=[flag for flag, cases in raised.items() if number in cases],
        )
        for number, first in enumerate(frames.rows(measured.drop_duplicates("number")))
    ]


def _values(number: pandas.Series, metric: pandas.Series) -> dict[int, list[float]]:
    """The values of each case that has some, in the order of its rows."""
    there = metric.notna().to_numpy()
    cases, values = number.to_numpy()[there], metric[there].to_numpy()
    order = np.argsort(cases, kind="stable")
    own, starts = np.unique(cases[order], return_index=True)
    parts = np.split(values[order], starts[1:])
    return {int(case): part.tolist() for case, part in zip(own, parts, strict=False)}


def _by_number(frame: pandas.DataFrame) -> dict[int, list[Row]]:
    """The rows of each case, without its number."""
    found: dict[int, list[Row]] = {}
    for row in frames.rows(frame):
        found.setdefault(row.pop("number"), []).append(row)
    return found
