"""CSV rows -> `Value`s: one number that somebody else measured, with what it is of.

The tidy form (docs/importing.md) is read here; the published tables' own form is put into it by
published.py. A wrong row is named with its file, line, column and what may stand there.
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from dlperf.analysis.schema.files import AnalysisError

#: Columns that every tidy CSV has; an empty field means that nothing is known.
COLUMNS = (
    "framework",
    "implementation",
    "workload",
    "scenario",
    "precision",
    "compiler",
    "nodes",
    "devices_per_node",
    "batch_size",
    "data",
    "repetition",
    "metric",
    "value",
    "unit",
    "estimator",
    "source",
    "note",
)
#: Columns that it may have.
OPTIONAL = ("table", "batch_label", "hardware")
#: Wrong rows that a message names.
SHOWN = 20
#: A note of a row without value that is a status of its own; any other is why there is none.
STATUSES = {"OOM": "oom", "timeout": "timeout", "crashed": "crashed"}

Word = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]


class Value(BaseModel):
    """One row. `dimensions` are the workload's own; `file`, `line` and `sha256` say where it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    framework: Word
    implementation: str = ""
    workload: Word
    scenario: Word = "train"
    precision: Word
    compiler: Word = "none"
    nodes: int = Field(ge=1)
    devices_per_node: int = Field(ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    data: Annotated[str, Field(pattern=r"^[a-z0-9_]*$")] = ""
    repetition: int = Field(default=1, ge=1)
    metric: Word
    value: float | None = None
    unit: str = ""
    estimator: str = ""
    source: str = Field(min_length=1)
    note: str = ""
    table: str = ""
    batch_label: Annotated[str, Field(pattern=r"^[a-z0-9]*$")] = ""
    hardware: str = ""
    dimensions: dict[str, str] = {}
    file: str
    line: int
    sha256: str

    @field_validator("value")
    @classmethod
    def _finite(cls, value: float | None) -> float | None:
        if value is not None and not abs(value) < float("inf"):
            raise PydanticCustomError("finite", "is not a finite number")
        return value

    @property
    def title(self) -> str:
        """The implementation's label; the framework where it has none."""
        return self.implementation or self.framework

    @property
    def status(self) -> str:
        if self.value is not None:
            return "ok"
        return STATUSES.get(self.note.strip("; "), "unsupported")


@dataclass(frozen=True)
class Table:
    """The rows of a CSV file as text, with their line numbers."""

    file: str
    sha256: str
    columns: list[str]
    rows: list[tuple[int, dict[str, str]]]


def read_csv(path: Path) -> Table:
    """The file as it is. Raises AnalysisError where it cannot be read or has no header."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8")
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AnalysisError(f"{path}: is not UTF-8 text") from None
    reader = csv.DictReader(text.splitlines())
    columns = list(reader.fieldnames or [])
    rows, problems = [], []
    for row in reader:
        if None in row or None in row.values():
            problems.append(f"{path}: line {reader.line_num}: has not {len(columns)} fields")
        rows.append((reader.line_num, row))
    if not columns:
        problems.append(f"{path}: is empty; its first line must name the columns")
    refuse(problems)
    return Table(str(path), hashlib.sha256(content).hexdigest(), columns, rows)


def read(path: Path) -> list[Value]:
    """The values of a CSV file, in its order, in either form. Raises AnalysisError."""
    from dlperf.analysis.publications import published

    table = read_csv(path)
    if published.is_published(table.columns):
        return check(table, published.rows(table))
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise AnalysisError(
            f"{path}: line 1: the column {missing[0]!r} is missing "
            f"[it must have: {', '.join(COLUMNS)}; may have: {', '.join(OPTIONAL)} and the "
            "workload's own dimensions]"
        )
    return check(table, ((line, tidy(row)) for line, row in table.rows))


def tidy(row: Mapping[str, str]) -> dict[str, Any]:
    """A tidy row as fields of a Value: what is empty is left out, other columns are dimensions."""
    known = {key: row[key].strip() for key in (*COLUMNS, *OPTIONAL) if row.get(key, "").strip()}
    own = {
        key: text.strip()
        for key, text in row.items()
        if key not in COLUMNS and key not in OPTIONAL and text.strip()
    }
    return {**known, "dimensions": own}


def check(table: Table, rows: Iterator[tuple[int, dict[str, Any]]]) -> list[Value]:
    """Validate; all wrong rows are reported together. The same number twice is an error."""
    found: list[Value] = []
    problems: list[str] = []
    first: dict[tuple[Any, ...], int] = {}
    for line, row in rows:
        try:
            value = Value(**row, file=table.file, line=line, sha256=table.sha256)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                key = ".".join(map(str, each["loc"]))
                shown = f" {each['input']!r}" if each["type"] != "missing" else ""
                message = each["msg"].replace("Field required", "is missing")
                problems.append(f"{table.file}: line {line}: {key}:{shown} {message}")
            continue
        if value.value is None and not value.note:
            problems.append(
                f"{table.file}: line {line}: value: is empty, and `note` does not say why "
                "[OOM, timeout, crashed, or a reason]"
            )
        if value.value is not None and value.metric == "throughput" and value.value <= 0:
            problems.append(f"{table.file}: line {line}: value: {value.value} is not above 0")
        same = first.setdefault(identity(value), line)
        if same != line:
            problems.append(
                f"{table.file}: line {line}: is of the same repetition, metric and estimator as "
                f"line {same}; number the repetitions in the column `repetition`"
            )
        found.append(value)
    refuse(problems)
    return found


def identity(value: Value) -> tuple[Any, ...]:
    """What no two rows of a file may share."""
    left_out = {"value", "unit", "source", "note", "file", "line", "sha256"}
    fields = value.model_dump(exclude=left_out)
    return tuple(tuple(sorted(f.items())) if isinstance(f, dict) else f for f in fields.values())


def refuse(problems: list[str]) -> None:
    """Raise AnalysisError with the first of these problems, if there are any."""
    if problems:
        more = len(problems) - SHOWN
        raise AnalysisError(
            "\n".join(problems[:SHOWN]) + (f"\n... and {more} more" if more > 0 else "")
        )
