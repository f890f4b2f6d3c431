"""Searches in a real workflow: what waits for them, and what is made again."""

import os
import re
from pathlib import Path

import pytest
import yaml
from conftest import SMALL_ROUND, snakemake
from generated_round import write_round

from dlperf import plan
from dlperf.contract import searched

ROUND = {
    **SMALL_ROUND,
    "frameworks": ["pytorch"],
    "topologies": ["1n1d"],
    "repetitions": 1,
    "memory_limit": "1.2 GB",
    "workloads": {
        "resnet50": {"precisions": ["fp32"], "batch_sizes": {"fp32": ["max"]}, "image_size": 32}
    },
}
(CASE,) = plan.expand(plan.load(ROUND))
RECORD = f"results/small/runs/{CASE.folder}/rep1.json"
SEARCH = f"results/small/{searched.path_of(CASE)}"


@pytest.fixture
def folder(checkout: Path) -> Path:
    """A checkout with a made-up environment, and a config that asks for the largest batch."""
    for shared in ("environments", "data", "certificates"):
        (checkout / "results" / shared).unlink()
    write_round(checkout, ROUND)
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(ROUND))
    os.utime(checkout / SEARCH)  # after its environment, and before the record
    os.utime(checkout / RECORD)
    return checkout


def would_run(folder: Path) -> set[str]:
    """Of the search and the repetition, what the next call runs for the record."""
    said = snakemake("-n", "--rerun-triggers", "mtime", "--", RECORD, cwd=folder)
    return set(
        re.findall(r"^ *(search|repetition) +\d+ *$", said.stdout + said.stderr, re.MULTILINE)
    )


def test_a_round_that_is_there_searches_nothing_again(folder):
    assert would_run(folder) == set()


def test_a_repetition_waits_for_the_search_of_its_size(folder):
    (folder / RECORD).unlink()
    (folder / SEARCH).unlink()
    assert would_run(folder) == {"search", "repetition"}


def test_a_search_that_was_stopped_when_it_was_made_again_is_made_at_the_next_call(folder):
    (folder / SEARCH).unlink()
    assert would_run(folder) == {"search", "repetition"}


def test_what_a_new_search_finds_is_measured(folder):
    later = (folder / RECORD).stat().st_mtime + 60
    os.utime(folder / SEARCH, (later, later))
    assert would_run(folder) == {"repetition"}
