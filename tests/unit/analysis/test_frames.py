"""A round's tables as DataFrames say what the TSV files say."""

import pandas
import pytest
from analysed_round import SMALL, analyse, mxnet_fails
from generated_round import write_round

from dlperf.analysis import frames
from dlperf.analysis.schema.files import AnalysisError, read_table


@pytest.fixture
def results(tmp_path):
    results = write_round(tmp_path, SMALL, fate=mxnet_fails)
    analyse(results)
    return results


def test_frames_hold_every_value_of_the_tables(results):
    for frame, name in (
        (frames.measurements(results), "measurements.tsv.gz"),
        (frames.cells(results), "cells.tsv"),
        (frames.certificates(results), "certificates.tsv"),
    ):
        rows = read_table(results / name)
        assert len(frame) == len(rows)
        for row, found in zip(rows, frame.to_dict("records"), strict=True):
            for column, value in row.items():
                empty = value is None or value == ""
                assert pandas.isna(found[column]) if empty else found[column] == value


def test_the_example_of_the_documentation(results):
    cells = frames.cells(results)
    memory = cells[cells.metric == "memory"].pivot(
        index="framework", columns="devices_per_node", values="median"
    )
    assert list(memory.columns) == [1, 2]
    assert pandas.isna(memory.loc["mxnet", 2]) and memory.loc["pytorch", 2] > 0


def test_a_folder_without_a_round_is_said(tmp_path):
    with pytest.raises(AnalysisError, match=r"cells\.tsv: cannot be read"):
        frames.cells(tmp_path)
