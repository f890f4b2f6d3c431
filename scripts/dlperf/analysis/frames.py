"""A round's tables as pandas DataFrames, for scripts and notebooks of your own.

    import sys
    sys.path.insert(0, "scripts")
    from dlperf.analysis import frames

    cells = frames.cells("results/laptop")
    cells[cells.metric == "memory"].pivot(
        index="framework", columns="devices_per_node", values="median"
    )

Columns and their types are those of schema/columns.py; what nobody measured is <NA>. Who wins is
among `cells[cells["rank"].notna()]`: a cell without a rank keeps its number, but its work is not
certified or in doubt. The cells of a round are made from these frames too.
"""

from pathlib import Path

import pandas

from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import AnalysisError, Row
from dlperf.contract import storage

_TYPES = {int: "Int64", float: "Float64", str: "string"}


def measurements(folder: str | Path) -> pandas.DataFrame:
    """A row a repetition: its settings, numbers, host and provenance."""
    return read(Path(folder) / "measurements.tsv.gz")


def cells(folder: str | Path) -> pandas.DataFrame:
    """A row for each case and metric: median, interval, ratio to the base, rank, flags.

    Without the rows of cells.tsv that are derived from these (see round/derived.py).
    """
    found = read(Path(folder) / "cells.tsv")
    derived = found[[name for name in columns.DERIVED if name in found]].notna().any(axis=1)
    return found[~derived]


def certificates(folder: str | Path) -> pandas.DataFrame:
    """A row a tier of every certificate of equal work that the round needs."""
    return read(Path(folder) / "certificates.tsv")


def read(path: str | Path) -> pandas.DataFrame:
    """Any table of a round. Raises AnalysisError where it cannot be read."""
    try:
        header = pandas.read_csv(path, sep="\t", nrows=0).columns
        kinds = columns.numbers(header)
        types = {name: _TYPES[kinds.get(name, str)] for name in header}
        return pandas.read_csv(path, sep="\t", dtype=types, keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        if storage.is_lacking(error):
            raise
        raise AnalysisError(f"{path}: cannot be read: {error}") from None


def rows(frame: pandas.DataFrame) -> list[Row]:
    """Rows as schema.files.read_table gives them: None for no number, "" for no text."""
    lists = []
    for name, values in frame.items():
        empty = "" if pandas.api.types.is_string_dtype(values) else None
        plain = values.astype(object).where(values.notna(), empty)
        lists.append([(name, value) for value in plain])
    return [dict(fields) for fields in zip(*lists, strict=True)]
