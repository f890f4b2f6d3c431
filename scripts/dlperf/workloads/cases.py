"""Cases with the dimensions of their workloads.

Apart from the package itself, which decides what implementations compute: how a case is spelled
does not.
"""

import dataclasses

from dlperf import frameworks, workloads
from dlperf.contract.case import Case, Known
from dlperf.contract.layout import SPELLED, Layout


def known():
    """What a case document may name."""
    return Known(workloads.NAMES, frameworks.NAMES, workloads.dimensions, workloads.data)


def case_of(identity):
    """The case of a document's or record's identity."""
    return Case.of(identity, workloads.dimensions)


def case_of_row(row):
    """The case of a table's row, in which `layout` stands as its parts."""
    return case_of(dict(row, layout=dataclasses.asdict(layout_of_row(row))))


def layout_of_row(row):
    """The layout of a table's row, in which words such as true are numbers."""
    return Layout(**{name: type(standard)(row[name]) for name, (_, standard) in SPELLED.items()})


def parse_case(folder):
    """The case that a folder under runs/ spells. Raises ValueError for one that no case has."""
    return Case.parse(folder, workloads.dimensions)


def base_case(case):
    """The case that a speed-up of `case` is over."""
    return workloads.of(case.workload).base(case)
