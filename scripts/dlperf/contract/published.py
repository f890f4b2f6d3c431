"""What publications say of a workload, under their own names, as its facts know it."""

from typing import Dict, NamedTuple, Tuple


class Published(NamedTuple):
    """What is published of a model under one name.

    data: the kind of data that it trained on where no column says so. updates: of a training in
    phases, phase -> updates. headings: (table, precision) -> the batch that heads the table, where
    the table has another batch for each framework.
    """

    data: str = ""
    updates: Dict[str, int] = {}
    headings: Dict[Tuple[str, str], str] = {}
