"""The rows of published tables: read, and named.

In: the CSV files of the imported rounds in config/published/. Out: their rows as they were written,
each with its file and line; what a number is of, in keys and in words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dlperf.analysis.publications import config as configs
from dlperf.analysis.publications import published
from dlperf.analysis.publications.values import NO_COMPILER, Table, Value, identity, read_both
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.statistics.medians import median
from dlperf.contract import project
from dlperf.plan import ConfigError
from dlperf.plan.values import IMPORTED

Row = Mapping[str, str]


def read_all(folder: Path) -> list[dict[str, str]]:
    """The rows of all files that the YAML files in `folder` name, with `file` and `line`.

    Raises AnalysisError or ConfigError for the first file that cannot be imported.
    """
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise AnalysisError(f"{folder}: has no YAML file of an imported round")
    found: list[dict[str, str]] = []
    for path in paths:
        config = configs.load(path)
        if config.round != f"{IMPORTED}{path.stem}":
            raise AnalysisError(
                f"{path}: round: '{config.round}' must be '{IMPORTED}' and the name of the file: a "
                "page is found by it"
            )
        found += _of_publication(config)
    return found


def read_beside(config: configs.Import, folder: Path) -> list[dict[str, str]]:
    """The rows of one publication, and of others in `folder` by the same publisher.

    A page rests on its own files: another publication that cannot be read is left out.
    """
    found = list(_of_publication(config))
    for path in sorted(folder.glob("*.yaml")):
        try:
            other = configs.load(path)
            same = config.publisher and other.publisher == config.publisher
            if same and other.round != config.round:
                found += list(_of_publication(other))
        except (AnalysisError, ConfigError):
            continue
    return found


def _of_publication(config: configs.Import) -> Iterator[dict[str, str]]:
    """The rows of a publication's files, checked as an import checks them."""
    for name in config.files:
        table, values = read_both(project.find(name), config.names)
        own = {
            "file": name,
            "round": config.round,
            "publication": config.title,
            "publisher": config.publisher or config.title,
        }
        is_published = published.is_published(table.columns)
        for row in _as_published(table) if is_published else _tidy(values):
            yield {**row, **own}


def _as_published(table: Table) -> Iterator[dict[str, str]]:
    for line, row in table.rows:
        label = published.IMPLEMENTATIONS.get(row["framework"], ("", row["framework"]))[1]
        yield {**row, "line": str(line), "implementation": label}


def _tidy(values: Iterable[Value]) -> Iterator[dict[str, str]]:
    """A row, in the columns of published tables, for each metric of a case of a tidy CSV.

    Its value is the median of the repetitions; of several estimates of one, the first counts.
    """
    groups: dict[tuple[object, ...], dict[int, Value]] = {}
    for value in values:
        if value.value is not None:
            own = groups.setdefault(identity(value, "repetition", "estimator"), {})
            own.setdefault(value.repetition, value)
    for repetitions in groups.values():
        value = next(iter(repetitions.values()))
        yield {
            "form": TIDY,
            "line": str(value.line),
            "report": value.source,
            "table": value.table,
            "framework": value.framework,
            "implementation": value.title,
            "model": value.workload,
            "precision": value.precision,
            "xla": "yes" if value.compiler == "xla" else "",
            "compiler": value.compiler or NO_COMPILER,
            "nodes": str(value.nodes),
            "gpus_per_node": str(value.devices_per_node),
            "devices": str(value.nodes * value.devices_per_node),
            "bsz_per_device": str(value.batch_size or ""),
            "data": value.data,
            "metric": value.metric,
            "unit": value.unit,
            "value": repr(median([each.value or 0.0 for each in repetitions.values()])),
            "gpu": value.hardware,
            "mode": value.scenario,
            "accumulation_steps": value.dimensions.get("accumulation", ""),
            "dimensions": " ".join(
                f"{key}={text}" for key, text in value.dimensions.items() if key != "accumulation"
            ),
        }


#: What `form` says of a row that stands in the tidy form; published tables' rows have none.
TIDY = "tidy"


def flag(row: Row, key: str) -> str:
    """'yes', or '' for 'no' and for nothing said."""
    return "yes" if row.get(key) == "yes" else ""


def point(row: Row, without: Sequence[str] = ()) -> tuple[str, ...]:
    """What a number is of, without where it stands: two of one point must be equal."""
    keys = (
        *(
            "publisher",
            "implementation",
            "model",
            "precision",
            "bsz_per_device",
            "metric",
            "mode",
            "gpu",
        ),
        *("nodes", "gpus_per_node", "seq_len", "phase", "dataset", "epochs", "percentile"),
        *("stat", "group", "case", "backbone", "loss", "parallel", "sample_ratio"),
        *("vocab_size", "embedding_vec_size", "hidden_units", "system"),
        *("compiler", "data", "dimensions"),
    )
    flags = [flag(row, key) for key in ("xla", "dali")]
    clip = "no" if row.get("clip") == "no" else ""
    return *(row.get(key) or "" for key in keys if key not in without), *flags, clip


def place(row: Row) -> str:
    """'config/published/….csv:17'."""
    return f"{row['file']}:{row['line']}"


def case(row: Row) -> str:
    """'NGC MXNet fp32 b128 4n8d', with what else tells it apart."""
    batch = row.get("bsz_per_device")
    parts = [
        row["implementation"],
        row["precision"],
        f"b{batch}" if batch else "",
        f"{row['nodes']}n{row['gpus_per_node']}d",
        row.get("case") or "",
        f"seq {row['seq_len']}" if row.get("seq_len") and not row.get("case") else "",
        row.get("parallel") or "",
        row.get("dataset") or "",
        row.get("dimensions") or "",
        "xla" if row.get("xla") == "yes" else "",
        "without clip" if row.get("clip") == "no" else "",
    ]
    return " ".join(filter(None, parts))


def where(row: Row) -> str:
    return f"{', '.join(filter(None, (row['report'], row['table'])))}: {case(row)}"


def in_table(row: Row) -> tuple[str, str]:
    return row["file"], row["table"]


def group(
    rows: Iterable[Row], key: Callable[[Row], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Row]]:
    """Rows that are of one thing, by its key."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
