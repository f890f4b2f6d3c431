"""What publications say of a workload, under their own names, as its facts know it."""

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple


class Published(NamedTuple):
    """What is published of a model under one name.

    data: the kind of data that it trained on where no column says so. updates: of a training in
    phases, phase -> updates. headings: (table, precision) -> the batch that heads the table, where
    the table has another batch for each framework. cases: what its own names of cases say, where
    its tables are of named cases, none of which is the one that the others are over.
    flops_per_sample(row): FLOPs that it counts of a sample, by a row's columns, where it prints
    achieved FLOP/s.
    """

    data: str = ""
    updates: Dict[str, int] = {}
    headings: Dict[Tuple[str, str], str] = {}
    cases: str = ""
    flops_per_sample: Optional[Callable[[Mapping[str, Any]], float]] = None
