"""Each column of the tables is described once: its type, heading and form."""

from collections import Counter

import pytest

from dlperf import workloads
from dlperf.analysis.compare import conditions
from dlperf.analysis.report import provenance
from dlperf.analysis.schema import columns

FILES = {
    "measurements": [*columns.IMPORTED, *columns.measurements(workloads.NAMES)],
    "parity": columns.PARITY,
    "certificates": columns.CERTIFICATE,
    "checks": columns.CHECK,
    "latencies": columns.LATENCIES,
    "curves": columns.CURVES,
    "limits": columns.LIMIT,
    "roofline": columns.ROOFLINE,
    "cells": [*columns.cells(workloads.NAMES), *columns.DERIVED],
    "searches": columns.SEARCH,
    "comparison": columns.comparison(workloads.NAMES),
    "beside": columns.beside(workloads.NAMES),
}
DESCRIBED = [each.name for each in columns.ALL]


def test_no_column_is_described_twice():
    assert [name for name, count in Counter(DESCRIBED).items() if count > 1] == []


@pytest.mark.parametrize("file", FILES)
def test_every_column_of_a_file_is_described(file):
    own = set(columns.dimensions(workloads.NAMES))
    assert set(FILES[file]) - own <= set(DESCRIBED)


def test_nothing_is_described_that_no_file_has():
    assert set(DESCRIBED) <= {name for names in FILES.values() for name in names}


def test_facts_of_a_machine_are_called_the_same_in_the_report_and_in_a_comparison():
    for name in (*provenance.SHOWN, *conditions.FACTS, *columns.READINGS):
        assert columns.column(name).heading, name
    row = dict.fromkeys((*columns.HOST, "gpu", "gpu_driver"))
    row |= {"hostname": "n1", "gpu": "", "gpu_driver": "", "os": "", "kernel": "", "governor": ""}
    row |= {
        "cpu": "EPYC",
        "cores": 2,
        "memory_bytes": 8 << 30,
        "gpu_clock_mhz_before": 1410.0,
        "idle_share_before": 0.97,
    }
    (host,) = provenance.hosts([row, {**row, "idle_share_before": 0.99}])
    assert host["facts"] == {
        "CPU": "EPYC",
        "cores that may be used": "2 of 2 cores",
        "memory": "8.0 GiB",
        "idle CPU time before a repetition": "97 – 99 %",
        "GPU clock before a repetition": "1410 MHz",
    }


def test_a_workloads_own_dimension_is_a_column():
    size = columns.column("image_size")
    assert (size.kind, size.title) == (int, "Image size, px")


def test_a_value_is_written_as_its_column_says():
    written = {"median": "12.35", "efficiency": "98.8 %", "unit": "images/s", "cv": "0.12 %"}
    values = {"median": 12.345678, "efficiency": 0.9876, "unit": "images/s", "cv": 0.00123}
    assert {name: columns.column(name).form(value) for name, value in values.items()} == written
