"""Who measured the cells of a table, in the words of tables, captions and figures.

In: rows of one table. Out: `Measured`, by this project, or `Imported`, from a publication. Nothing
else asks which of them it is: what differs otherwise are columns.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dlperf.analysis.round import labels, metrics, names

IMPORTED = "imported, not measured here"
NO_INTERVAL = "interval: none, as each value is one published number"
NO_CERTIFICATE = "certificate of equal work: none"


class Measured:
    """Cells that all have been asked for with the same repetitions and steps."""

    SINGLE_HAS_INTERVAL = True
    first: tuple[str, ...] = ()

    def __init__(self, cells: Sequence[Mapping[str, Any]]) -> None:
        self.cells, self.row = cells, cells[0]

    @property
    def lines(self) -> list[str]:
        """What a table says of how its numbers were got; `first` stands before all else."""
        row = self.row
        steps = f"{row['measured_steps']} steps after {row['warmup_steps']} of warm-up"
        return [f"median of {self._repetitions} of {steps}", f"interval: {self._interval}"]

    @property
    def note(self) -> str:
        """What stands below a figure."""
        note = f"Median of {self._repetitions}; whiskers: {self._interval}."
        if any(row["n_ok"] < row["n_asked"] for row in self.cells if row["status"] == "ok"):
            note += " Some have fewer ok: see the table."
        return note

    def caption(self, kind: str) -> str:
        """What a figure of this kind shows."""
        title = metrics.of_row(self.row).title.lower()
        if kind == names.SCALING:
            return (
                f"{title} over devices with the ideal from one device (dotted, both axes "
                "logarithmic), and scaling efficiency with its conservative interval (dashed: "
                "ideal)."
            )
        return f"median {title}. Whiskers are the interval of the median ({self._interval})."

    @property
    def _repetitions(self) -> str:
        return labels.plural(self.row["n_asked"], "repetition")

    @property
    def _interval(self) -> str:
        return labels.interval(self.row["n_asked"])


class Imported(Measured):
    """Cells that are one published number each, or somebody's repetitions."""

    #: One number is somebody's median: an interval around it would be made up.
    SINGLE_HAS_INTERVAL = False
    first = (IMPORTED,)

    @property
    def lines(self) -> list[str]:
        estimators = list(dict.fromkeys(row["estimator"] for row in self.cells if row["estimator"]))
        how = labels.listed(estimators) or "how it was computed is not known"
        headings = dict.fromkeys(filter(None, (row.get("published_table") for row in self.cells)))
        published = [f"published as: {'; '.join(headings)}"] if headings else []
        return [*published, f"{how}; {self._of_numbers}", NO_CERTIFICATE]

    @property
    def note(self) -> str:
        return f"{IMPORTED.capitalize()}. {self._of_numbers.capitalize()}."

    def caption(self, kind: str) -> str:
        return f"{kind}. {IMPORTED.capitalize()}; {labels.device(self.row)}."

    @property
    def _of_numbers(self) -> str:
        counts = {row["n_ok"] for row in self.cells if row["n_ok"]}
        several = sorted(counts - {1})
        if not several:
            return NO_INTERVAL
        one = len(several) == 1
        said = labels.interval(several[0]) if one else "of each cell's own repetitions"
        return f"interval: {said}" + ("; none where there is one number" if 1 in counts else "")


def of(rows: Sequence[Mapping[str, Any]]) -> Measured:
    return (Imported if rows[0].get("kind") == "imported" else Measured)(rows)
