"""What the searches of a round found: cases with their number in place.

In: cases, and the round's folder. Out: the same cases; those that are searched have the size that
their search found, or 0 as long as there is none.
"""

from pathlib import Path

from dlperf.contract import searched
from dlperf.contract.case import Case


def found(case: Case, folder: Path) -> Case:
    """The case with the size that its search in the round's `folder` found.

    Raises ValueError, which names the file, for one that is no search.
    """
    path = folder / searched.path_of(case)
    if not case.searched or not path.exists():
        return case
    return case.sized(searched.read(path)["value"])
