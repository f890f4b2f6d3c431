"""Every ratio that a publication prints, computed again from the numbers that it prints."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlperf.analysis.publications.published import DERIVED, of_model
from dlperf.analysis.publications.rows import TIDY, Row, group, in_table, point

#: What a ratio may differ by: the publications print two decimals, some of them cut off.
TOLERANCE = 0.01
#: Of achieved FLOP/s (two decimals of a throughput with two decimals) and of a whole percentage.
FLOPS_TOLERANCE, PERCENT_TOLERANCE = 0.02, 0.5
#: TFLOP/s that a report takes percentages of: a V100's tensor cores.
PEAK = 125.0


@dataclass
class Ratio:
    """A ratio. `recomputed` is None where its base is not in any table.

    One that is not `printed` was computed when the table was taken down.
    """

    row: Row
    what: str
    published: float
    numerator: float | None = None
    denominator: float | None = None
    tolerance: float = TOLERANCE
    reason: str = ""
    printed: bool = True
    #: Half a unit of the last printed place of numerator and denominator.
    rounding: tuple[float, float] = (0.0, 0.0)

    @property
    def recomputed(self) -> float | None:
        if self.numerator is None or self.denominator is None:
            return None
        return self.numerator / self.denominator

    @property
    def rounded(self) -> bool:
        """Whether unrounded numbers, which print as these do, would give the published ratio."""
        if self.numerator is None or self.denominator is None:
            return False
        above, below = self.rounding
        low = (self.numerator - above) / (self.denominator + below) - TOLERANCE
        high = (self.numerator + above) / (self.denominator - below) + TOLERANCE
        return low <= self.published <= high

    @property
    def status(self) -> str:
        if self.recomputed is None:
            return "not computable"
        right = abs(self.recomputed - self.published) <= self.tolerance + 1e-9
        return "reproduced" if right else "contradicts"


def ratios(rows: Sequence[Row]) -> list[Ratio]:
    """Every ratio that is printed, or was put beside a table when it was taken down."""
    rows = [row for row in rows if row.get("form") != TIDY]  # which has no column for a ratio
    single = group(
        (row for row in rows if row["devices"] == "1" and row["value"]),
        lambda row: point(row, ("nodes", "gpus_per_node")),
    )
    values = [row for row in rows if row["value"]]
    same = group(values, lambda row: (*_other_precision(row), row["precision"]))
    found = []
    for row in rows:
        note = row.get("note") or ""
        if row["metric"] == "precision_speedup":
            low, _, high = row["precision"].partition("->")
            found.append(_precision(row, same, float(row["value"]), "throughput", low, high))
        elif note.startswith(DERIVED):
            published_value = float(note.removeprefix(DERIVED))
            derived = _scaling(row, single, published_value, "speed-up, beside the table")
            found.append(replace(derived, printed=False))
        elif not row.get("speedup"):
            continue
        elif row["metric"] == "time_to_train":
            full = next((p for p in ("tf32", "fp32") if (*_other_precision(row), p) in same), "")
            found.append(
                _precision(
                    row, same, float(row["speedup"]), "time_to_train", row["precision"], full
                )
            )
        elif row.get("mode") == "inference":
            reason = f"the {note.removeprefix('speedup vs ')} values were not published beside it"
            found.append(
                Ratio(row, "speed-up of mixed precision", float(row["speedup"]), reason=reason)
            )
        else:
            found.append(_scaling(row, single, float(row["speedup"]), "speed-up over one device"))
    return [*found, *_memory(values), *_flops(rows)]


def _other_precision(row: Row) -> tuple[str, ...]:
    keys = ("file", "table", "model", "gpu", "system", "nodes", "devices", "seq_len", "mode")
    return tuple(row.get(key) or "" for key in keys)


def _scaling(
    row: Row, single: Mapping[tuple[str, ...], list[Row]], printed: float, what: str
) -> Ratio:
    """Over one device: in the same table, else in the same file, else in any."""
    bases = single.get(point(row, ("nodes", "gpus_per_node")), [])
    bases = sorted(bases, key=lambda base: [base[key] != row[key] for key in ("file", "table")])
    if not bases:
        return Ratio(row, what, printed, reason="one device's value was not published")
    return _ratio(row, what, printed, row["value"], bases[0]["value"])


def _ratio(row: Row, what: str, printed: float, numerator: str, denominator: str) -> Ratio:
    rounding = _half_unit(numerator), _half_unit(denominator)
    return Ratio(row, what, printed, float(numerator), float(denominator), rounding=rounding)


def _half_unit(text: str) -> float:
    """'10.7' -> 0.05."""
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def _precision(
    row: Row,
    same: Mapping[tuple[str, ...], list[Row]],
    printed: float,
    metric: str,
    first: str,
    second: str,
) -> Ratio:
    """Mixed precision over the other one: of throughput second over first, of time likewise."""
    ends: list[str] = []
    for precision in (second, first):
        found = same.get((*_other_precision(row), precision), [])
        found = [each for each in found if each["metric"] == metric]
        # a row of the ratio alone has no data set
        own = [each for each in found if each.get("dataset") == row.get("dataset")] or found
        ends += [each["value"] for each in own[:1]]
    what = "speed-up of mixed precision"
    if len(ends) < 2:
        reason = "the other precision's value was not published beside it"
        return Ratio(row, what, printed, reason=reason)
    return _ratio(row, what, printed, *ends)


def _memory(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Printed percentages of the memory that another implementation takes in the same row."""
    keys = ("metric", "devices", "vocab_size", "embedding_vec_size", "bsz_per_device")
    same = group(rows, lambda row: (*in_table(row), *(row.get(key) or "" for key in keys)))
    for own in same.values():
        for row in own:
            if not row.get("memory_ratio"):
                continue
            others = [each for each in own if each["implementation"] != row["implementation"]]
            what = f"percent of {others[0]['implementation']}'s memory" if others else "memory"
            printed = float(row["memory_ratio"])
            if len(others) != 1:
                reason = "the other implementation's memory was not published beside it"
                yield Ratio(row, what, printed, reason=reason)
                continue
            numbers = 100 * float(row["value"]), float(others[0]["value"])
            yield Ratio(row, what, printed, *numbers, tolerance=PERCENT_TOLERANCE)


def _flops(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Achieved FLOP/s of models whose publications print it, and the share of a peak."""
    counted = [
        row for row in rows if row["value"] and of_model(row["model"]).flops_per_sample is not None
    ]
    keys = ("file", "framework", "case", "group")
    speeds = {
        tuple(row.get(k) for k in keys): float(row["value"])
        for row in counted
        if row["metric"] == "throughput"
    }
    achieved = {
        tuple(row.get(k) for k in keys): float(row["value"])
        for row in counted
        if row["metric"] == "achieved_flops_per_gpu"
    }
    for row in counted:
        own = tuple(row.get(k) for k in keys)
        of_sample = of_model(row["model"]).flops_per_sample
        if row["metric"] == "achieved_flops_per_gpu" and own in speeds and of_sample:
            try:
                flops = of_sample(row) * speeds[own] / 1e12
            except (KeyError, ValueError, ZeroDivisionError):  # a size of the model is not there
                what = "achieved TFLOP/s per device, from the throughput"
                yield Ratio(row, what, float(row["value"]), reason="the model's sizes are missing")
                continue
            yield Ratio(
                row,
                "achieved TFLOP/s per device, from the throughput",
                float(row["value"]),
                flops,
                float(row["devices"]),
                # the throughput has two decimals, which is much of a small one
                max(FLOPS_TOLERANCE, flops / int(row["devices"]) * 0.005 / speeds[own] + 0.005),
            )
        elif row["metric"] == "pct_peak" and own in achieved:
            yield Ratio(
                row,
                f"percent of {PEAK:g} TFLOP/s",
                float(row["value"]),
                100 * achieved[own],
                PEAK,
                PERCENT_TOLERANCE,
            )
