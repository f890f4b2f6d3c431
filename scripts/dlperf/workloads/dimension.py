"""A workload's own dimension of a case."""

from typing import NamedTuple


class Dimension(NamedTuple):
    """`key` spells it in a case's name, where the value differs from the `standard` one."""

    key: str
    standard: int
