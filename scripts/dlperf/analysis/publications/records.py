"""`Value`s -> records of kind `imported` -> rows of measurements.tsv.gz and values.tsv.

A record holds the numbers of one repetition of one case of one published table, with the file, its
sha256 and the line of each. Throughput of workloads that this project has goes into measurements,
and from there through the same cells, tables and figures as what was measured; any other number
(latency, memory, accuracy, workloads that are not here) is a row of values.tsv.
"""

import difflib
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dlperf import workloads
from dlperf.analysis.publications import config as configs
from dlperf.analysis.publications.values import NO_COMPILER, Value, identity, read, spelled
from dlperf.analysis.schema import documents
from dlperf.analysis.schema.files import AnalysisError, Row, write_table
from dlperf.contract import project, strict_json
from dlperf.contract.files import write
from dlperf.contract.layout import SPELLED as WAYS
from dlperf.contract.problems import Problem
from dlperf.workloads.cases import layout_of_row

SCHEMA = "dlperf.imported/1"
SCHEMA_FILE = Path(__file__).with_name("imported.schema.json")
#: What a cell of a table is of: its column and its row.
CELL = (
    *("framework", "implementation", "compiler", "batch_size"),
    *("nodes", "devices_per_node"),
)
#: What a record says of each number, and tables too.
NUMBER = ("value", "unit", "estimator", "note", "inferred", "unsaid")
#: The longest name of a case or a table; a longer one ends in a digest.
LONGEST = 180
#: Columns of values.tsv before the workloads' own dimensions, and after them.
HEAD = (
    *("round", "workload", "framework", "implementation", "scenario", "precision", "compiler"),
    *("nodes", "devices_per_node", "batch_size", "data", "repetition"),
    *("published_table", "batch_label", "hardware"),
)
TAIL = (
    *("metric", "value", "unit", "estimator", "status", "note"),
    *("inferred", "unsaid", "source", "record", "record_sha256"),
)


def write_round(config_path: Path, folder: Path) -> int:
    """Import the round of a YAML file into `folder`; returns the number of records.

    Raises AnalysisError or ConfigError, and writes nothing then.
    """
    config = configs.load(config_path)
    if folder.name != config.round:
        raise AnalysisError(
            f"{folder}: is not the folder of the round '{config.round}' of {config_path}; give one "
            "of that name, or change `round` there"
        )
    records: dict[str, dict[str, Any]] = {}
    paths: dict[tuple[Any, ...], str] = {}
    seen: dict[tuple[Any, ...], Value] = {}
    for file in config.files:
        for value in read(project.find(file), config.names):
            same = seen.setdefault(identity(value), value)
            if same is not value:
                raise AnalysisError(
                    f"{value.file}: line {value.line}: is of the same repetition, metric and "
                    f"estimator as {same.file}: line {same.line}; leave one of them out"
                )
            made = _record(value, config)
            path = paths.setdefault(_whose(made), record_path(value))
            if path in records and _whose(records[path]) != _whose(made):
                path = paths[_whose(made)] = _apart(path, made)  # names that a path spells alike
            record = records.setdefault(path, made)
            record["values"].append(_number(value))
            if value.status == "ok":
                record["status"], record["reason"] = "ok", ""
    _check_versions(config, records.values())
    if (folder / "runs").exists():
        shutil.rmtree(folder / "runs")  # what the files no longer say
    for path, record in records.items():
        write(folder / "runs" / path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    write(folder / "config.yaml", configs.dump(config))
    return len(records)


def _record(value: Value, config: configs.Import) -> dict[str, Any]:
    of = (
        *("workload", "framework", "implementation", "scenario", "precision", "compiler"),
        *("nodes", "devices_per_node", "batch_size", "data", "repetition", "dimensions"),
    )
    return {
        "schema": SCHEMA,
        "kind": "imported",
        "status": value.status,
        "reason": value.note if value.status != "ok" else "",
        "identity": {
            "round": config.round,
            **{key: getattr(value, key) for key in of},
            "compiler": value.compiler or NO_COMPILER,
        },
        "published": {
            "table": value.table,
            "batch_label": value.batch_label,
            "hardware": value.hardware or config.hardware,
            "version": config.versions.get(value.title, ""),
        },
        "values": [],
    }


def _number(value: Value) -> dict[str, Any]:
    return {
        "metric": value.metric,
        "value": value.value,
        "unit": value.unit,
        "estimator": value.estimator,
        "note": value.note,
        "inferred": value.inferred,
        "unsaid": value.unsaid,
        "source": {
            "text": value.source,
            "file": value.file,
            "sha256": value.sha256,
            "line": value.line,
        },
    }


def record_path(value: Value) -> str:
    """Its record's path below runs/."""
    folder = f"{value.workload}/{_bounded(_slug(value.title) or 'unnamed')}/{case_name(value)}"
    return f"{folder}/rep{value.repetition}.json"


def _whose(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """What one record is of: two records of one file differ in it."""
    own = {**record["identity"], **record["published"]}
    own["dimensions"] = tuple(sorted(own["dimensions"].items()))
    return tuple(own.items())


def _apart(path: str, record: Mapping[str, Any]) -> str:
    """A path of its own for a record whose names, in small letters, are those of another."""
    workload, implementation, case, file = path.split("/")
    digest = hashlib.sha256(repr(_whose(record)).encode()).hexdigest()[:12]
    return f"{workload}/{implementation}/{case}-{digest}/{file}"


def _check_versions(config: configs.Import, records: Iterable[Mapping[str, Any]]) -> None:
    """Raise AnalysisError for a version of what no row is of."""
    titles = {
        each["identity"]["implementation"] or each["identity"]["framework"] for each in records
    }
    for name in config.versions:
        if name not in titles:
            allowed = tuple(sorted(titles))
            near = "".join(difflib.get_close_matches(name, allowed, 1, 0.6))
            message = "is no implementation in the files"
            raise AnalysisError(
                f"{config.round}: {Problem(f'versions.{name}', '', message, allowed, near)}"
            )


def case_name(value: Value) -> str:
    """A case's name as measured rounds have it, and what tells published tables apart."""
    parts = [value.scenario, value.precision]
    if value.compiler not in ("", NO_COMPILER):
        parts.append(value.compiler)
    parts.append(f"{value.nodes}n{value.devices_per_node}d")
    if value.batch_size:
        parts.append(f"b{value.batch_size}")
    parts.append(value.data)
    parts += [f"{key}{_slug(text)}" for key, text in value.dimensions.items()]
    parts += [value.batch_label, _slug(value.hardware), _slug(value.table)]
    return _bounded("-".join(filter(None, parts)))


def _bounded(name: str) -> str:
    """The name of a file or folder, of which a long one ends in a digest."""
    if len(name) > LONGEST:
        return f"{name[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return name


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "_", text.lower()).strip("_.")


def read_round(runs: Path, round_name: str) -> list[Row]:
    """Every number of the records below `runs`, in the order of the files that they came from.

    Raises AnalysisError, which names each file that is no imported record of this round.
    """
    rows: list[Row] = []
    problems: list[str] = []
    for path in sorted(runs.rglob("rep*.json")):
        content = path.read_bytes()
        try:
            record = strict_json.parse(content)
        except ValueError as error:
            problems.append(f"{path}: is not JSON, perhaps half-written: {error}")
            continue
        if wrong := documents.problems(record, SCHEMA_FILE):
            problems += [f"{path}: is not a {SCHEMA}: {each}" for each in wrong]
            continue
        if record["identity"]["round"] != round_name:
            problems.append(f"{path}: is of the round {record['identity']['round']}")
            continue
        shown = f"runs/{path.relative_to(runs).as_posix()}"
        rows += _rows(record, shown, hashlib.sha256(content).hexdigest())
    if problems:
        raise AnalysisError("\n".join(problems) + "\nNothing was merged; import the round again.")
    return sorted(rows, key=lambda row: (row["source_file"], row["source_line"]))


def _rows(record: Mapping[str, Any], path: str, sha256: str) -> Iterable[Row]:
    identity, published = record["identity"], record["published"]
    seen: set[str] = set()
    for each in record["values"]:
        source, metric = each["source"], each["metric"]
        # the first estimate of a repetition counts; others stand beside it under their own name
        if metric in seen:
            metric = f"{metric}, {each['estimator'].replace('_', ' ')}"
        seen.add(metric)
        yield {
            **{key: value for key, value in identity.items() if key != "dimensions"},
            "dimensions": identity["dimensions"],
            "case": path.split("/")[3],
            "published_table": published["table"],
            "batch_label": published["batch_label"],
            "hardware": published["hardware"],
            "metric": metric,
            **{key: each[key] for key in NUMBER},
            "status": _status(record, each),
            "reason": each["note"] if each["value"] is None else "",
            "kind": "imported",
            "source": f"{source['text']} ({source['file']}:{source['line']})",
            "source_file": source["file"],
            "source_sha256": source["sha256"],
            "source_line": source["line"],
            "record": path,
            "record_sha256": sha256,
        }


def _status(record: Mapping[str, Any], each: Mapping[str, Any]) -> str:
    """A number's own: one metric may be missing where others of the same run are there."""
    if each["value"] is not None:
        return "ok"
    return record["status"] if record["status"] != "ok" else "unsupported"


def measurements(config_path: Path, runs: Path) -> tuple[list[str], list[Row]]:
    """(workloads, rows of measurements.tsv.gz) of an imported round: its training throughput."""
    config = configs.load(config_path)
    rows = [row for row in read_round(runs, config.round) if is_cell(row)]
    for row in rows:
        row["unsaid"] = with_dimensions(row["unsaid"], row, row["dimensions"])
        row |= {
            name: spelled(str(row["dimensions"].get(name, each.standard)))
            for name, each in workloads.of(row["workload"]).dimensions.items()
        }
        row |= {
            key: int(row["dimensions"].get(key, standard)) for key, (_, standard) in WAYS.items()
        }
        row |= {"throughput": row["value"], "device": "cuda"}
    tables = table_names(rows)
    rows = [{**row, "table": name} for row, name in zip(rows, tables, strict=True)]
    # a cell's repetitions stand together, whatever the order in the file
    first: dict[tuple[str, ...], int] = {}
    for index, row in enumerate(rows):
        first.setdefault((row["table"], row["implementation"], row["case"]), index)
    rows.sort(key=lambda row: first[row["table"], row["implementation"], row["case"]])
    return list(dict.fromkeys(row["workload"] for row in rows)), rows


def with_dimensions(unsaid: str, row: Mapping[str, Any], said: Iterable[str]) -> str:
    """The columns that say nothing, and the dimensions of the workload that are not `said`."""
    own = workloads.of(row["workload"]).dimensions if row["workload"] in workloads.NAMES else {}
    lacking = {name for name, each in own.items() if each.applies(row["scenario"])} - {*said}
    return " ".join([*unsaid.split(), *(name for name in own if name in lacking)])


def is_cell(row: Mapping[str, Any]) -> bool:
    """Whether a number is a training throughput of a workload that this project has."""
    if row["workload"] not in workloads.NAMES or row["metric"] != "throughput":
        return False
    own = workloads.of(row["workload"]).dimensions
    known = all(
        isinstance(spelled(text), int)
        if name in WAYS
        else name in own and not own[name].problem(spelled(text))
        for name, text in row["dimensions"].items()
    )
    return known and row["scenario"] == "train" and bool(row["batch_size"])


def table_names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each row's table, named as a measured round's: 'resnet50-train-fp32-b128'.

    Data, device and the workload's dimensions are spelled where they vary in the round; how a
    model is spread over devices, micro-steps, and the published table where two of them would stand
    in one cell.
    """
    names = []
    varying = {name: _varying(rows, name) for name in {row["workload"] for row in rows}}
    for row in rows:
        varies = varying[row["workload"]]
        parts = [row["workload"], row["scenario"], row["precision"]]
        parts.append(f"b{row['batch_label'] or row['batch_size']}")
        parts += [_slug(row[key]) for key in ("data", "hardware") if key in varies]
        for name, each in workloads.of(row["workload"]).dimensions.items():
            if name in varies:
                parts.append(f"{each.key}{row[name]}")
        names.append("-".join(filter(None, parts)))
    crowded = _crowded(names, rows, lambda row: tuple(row[key] for key in WAYS))
    for index, row in enumerate(rows):
        if names[index] in crowded:
            names[index] = "-".join([names[index], *layout_of_row(row).spelled(*WAYS)])
    crowded = _crowded(names, rows, lambda row: row["published_table"])
    for index, row in enumerate(rows):
        if names[index] in crowded and row["published_table"]:
            names[index] = _bounded(f"{names[index]}-{_slug(row['published_table'])}")
    return names


def _crowded(
    names: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    of: Callable[[Mapping[str, Any]], Hashable],
) -> set[str]:
    """The tables in which rows that differ in `of` would stand in one cell."""
    cells: dict[tuple[Any, ...], set[Hashable]] = {}
    for name, row in zip(names, rows, strict=True):
        cells.setdefault((name, *(row[key] for key in CELL)), set()).add(of(row))
    return {name for (name, *_), found in cells.items() if len(found) > 1}


def _varying(rows: Sequence[Mapping[str, Any]], workload: str) -> set[str]:
    """Data, device and dimensions of which a workload's rows have more than one."""
    own = [row for row in rows if row["workload"] == workload]
    keys = ("data", "hardware", *workloads.of(workload).dimensions)
    return {key for key in keys if len({row[key] for row in own}) > 1}


def write_values(config_path: Path, runs: Path, out: Path) -> None:
    """Write values.tsv: every number that measurements.tsv.gz does not have."""
    config = configs.load(config_path)
    rows = [row for row in read_round(runs, config.round) if not is_cell(row)]
    own = list(dict.fromkeys(name for row in rows for name in row["dimensions"]))
    flat = [{**row, **row["dimensions"]} for row in rows]
    write_table(out, [*HEAD, *own, *TAIL], flat)
