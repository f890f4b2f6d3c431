"""A cell of others and the one of this round that it is held against, with their repetitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from dlperf.analysis.compare import conditions
from dlperf.analysis.compare.rounds import Round
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.rows import Cell, Measurement

#: What tells the cells of a round or of a publication apart.
CELL = ("table", "workload", "framework", "compiler", *columns.PUBLISHED, "case")
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Side:
    """The cells of a round, or of a publication, with their ok repetitions.

    `unlike`: why cells of a publication, by `metric_key`, are of another quantity than ours."""

    round: Round
    published: bool = False
    unlike: Mapping[Key, list[str]] = field(default_factory=dict)
    facts: dict[conditions.Key, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def repetitions(self) -> dict[Key, list[Measurement]]:
        found: dict[Key, list[Measurement]] = {}
        for row in self.round.repetitions:
            if row["status"] == "ok":
                found.setdefault(cell_key(row), []).append(row)
        return found

    def of(self, cell: Cell) -> list[Measurement]:
        return self.repetitions.get(cell_key(cell), [])

    def values(self, cell: Cell) -> list[float]:
        found = (row.get(cell["metric"]) for row in self.of(cell))
        return [cast(float, value) for value in found if value is not None]

    def said(self, cell: Cell, column: str) -> list[str]:
        """What the ok repetitions of a cell say in a column, each once."""
        return sorted({str(value) for row in self.of(cell) if (value := row.get(column))})


@dataclass(frozen=True)
class Pair:
    """A cell of theirs, and the one of this round that it is held against: of the same metric; of a
    value that is nothing like ours, the case's own metric, for what else differs."""

    own: Cell
    other: Cell
    here: Side
    there: Side

    @property
    def published(self) -> bool:
        return self.there.published

    @property
    def unsaid(self) -> set[str]:
        """The columns that a publication says nothing of: a statement in one repetition counts."""
        rows: Sequence[Mapping[str, Any]] = self.there.of(self.other) or [self.other]
        return set.intersection(*({*(row.get("unsaid") or "").split()} for row in rows))

    @property
    def is_of_one_metric(self) -> bool:
        return self.own["metric"] == self.other["metric"]


def cell_key(row: Mapping[str, Any]) -> Key:
    return tuple(row.get(name) for name in CELL)


def metric_key(row: Mapping[str, Any]) -> Key:
    return (*cell_key(row), row["metric"])
