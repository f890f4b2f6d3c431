"""What mypy knows of rows is what tables have."""

from typing import get_type_hints

import pytest

from dlperf.analysis.schema import columns, rows


def names_of(row):
    return set(get_type_hints(row))


@pytest.mark.parametrize(
    "row, table",
    [
        (rows.Measurement, [*columns.IMPORTED, *columns.measurements([])]),
        (rows.Cell, [*columns.IMPORTED, *columns.cells([]), *columns.DERIVED]),
        (rows.Certificate, columns.CERTIFICATE),
        (rows.Check, columns.CHECK),
        (rows.Limit, columns.LIMIT),
    ],
)
def test_the_columns_of_a_row_are_those_of_its_table(row, table):
    assert names_of(row) == set(table)


@pytest.mark.parametrize(
    "row, table",
    [
        (rows.Parity, columns.PARITY),
        (rows.Curve, columns.CURVES),
        (rows.Comparison, columns.comparison([])),
        (rows.Beside, columns.beside([])),
    ],
)
def test_a_row_has_the_columns_of_its_table_and_of_a_case(row, table):
    assert set(table) <= names_of(row) <= {*table, *columns.CASE, "table"}


@pytest.mark.parametrize("row", [rows.Measurement, rows.Cell, rows.Certificate, rows.Comparison])
def test_text_is_text_and_a_count_is_a_whole_number(row):
    for name, kind in get_type_hints(row).items():
        if kind in (str, int):
            assert columns.column(name).kind is kind
