"""The rows of published tables: read, and named.

In: the CSV files of the imported rounds in config/published/. Out: their rows as they were written,
each with its file and line; what a number is of, in keys and in words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from dlperf.analysis.publications import config as configs
from dlperf.analysis.publications import published
from dlperf.analysis.publications.values import read_csv
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract import project

Row = Mapping[str, str]


def read_all(folder: Path) -> list[dict[str, str]]:
    """The rows of all files that the YAML files in `folder` name, with `file` and `line`."""
    found = []
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise AnalysisError(f"{folder}: has no YAML file of an imported round")
    for path in paths:
        config = configs.load(path)
        for name in config.files:
            table = read_csv(project.find(name))
            if not published.is_published(table.columns):
                continue
            for line, row in table.rows:
                label = published.IMPLEMENTATIONS.get(row["framework"], ("", row["framework"]))[1]
                own = {
                    "file": name,
                    "line": str(line),
                    "publication": config.title,
                    "publisher": config.publisher or config.title,
                    "implementation": label,
                }
                found.append({**row, **own})
    return found


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
        "xla" if row.get("xla") == "yes" else "",
        "without clip" if row.get("clip") == "no" else "",
    ]
    return " ".join(filter(None, parts))


def where(row: Row) -> str:
    return f"{row['report']}, {row['table']}: {case(row)}"


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
