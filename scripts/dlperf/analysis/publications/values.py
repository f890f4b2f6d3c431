"""CSV rows -> `Value`s: one number that somebody else measured, with what it is of.

The tidy form (docs/importing.md) is read here; the published tables' own form is put into it by
published.py. A wrong row is named with its file, line, column and what may stand there.
"""

import csv
import difflib
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from dlperf import frameworks, scenarios, workloads
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract.layout import SPELLED as WAYS
from dlperf.contract.problems import Problem

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
#: What to do with a name that is right.
MEANT = "; if it is meant, list it under `names` in the round's YAML file"
#: Wrong things that a message names.
SHOWN = 20
#: Columns with names of this project -> those that there are, or that publications have.
NAMES = {
    "framework": frameworks.NAMES,
    "workload": (*workloads.NAMES, "dlrm"),
    "scenario": (*scenarios.NAMES, "finetune"),
    "precision": ("fp32", "amp", "tf32", "fp16", "bf16", "fp8", "fp64", "int8"),
}
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
    def is_own(self) -> bool:
        """Whether it is a training throughput of a workload that this project has: a cell."""
        own = self.workload in workloads.NAMES
        return own and (self.scenario, self.metric) == ("train", "throughput")

    @property
    def status(self) -> str:
        if self.value is not None:
            return "ok"
        return STATUSES.get(self.note.strip("; "), "unsupported")


class Problems:
    """What is wrong in a CSV file: each thing once, with its first line and a count of the rows."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: dict[str, tuple[str, list[int]]] = {}

    def add(self, line: int, what: str, kind: str = "") -> None:
        """`kind` is the same for what is said with other numbers of each row."""
        self.found.setdefault(kind or what, (what, []))[1].append(line)

    def unknown(
        self, line: int, column: str, word: str, known: Iterable[str], more: str = ""
    ) -> None:
        """Add that `word` is none of the names that are known, with the nearest of them."""
        allowed = tuple(known)
        near = "".join(difflib.get_close_matches(word, allowed, 1, 0.6))
        self.add(line, f"{Problem(column, repr(word), 'is not known', allowed, near)}{more}")

    def refuse(self) -> None:
        """Raise AnalysisError with the first of these problems, if there are any."""
        said = [
            f"{self.file}: line {lines[0]}: {what}"
            + (f" ({len(lines):,} such rows, the last is line {lines[-1]})" if lines[1:] else "")
            for what, lines in self.found.values()
        ]
        more = [f"... and {len(said) - SHOWN} more"] if len(said) > SHOWN else []
        if said:
            raise AnalysisError("\n".join([*said[:SHOWN], *more]))


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
        text = content.decode("utf-8-sig")  # spreadsheets write a mark before the first column
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AnalysisError(f"{path}: is not UTF-8 text") from None
    reader = csv.DictReader(text.splitlines())
    columns = list(reader.fieldnames or [])
    if not columns:
        raise AnalysisError(f"{path}: is empty; its first line must name the columns")
    rows, problems = [], Problems(str(path))
    for row in reader:
        if None in row or None in row.values():
            problems.add(reader.line_num, f"has not {len(columns)} fields")
        rows.append((reader.line_num, row))
    problems.refuse()
    return Table(str(path), hashlib.sha256(content).hexdigest(), columns, rows)


def read(path: Path, names: Sequence[str] = ()) -> list[Value]:
    """The values of a CSV file, in its order, in either form. Raises AnalysisError.

    `names` are meant, though this project knows nothing of that name.
    """
    from dlperf.analysis.publications import published

    table = read_csv(path)
    if published.is_published(table.columns):
        return check(table, published.rows(table), names)
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise AnalysisError(
            f"{path}: line 1: the column {missing[0]!r} is missing "
            f"[it must have: {', '.join(COLUMNS)}; may have: {', '.join(OPTIONAL)} and the "
            "workload's own dimensions]"
        )
    return check(table, ((line, tidy(row)) for line, row in table.rows), names, _dimensions)


def tidy(row: Mapping[str, str]) -> dict[str, Any]:
    """A tidy row as fields of a Value: what is empty is left out, other columns are dimensions."""
    known = {key: row[key].strip() for key in (*COLUMNS, *OPTIONAL) if row.get(key, "").strip()}
    own = {
        key: text.strip()
        for key, text in row.items()
        if key not in COLUMNS and key not in OPTIONAL and text.strip()
    }
    return {**known, "dimensions": own}


def _dimensions(value: Value, problems: Problems) -> None:
    """A training throughput with a dimension that its workload does not have is in no table."""
    if not value.is_own:
        return
    own = workloads.of(value.workload).dimensions
    for name, text in value.dimensions.items():
        number = spelled(text)
        if name in WAYS:
            least = int(WAYS[name][1])
            if not isinstance(number, int) or number < least:
                problems.add(value.line, f"{name}: {text!r} is no whole number, {least} or more")
        elif name not in own:
            problems.add(
                value.line,
                f"the column {name!r} is no dimension of {value.workload} [allowed: "
                f"{', '.join((*own, *WAYS))}]; a remark belongs into `note`, and what tells two "
                "sweeps of one report apart into `table`",
            )
        elif wrong := own[name].problem(number):
            problems.add(value.line, f"{name}: {wrong}")


def spelled(text: str) -> int | str:
    """A dimension's value: a number, or a word."""
    return int(text) if text.isdigit() else text


def check(
    table: Table,
    rows: Iterable[tuple[int, dict[str, Any]]],
    names: Sequence[str] = (),
    also: Callable[[Value, Problems], None] | None = None,
) -> list[Value]:
    """Validate; all wrong rows are reported together. The same number twice is an error."""
    found: list[Value] = []
    problems = Problems(table.file)
    first: dict[tuple[Any, ...], int] = {}
    units: dict[tuple[Any, ...], Value] = {}
    for line, row in rows:
        try:
            value = Value(**row, file=table.file, line=line, sha256=table.sha256)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                key = ".".join(map(str, each["loc"]))
                shown = f" {each['input']!r}" if each["type"] != "missing" else ""
                message = each["msg"].replace("Field required", "is missing")
                one_word = each["type"] == "string_pattern_mismatch"
                problems.add(
                    line, f"{key}:{shown} {message}", f"{key}:{shown if one_word else message}"
                )
            continue
        for column, known in NAMES.items():
            word = getattr(value, column)
            if word not in known and word not in names:
                problems.unknown(line, column, word, known, MEANT)
        _number(value, problems)
        if also:
            also(value, problems)
        same = first.setdefault(identity(value), line)
        if same != line:
            problems.add(
                line,
                f"is of the same repetition, metric and estimator as line {same}; number the "
                "repetitions in the column `repetition`, or name the two sweeps of one report in "
                "the column `table`",
                "the same",
            )
        other = units.setdefault(identity(value, "repetition", "estimator"), value)
        if other.unit != value.unit:
            problems.add(
                line,
                f"unit: {value.unit!r}, but line {other.line}, of the same case and metric, has "
                f"{other.unit!r}; convert one of them",
                "two units",
            )
        found.append(value)
    problems.refuse()
    return found


def _number(value: Value, problems: Problems) -> None:
    """What is wrong with a row's value and its unit."""
    if value.value is None and not value.note:
        problems.add(
            value.line,
            "value: is empty, and `note` does not say why [OOM, timeout, crashed, or a reason]",
        )
    if value.value is not None and value.metric == "throughput" and value.value <= 0:
        problems.add(value.line, f"value: {value.value} is not above 0", "not above 0")
    if value.is_own and value.unit:
        unit = f"{workloads.of(value.workload).unit}/s"
        if value.unit != unit:
            problems.unknown(
                value.line, "unit", value.unit, [unit], f", as {value.workload} counts"
            )


def identity(value: Value, *without: str) -> tuple[Any, ...]:
    """What no two rows of a file may share."""
    left_out = {"value", "unit", "source", "note", "file", "line", "sha256", *without}
    fields = value.model_dump(exclude=left_out)
    return tuple(tuple(sorted(f.items())) if isinstance(f, dict) else f for f in fields.values())
