"""Verdicts on figures of others, in words; and where what they rest on lies.

In: an entry of `beside`. Out: the folder of its tables, and the name of its figure.
docs/comparing.md has the rules.
"""

from collections.abc import Sequence
from pathlib import Path

from dlperf import plan
from dlperf.analysis.round import names

REPRODUCED, FASTER, SLOWER = "reproduced", "faster", "slower"
#: The same of what is used and not waited for.
LESS, MORE, AMOUNTS = "less", "more", ("memory", "energy")
NOT_REPRODUCED, UNDECIDED = "not reproduced", "undecided"
NOT_TESTABLE, NO_COUNTERPART = "not testable", "no counterpart"
#: What each verdict means, in the order of tables; {margin} stands for the config's.
VERDICTS = {
    REPRODUCED: "The interval of the ratio lies within {margin} of their figure.",
    FASTER: "The interval lies wholly beyond that: faster here, by more than {margin}.",
    SLOWER: "The interval lies wholly beyond that: slower here, by more than {margin}.",
    LESS: "The interval lies wholly below that: less is used here, by more than {margin}.",
    MORE: "The interval lies wholly above that: more is used here, by more than {margin}.",
    NOT_REPRODUCED: "Significantly different from their figure, but whether by more than {margin} "
    "is not shown: the interval excludes 1 and holds an end of the margin.",
    UNDECIDED: "Neither equal nor different: the interval holds 1 and reaches beyond {margin}. "
    "More repetitions may decide.",
    NOT_TESTABLE: "Their cell and ours are not of the same work on the same device, or too little "
    "is known: a verdict would mislead.",
    NO_COUNTERPART: "Nothing of this framework, scenario, precision, topology and layout was "
    "measured here.",
}
#: Those that rest on a test.
TESTED = tuple(VERDICTS)[:7]


def figures(entries: Sequence[str]) -> dict[str, str]:
    """{name of the figure: entry} of the entries of `beside`: 'beside-before' of '/data/before'.

    A publication and a round may have one name: the second's figure is 'beside-before-2'.
    """
    found: dict[str, str] = {}
    for entry in entries:
        own = f"{names.BESIDE}-{plan.label_beside(entry)}"
        found[f"{own}-2" if own in found else own] = entry
    return found


def folder_of(entry: str, others: Path, shared: Path) -> tuple[Path, bool]:
    """(the folder with the tables of an entry of `beside`, whether it is a publication).

    `others` has the copies of rounds, `shared` the folders of all rounds, imported ones too. What
    is named by a path is a round; a name is a publication if that was imported.
    """
    imported = shared / f"imported-{entry}"
    if "/" not in entry and (imported / "cells.tsv").exists():
        return imported, True
    copied = others / plan.label_beside(entry)
    return (copied, False) if copied.is_dir() else (imported, True)
