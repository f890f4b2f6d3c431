"""The report's section 'How sure': noise floor, drift, outliers and what can be found.

In: rows of measurements.tsv.gz and of cells.tsv. Out: what templates/sections/how-sure.html.j2
shows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dlperf.analysis.round import labels
from dlperf.analysis.round.calibration import noise
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.rows import Cell, Measurement
from dlperf.analysis.statistics.medians import OUTLIER_LEAST, median
from dlperf.analysis.statistics.separation import LEAST


def section(repetitions: Sequence[Measurement], cells: Sequence[Cell]) -> dict[str, Any]:
    """{"floors": a Floor a workload and one of all, "sentences": [...]}."""
    floors = noise.floors(repetitions)
    said = [drift(each, floors[-1]) for each in noise.drifts(repetitions)]
    said += [*_detectable(cells), *_outliers(repetitions)]
    return {"floors": floors, "sentences": said}


def drift(found: noise.Drift, floor: noise.Floor) -> str:
    """What time did on one host, and whether that is more than chance and noise."""
    how = "faster" if found.change > 0 else "slower"
    thirds = ""
    if found.thirds is not None:
        how_thirds = "faster" if found.thirds > 0 else "slower"
        thirds = (
            f" The last third of the repetitions was {forms.percent(abs(found.thirds), 2)} "
            f"{how_thirds} than the first, each against its own cell's median."
        )
    measured = (
        f"{found.host} became {forms.percent(abs(found.change), 2)} {how} in "
        f"{found.hours:.1f} hours and {labels.plural(found.repetitions, 'repetition')} "
        f"(slope within cells; p = {found.probability:.2g} for so much order in time by chance)."
    )
    level, noise_of_one = noise.DRIFT_PROBABILITY, forms.percent(floor.noise, 2)
    if noise.drifted(found, floor):
        verdict = (
            f" That is drift: p is below {level}, and it is more than the noise floor "
            f"({noise_of_one}). Frameworks take turns, "
            "so it widens every interval and favours none; cells that were measured at other times "
            "than those beside them are marked as suspect."
        )
    elif found.probability < noise.DRIFT_PROBABILITY:
        verdict = (
            f" p is below {level}, but the change is no larger than the noise floor "
            f"({noise_of_one}): no drift is reported."
        )
    else:
        verdict = f" p is not below {level}, so no drift is shown."
    return measured + verdict + thirds


def _detectable(cells: Sequence[Cell]) -> Iterator[str]:
    ok = [cell for cell in cells if cell["status"] == "ok"]
    shares = [cell["detectable"] for cell in ok if cell["detectable"] is not None]
    if shares:
        yield (
            f"The smallest detectable difference of a cell is {forms.percent(median(shares), 2)} "
            f"at the median, from {forms.percent(min(shares), 2)} to "
            f"{forms.percent(max(shares), 2)}."
        )
    if len(shares) < len(ok):
        few = "Cells" if not shares else labels.plural(len(ok) - len(shares), "cell")
        yield (
            f"{few} with fewer than {LEAST} repetitions: no difference is significant, however "
            "large, because chance alone would show one too often."
        )


def _outliers(repetitions: Sequence[Measurement]) -> Iterator[str]:
    judged = [own for own in noise.by_cell(repetitions) if len(own) >= OUTLIER_LEAST]
    if not judged:
        return
    count = sum(bool(row["outlier"]) for own in judged for row in own)
    where = sum(any(row["outlier"] for row in own) for own in judged)
    yield (
        f"{labels.plural(count, 'repetition')} in {labels.plural(where, 'cell')} of {len(judged)} "
        f"{'is an outlier' if count == 1 else 'are outliers'}: marked, and kept in every median "
        "and interval. In 5 % of undisturbed cells one would be marked too."
    )
