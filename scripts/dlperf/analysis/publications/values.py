"""CSV rows -> `Value`s: one number that somebody else measured, with what it is of.

The tidy form (docs/importing.md) is read here; the published tables' own form is put into it by
published.py. A wrong row is named with its file, line, column and what may stand there.
"""

import csv
import difflib
import hashlib
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from dlperf import frameworks, scenarios, workloads
from dlperf.analysis.schema.columns import numbers
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
OPTIONAL = ("table", "batch_label", "hardware", "inferred")
#: Names that a dimension may not have: rows of the tables that are made have columns of that name.
TAKEN = (
    *("round", "published_table", "status", "reason", "record", "record_sha256", "kind"),
    *("source_file", "source_sha256", "source_line", "dimensions", "topology"),
    *("file", "line", "sha256", "device", "throughput", "version", "unsaid"),
)
#: What to do with a name that is right.
MEANT = "; if it is meant, list it under `names` in the round's YAML file"
#: Wrong things that a message names, and characters of a value in it.
SHOWN, LONGEST_SHOWN = 20, 80
#: Characters between fields in files that are called CSV too.
SEPARATORS = {";": "semicolons (';')", "\t": "tabs", "|": "bars ('|')"}
#: What no number has that is below zero, by words in the metric's name; or that is zero.
ABOVE_ZERO = ("throughput", "latency", "time", "memory")
#: Columns with names of this project -> those that there are, or that publications have.
NAMES = {
    "framework": frameworks.NAMES,
    "workload": (*workloads.NAMES, "dlrm"),
    "scenario": (*scenarios.NAMES, "finetune"),
    "precision": ("fp32", "amp", "tf32", "fp16", "bf16", "fp8", "fp64", "int8"),
}
#: A note of a row without value that is a status of its own; any other is why there is none.
STATUSES = {"OOM": "oom", "timeout": "timeout", "crashed": "crashed"}

#: The compiler of what runs without one, and of what does not name any.
NO_COMPILER = "none"
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?", re.ASCII)
_WHOLE = re.compile(r"\+?\d{1,15}", re.ASCII)

#: A folder or a file may have its name.
Word = Annotated[str, Field(pattern=r"^[a-z0-9_]+$", max_length=64)]
#: What stands beside an axis or heads a column.
Label = Annotated[str, Field(max_length=80)]


def not_a_number(text: str) -> str:
    """What is wrong with the text of a number, and how to write it; '' if it is one."""
    if _NUMBER.fullmatch(text):
        return ""
    if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+\.\d+", text):
        return f"has commas between thousands; write {text.replace(',', '')}"
    if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3}){2,}", text):
        return f"has commas between thousands; write {text.replace(',', '')}"
    if re.fullmatch(r"[-+]?\d{1,3},\d{3}", text):
        either = f"{text.replace(',', '')} or {text.replace(',', '.')}"
        return f"has a comma, of thousands or of decimals; write {either}"
    if re.fullmatch(r"[-+]?\d{1,3}(?:\.\d{3})*,\d+", text) or re.fullmatch(r"[-+]?\d+,\d+", text):
        return f"has a decimal comma; write {text.replace('.', '').replace(',', '.')}"
    if re.fullmatch(r"[-+]?\d{1,3}(?:[\s'’_]\d{3})+(?:\.\d+)?", text):
        thousands = re.sub(r"[\s'’_]", "", text)
        return f"has a mark between thousands; write {thousands}"
    if text.lower() in ("nan", "inf", "-inf", "infinity", "-", "–", "n/a", "na", "none", "null"):
        return "is not a number; leave it empty where there is none, and say why in `note`"
    if text.lower() in ("oom", "timeout", "crashed"):
        return "is not a number; leave it empty, and write that into `note`"
    if match := re.fullmatch(r"([-+]?\d[\d.,]*)\s*([A-Za-zµ%][\w/%. ]*)", text):
        return f"is more than a number; write {match[1]}, and {match[2]!r} into the column `unit`"
    return "is not a number, such as 391.53"


class Value(BaseModel):
    """One row. `dimensions` are the workload's own; `file`, `line` and `sha256` say where it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    framework: Word
    implementation: Label = ""
    workload: Word
    scenario: Word = "train"
    precision: Word
    #: Empty where nothing is said; 'none' is a statement.
    compiler: Annotated[str, Field(pattern=r"^[a-z0-9_]*$", max_length=64)] = ""
    nodes: int = Field(ge=1)
    devices_per_node: int = Field(ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    data: Annotated[str, Field(pattern=r"^[a-z0-9_]*$", max_length=64)] = ""
    repetition: int = Field(default=1, ge=1)
    metric: Word
    value: float | None = None
    unit: Label = ""
    estimator: str = ""
    source: str = Field(min_length=1)
    note: str = ""
    table: str = ""
    batch_label: Annotated[str, Field(pattern=r"^[a-z0-9]*$", max_length=64)] = ""
    hardware: Label = ""
    #: Columns whose values the publication does not print, with spaces between them.
    inferred: str = ""
    dimensions: dict[str, str] = {}
    file: str
    line: int
    sha256: str

    @field_validator("value", mode="before")
    @classmethod
    def _as_a_number(cls, value: Any) -> Any:
        if isinstance(value, str) and (wrong := not_a_number(value)):
            raise PydanticCustomError("number", "{wrong}", {"wrong": wrong})
        return value

    @field_validator("nodes", "devices_per_node", "batch_size", "repetition", mode="before")
    @classmethod
    def _as_a_whole_number(cls, value: Any) -> Any:
        if isinstance(value, str) and not _WHOLE.fullmatch(value):
            raise PydanticCustomError("number", "is not a whole number from 1")
        return value

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
    def unsaid(self) -> str:
        """Columns that say nothing and stand in tables with a usual value, as in `inferred`."""
        return "" if self.compiler else "compiler"

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
        self.add(line, f"{Problem(column, _shown(word), 'is not known', allowed, near)}{more}")

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
    """The file as text. Raises AnalysisError where it cannot be read, or is no table with rows."""
    sha256, fields = _fields(path)
    header_line, header = next(((line, row) for line, row in fields if any(row)), (1, []))
    columns = _header(path, header_line, header)
    rows, problems = [], Problems(str(path))
    for line, row in fields:
        if line <= header_line or not any(row):
            continue
        if len(row) <= len(header) and not any(row[len(columns) :]):
            row = row[: len(columns)]  # a spreadsheet writes columns that were once used
        if len(row) != len(columns):
            problems.add(
                line,
                f"has {len(row)} fields, and the header has {len(columns)}; a field with a comma "
                "stands in quotes, and a number has none (391.53)",
                "fields",
            )
            continue
        rows.append((line, dict(zip(columns, row, strict=True))))
    problems.refuse()
    if not rows:
        raise AnalysisError(f"{path}: has a header and no rows below it: nothing can be imported")
    return Table(str(path), sha256, columns, rows)


def _fields(path: Path) -> tuple[str, list[tuple[int, list[str]]]]:
    """The file's sha256; each line's number and its fields, without blanks around them."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")  # spreadsheets write a mark before the first column
    except OSError as error:
        raise AnalysisError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise AnalysisError(
            f"{path}: line {line}: is not UTF-8 text; save it as CSV in UTF-8"
        ) from None
    except ValueError as error:  # of the path
        raise AnalysisError(f"{str(path)!r}: cannot be read: {error}") from None
    if "\0" in text:
        raise AnalysisError(f"{path}: is not UTF-8 text, perhaps UTF-16; save it as CSV in UTF-8")
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        fields = [(reader.line_num, [field.strip() for field in row]) for row in reader]
    except csv.Error as error:
        raise AnalysisError(
            f"{path}: line {reader.line_num}: is not CSV: {error}; is a quote missing?"
        ) from None
    return hashlib.sha256(content).hexdigest(), fields


def _header(path: Path, line: int, header: list[str]) -> list[str]:
    """The names of the columns. Raises AnalysisError where fields have no name of their own."""
    columns = list(header)
    while columns and not columns[-1]:
        columns.pop()
    if not columns:
        raise AnalysisError(f"{path}: is empty; its first line must name the columns")
    whole = ",".join(header)
    for separator, name in SEPARATORS.items():
        if whole.count(separator) > whole.count(","):
            raise AnalysisError(
                f"{path}: line {line}: its fields are separated by {name}; save it with commas "
                "between fields, and with points in numbers (391.53)"
            )
    if "" in columns:
        raise AnalysisError(f"{path}: line {line}: column {columns.index('') + 1} has no name")
    for number, column in enumerate(columns, start=1):
        first = columns.index(column) + 1
        if first != number:
            raise AnalysisError(
                f"{path}: line {line}: the column {column!r} stands twice, as columns {first} and "
                f"{number}: remove or rename one"
            )
    return columns


def read(path: Path, names: Sequence[str] = ()) -> list[Value]:
    """The values of a CSV file, in its order, in either form. Raises AnalysisError.

    `names` are meant, though this project knows nothing of that name.
    """
    return read_both(path, names)[1]


def read_both(path: Path, names: Sequence[str] = ()) -> tuple[Table, list[Value]]:
    """A CSV file as its text and as its values, as read() has them."""
    from dlperf.analysis.publications import published

    table = read_csv(path)
    if published.is_published(table.columns):
        return table, check(table, published.rows(table), names)
    for column in COLUMNS:
        if column not in table.columns:
            raise AnalysisError(
                f"{path}: line 1: the column {column!r} is missing{_meant(column, table.columns)} "
                f"[it must have: {', '.join(COLUMNS)}; may have: {', '.join(OPTIONAL)} and the "
                "workload's own dimensions]"
            )
    for column in table.columns:
        if column in TAKEN or not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", column):
            taken = (
                "is the name of another column of the results"
                if column in TAKEN
                else ("is no word of a-z, 0-9 and _")
            )
            raise AnalysisError(
                f"{path}: line 1: the column {_shown(column)} {taken}: rename it, or put it into "
                f"`note`{_meant(column, OPTIONAL)}"
            )
    rows = ((line, tidy(row)) for line, row in table.rows)
    return table, check(table, rows, names, _dimensions)


def _meant(column: str, written: Sequence[str]) -> str:
    """How a column's name is written otherwise there; '' if no name is like it."""

    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9]+", "_", name.lower())

    same = [name for name in written if plain(name) == plain(column)]
    near = same or difflib.get_close_matches(column, written, 1, 0.8)
    return f"; is it {near[0]!r}?" if near else ""


def _shown(text: Any) -> str:
    """A value as it is written, cut where a message would get too long."""
    shown = repr(text)
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[: LONGEST_SHOWN - 3]}..."


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
    """Add dimensions that are no numbers, where tables have numbers, and those that the workload of
    a training throughput does not have: it would be in no table."""
    if not value.is_own:
        for name, kind in numbers(list(value.dimensions)).items():
            try:
                kind(value.dimensions[name])
            except ValueError:
                text = _shown(value.dimensions[name])
                problems.add(value.line, f"{name}: {text} is not a number")
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
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else text


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
                shown = f" {_shown(each['input'])}" if each["type"] != "missing" else ""
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
        for column in value.inferred.split():
            if column not in table.columns:
                problems.unknown(line, "inferred", column, table.columns)
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
    above_zero = any(word in value.metric for word in ABOVE_ZERO)
    if value.value is not None and above_zero and value.value <= 0:
        problems.add(value.line, f"value: {value.value} is not above 0", "not above 0")
    if value.is_own and value.unit:
        unit = f"{workloads.of(value.workload).unit}/s"
        if value.unit != unit:
            problems.unknown(
                value.line, "unit", value.unit, [unit], f", as {value.workload} counts"
            )


def identity(value: Value, *without: str) -> tuple[Any, ...]:
    """What no two rows of a file may share."""
    left_out = {"value", "unit", "source", "note", "file", "line", "sha256", "inferred", *without}
    fields = value.model_dump(exclude=left_out)
    fields["compiler"] = value.compiler or NO_COMPILER  # what tables have of both
    return tuple(tuple(sorted(f.items())) if isinstance(f, dict) else f for f in fields.values())
