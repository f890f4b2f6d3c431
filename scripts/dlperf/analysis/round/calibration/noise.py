"""How much repetitions of one cell scatter, and whether their host became slower or faster.

In: rows of measurements.tsv.gz. Out: the noise floor of the round, by workload and in all; the
drift of each host over the campaign. Only repetitions of one cell are ever compared.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

import numpy as np
from scipy.special import gammaincinv, ndtr

from dlperf.analysis.schema.rows import Measurement
from dlperf.analysis.statistics.medians import (
    Interval,
    coefficient_of_variation,
    median,
    median_interval,
)

#: What tells cells apart.
CELL = ("workload", "framework", "case")
Cell = tuple[str, str, str]
#: The columns of measurements.tsv.gz that are looked at.
COLUMNS = (*CELL, "table", "status", "throughput", "window_start_utc", "nodes_used", "hostname")

#: Below this probability of so much order in time by chance, a host is said to drift.
DRIFT_PROBABILITY = 0.01


@dataclass(frozen=True)
class Floor:
    """Noise of the repeated cells of one workload, or of all ("")."""

    workload: str
    cells: int
    repetitions: int
    noise: float  # standard deviation of a repetition, as a share of its cell's value
    interval: Interval  # of `noise`, over the cells
    largest: float  # the largest coefficient of variation of a cell


@dataclass(frozen=True)
class Drift:
    """What time did to the repetitions of one host."""

    host: str
    repetitions: int
    hours: float  # from the first to the last of them
    slope: float  # share of a cell's speed an hour; above 0: it became faster
    probability: float  # of as much order by chance
    thirds: float | None  # by which share the last third is faster than the first

    @property
    def change(self) -> float:
        """The share by which speed changed from the first to the last repetition."""
        return self.slope * self.hours


def floors(rows: Iterable[Measurement]) -> list[Floor]:
    """The noise floor of all cells with two ok repetitions or more, and of each workload's.

    The last one is that of all, named ""; of a single workload it is the only one.
    """
    return _floors(by_cell(rows))


def _floors(every_cell: Iterable[Sequence[Measurement]]) -> list[Floor]:
    found: dict[str, list[list[float]]] = {}
    for own in every_cell:
        if len(own) > 1:
            speeds = [row["throughput"] for row in own]
            found.setdefault(own[0]["workload"], []).append(speeds)
    every = [_floor(workload, cells) for workload, cells in found.items()]
    if len(every) != 1:
        cells = [speeds for own in found.values() for speeds in own]
        every += [_floor("", cells)] if cells else []
    return every


def _floor(workload: str, cells: Sequence[Sequence[float]]) -> Floor:
    """The typical standard deviation of cells that may have 2, 3, 4 ... values each.

    With noise s that is normal and the same in all, (n - 1) CV^2 / s^2 has the chi-squared
    distribution with n - 1 degrees of freedom, so CV^2 (n - 1) / median(chi^2_{n-1}) of a cell is
    above s^2 as often as below it. The median of these over the cells is not moved by fewer than
    half of the cells, however noisy, and, unlike a pooled median of distances, not made too small
    by each cell's median being one of its own few values. Its interval is the order-statistic one
    over the cells.
    """
    variations = [coefficient_of_variation(speeds) or 0.0 for speeds in cells]
    usual = {  # the median of chi^2_k is 2 gammaincinv(k / 2, 1 / 2)
        n: 2 * float(gammaincinv((n - 1) / 2, 0.5)) / (n - 1)
        for n in {len(speeds) for speeds in cells}
    }
    each = [
        cv / math.sqrt(usual[len(speeds)]) for cv, speeds in zip(variations, cells, strict=True)
    ]
    repetitions = sum(map(len, cells))
    interval = median_interval(each)
    return Floor(workload, len(cells), repetitions, median(each), interval, max(variations))


def drifts(rows: Iterable[Measurement]) -> list[Drift]:
    """The drift of each host that has ok repetitions of one cell at two times or more."""
    return _drifts(by_cell(rows))


def _drifts(every_cell: Iterable[Sequence[Measurement]]) -> list[Drift]:
    by_host: dict[str, list[list[Measurement]]] = {}
    for own in every_cell:
        hosts: dict[str, list[Measurement]] = {}
        for row in own:
            if row["window_start_utc"]:
                hosts.setdefault(_host(row), []).append(row)
        for host, there in hosts.items():
            if len(there) > 1:
                by_host.setdefault(host, []).append(there)
    found = [_drift(host, cells) for host, cells in sorted(by_host.items())]
    return [drift for drift in found if drift is not None]


def _drift(host: str, cells: Sequence[Sequence[Measurement]]) -> Drift | None:
    """The seasonal Kendall test and slope, a cell being a season.

    Every pair of one cell's repetitions votes: S is the number of pairs whose later one is faster,
    less those whose later one is slower. If time does not matter, S of a cell of n has the mean 0
    and the variance n (n - 1) (2n + 5) / 18, less the same of each group of equal speeds; cells
    add up, and S less 1 (for continuity) over the root is normal. The slope is the median over all
    pairs of their change an hour, as a share of their cell's median (Hirsch, Slack & Smith 1982,
    Water Resources Research 18:107-121, equations 2 to 10; Sen 1968 for one cell). Levels of cells
    need not be known, and outliers move the median little. Repetitions must be independent but for
    the trend: a host with slow quarters of an hour gives small probabilities more often.
    """
    score, variance = 0, 0.0
    slopes, whens, shares = [], [], []
    for n in sorted({len(own) for own in cells}):  # all cells of n at once: a row a cell
        alike = [own for own in cells if len(own) == n]
        hours = np.array([[_hours(row) for row in own] for own in alike])
        speeds = np.array([[row["throughput"] for row in own] for own in alike])
        share = speeds / np.median(speeds, axis=1, keepdims=True) - 1
        one, other = np.triu_indices(n, 1)
        gap, slope = hours[:, other] - hours[:, one], share[:, other] - share[:, one]
        if not gap.all():
            gap, slope = gap[gap != 0], slope[gap != 0]
        slope /= gap
        score += int(np.count_nonzero(slope > 0)) - int(np.count_nonzero(slope < 0))
        variance += len(alike) * _votes(n) - sum(map(_ties, speeds.tolist()))
        slopes.append(slope.ravel())
        whens.append(hours.ravel())
        shares.append(share.ravel())
    each = np.concatenate(slopes)
    if not len(each):
        return None
    z = (score - np.sign(score)) / math.sqrt(variance) if variance > 0 else 0.0
    when, moved = np.concatenate(whens), np.concatenate(shares)
    return Drift(
        host=host,
        repetitions=len(when),
        hours=float(when.max() - when.min()),
        slope=float(np.median(each, overwrite_input=True)),
        probability=float(2 * ndtr(-abs(z))),
        thirds=_thirds(moved[np.argsort(when, kind="stable")]),
    )


def _votes(n: int) -> float:
    return n * (n - 1) * (2 * n + 5) / 18


def _ties(speeds: Sequence[float]) -> float:
    """What equal speeds take from the variance of a cell's S."""
    if len(set(speeds)) == len(speeds):
        return 0.0
    return sum(_votes(count) for count in Counter(speeds).values())


def _thirds(moved: np.ndarray) -> float | None:
    """Mean deviation from the cells' medians in the last third, less that in the first.

    `moved` is in the order of time. The mean, each value cut to the 5th and 95th percentile: the
    median of deviations from medians of 3 would often be exactly 0.
    """
    third = len(moved) // 3
    if not third:
        return None
    cut = np.clip(moved, *np.quantile(moved, (0.05, 0.95)))
    return float(cut[-third:].mean() - cut[:third].mean())


def drifted(drift: Drift, floor: Floor) -> bool:
    """Hardly by chance, and by more over the campaign than the noise of one repetition."""
    return drift.probability < DRIFT_PROBABILITY and abs(drift.change) > floor.noise


def displaced(rows: Sequence[Measurement]) -> set[Cell]:
    """Cells that a drifting host moved against those beside them, by more than the noise floor.

    Frameworks take turns, so drift falls on all cells of a table alike, unless some were measured
    at other times: after a failure, say, or on another day. The move of a cell is the host's
    slope times the distance of the mean time of its repetitions from the median of these mean
    times over all cells of its table on that host.
    """
    cells_of_round = by_cell(rows)
    every = _floors(cells_of_round)
    slopes = {each.host: each.slope for each in _drifts(cells_of_round) if drifted(each, every[-1])}
    tables: dict[tuple[str, str], list[tuple[Cell, float]]] = {}
    for own in cells_of_round if slopes else ():
        for host in {_host(row) for row in own} & slopes.keys():
            mean = fmean(_hours(row) for row in own if _host(row) == host)
            tables.setdefault((own[0]["table"], host), []).append((_cell(own[0]), mean))
    found = set()
    for (_, host), cells in tables.items():
        middle = median([mean for _, mean in cells])
        found |= {c for c, mean in cells if abs(slopes[host] * (mean - middle)) > every[-1].noise}
    return found


def by_cell(rows: Iterable[Measurement]) -> list[list[Measurement]]:
    """The ok repetitions of each cell that has a throughput."""
    found: dict[Cell, list[Measurement]] = {}
    for row in rows:
        if row["status"] == "ok" and row["throughput"] is not None:
            found.setdefault(_cell(row), []).append(row)
    return list(found.values())


def _cell(row: Measurement) -> Cell:
    return row["workload"], row["framework"], row["case"]


def _host(row: Measurement) -> str:
    """The host or, of several nodes, all of them."""
    return row["nodes_used"] or row["hostname"]


def _hours(row: Measurement) -> float:
    return datetime.fromisoformat(row["window_start_utc"]).timestamp() / 3600
