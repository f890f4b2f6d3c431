"""The rounds in config/: what each plans, and what it cannot; rounds.tsv beside this file says it.

    PYTHONPATH=scripts:tests python tests/unit/plan/test_rounds.py

writes that table anew. Read its changes line by line: a case that becomes unsupported is one that
operators no longer measure.
"""

import csv
from collections import Counter
from pathlib import Path

import pytest

from dlperf import workloads
from dlperf.plan import expand, load
from dlperf.prepare import sources

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = sorted([ROOT / "config/config.yaml", *(ROOT / "config/rounds").glob("*.yaml")])
TABLE = Path(__file__).with_name("rounds.tsv")
COLUMNS = ("round", "framework", "cases", "unsupported")

#: Those that a round has for the reason alone that stands in its report.
NEVER_RUN = {("dlperf-v1-wide-deep", "mindspore")}


def planned(path: Path) -> list[dict[str, str]]:
    """A row for each framework and each reason; those of cases that run have none."""
    config = load(path)
    found = Counter((case.framework, case.unsupported) for case in expand(config))
    return [
        dict(zip(COLUMNS, (config.round, framework, str(count), reason), strict=True))
        for (framework, reason), count in sorted(found.items())
    ]


def listed() -> list[dict[str, str]]:
    with open(TABLE, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


@pytest.mark.parametrize("path", ROUNDS, ids=lambda path: path.stem)
def test_a_round_plans_what_the_table_says(path):
    found = planned(path)
    assert found == [row for row in listed() if row["round"] == found[0]["round"]]


def test_the_table_has_no_round_that_is_gone():
    assert {row["round"] for row in listed()} == {load(path).round for path in ROUNDS}


def test_each_framework_of_a_round_runs_something_in_it():
    runs = {(row["round"], row["framework"]) for row in listed() if not row["unsupported"]}
    assert {(row["round"], row["framework"]) for row in listed()} - runs == NEVER_RUN


def test_all_data_that_are_fetched_are_those_of_some_round():
    prepared = sources.load_all(ROOT / "config/data.yaml").prepared
    fetched = {
        name.replace("-", "_")
        for kind in ("images", "text", "clicks", "questions")
        for name, each in getattr(prepared, kind).items()
        if each.source and not name.endswith("-test")
    }
    assert fetched == {"imagenet", "wikipedia", "criteo", "squad", "squad2"}
    kinds = {kind for name in workloads.NAMES for kind in workloads.data(name)}
    asked = {case.data for path in ROUNDS for case in expand(load(path)) if not case.unsupported}
    assert fetched <= kinds & asked


def test_a_round_that_needs_data_says_so_in_its_first_lines():
    words = {
        "imagenet": "ImageNet",
        "wikipedia": "Wikipedia",
        "criteo": "Criteo",
        "squad": "SQuAD",
        "squad2": "v2.0",
    }
    for path in ROUNDS:
        head, _, _ = path.read_text().partition("\nround:")
        for kind in {case.data for case in expand(load(path))} & words.keys():
            assert words[kind] in head and "needs" in head and "docs/data.md" in head, path


if __name__ == "__main__":
    with open(TABLE, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for path in ROUNDS for row in planned(path))
