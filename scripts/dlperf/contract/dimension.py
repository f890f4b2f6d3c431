"""A workload's own dimension of a case."""

from typing import Dict, NamedTuple


class Dimension(NamedTuple):
    """`key` spells it in a case's name, where the value differs from the `standard` one.

    `words` says what each value means, where it is a choice and not a size.
    """

    key: str
    standard: int
    words: Dict[int, str] = {}
