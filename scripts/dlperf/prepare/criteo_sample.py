"""Make a small file like Criteo's: clicks, numbers and categories of advertisements.

The input is a seed. The output is results/data/criteo-sample/train.txt, in the format of the
challenge's file (a row is a line with a label, 13 numbers and 26 categories of 8 hexadecimal
digits, separated by tabs; missing values are empty), and its manifest, which is written last. The
values are random. Numbers and categories have long tails and missing values as Criteo's have, and
the labels depend on some of them, so that a model can learn something: a click is where the sum of
log(1 + n) of the first three numbers, less the places modulo 3 of the first five categories, plus
noise, is among the highest 25.6 %. RandomState never changes its stream, so the same seed gives the
same bytes.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dlperf.contract import terminal
from dlperf.prepare import manifest
from dlperf.prepare.criteo import TEST_PART

NUMBERS, CATEGORIES = 13, 26
# The number of values of each category, from 3 to 100,000, spread as in Criteo's file; and the
# share of missing values in each column, from none to half.
SIZES = np.geomspace(3, 100_000, CATEGORIES).astype(int)
GAPS = np.linspace(0, 0.5, NUMBERS + CATEGORIES)
CLICKS = 0.256  # share of the rows whose label is 1, in Criteo's file


def make(out: Path, rows: int = 50_000, seed: int = 1) -> dict:
    """Write train.txt and then manifest.json, in one step; return the manifest.

    rows: those to train on. A sixth as many come behind them, drawn the same way: prepare/criteo.py
    takes the last seventh of a file to test with.
    """
    manifest.begin(out)
    random = np.random.RandomState(seed)
    numbers, ranks, score = drawn(random, rows)
    bound = np.quantile(score, 1 - CLICKS)
    missing = random.random_sample((rows, NUMBERS + CATEGORIES))
    gaps = random.permutation(GAPS)
    lines = list(as_text(numbers, ranks, score > bound, missing < gaps))
    clicks = int((score > bound).sum())
    tests = rows // (TEST_PART - 1)
    numbers, ranks, score = drawn(random, tests)
    missing = random.random_sample((tests, NUMBERS + CATEGORIES))
    lines += as_text(numbers, ranks, score > bound, missing < gaps)
    clicks += int((score > bound).sum())
    (out / "train.txt").write_bytes("".join(lines).encode())
    files = manifest.listed(out, ["train.txt"])
    return manifest.finish(
        out,
        "criteo-sample",
        files,
        rows=len(lines),
        clicks=clicks,
        seed=seed,
        sources=[{"credit": "drawn from the seed; has no rows of Criteo's", "licence": "CC0 1.0"}],
    )


def drawn(random: np.random.RandomState, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(numbers, the places of categories among their values, a score: high ones are clicks)"""
    numbers = np.floor(np.exp(random.standard_normal((rows, NUMBERS)) * 1.5 + 1)).astype(int)
    # a uniform number to the fourth power makes the first values of a column the frequent ones
    ranks = (random.random_sample((rows, CATEGORIES)) ** 4 * SIZES).astype(int)
    score = np.log1p(numbers[:, :3]).sum(axis=1) - (ranks[:, :5] % 3).sum(axis=1)
    return numbers, ranks, score + random.standard_normal(rows)


def as_text(
    numbers: np.ndarray, ranks: np.ndarray, labels: np.ndarray, missing: np.ndarray
) -> Iterator[str]:
    """The lines of the rows."""
    for row in range(len(labels)):
        values = [str(number) for number in numbers[row]]
        # spreads the names; no two become the same, as odd numbers are invertible modulo 2^32
        names = (rank * 2654435761 + column for column, rank in enumerate(ranks[row].tolist()))
        values += [f"{name % 2**32:08x}" for name in names]
        shown = ["" if gap else value for value, gap in zip(values, missing[row], strict=True)]
        yield "\t".join([str(int(labels[row])), *shown]) + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.prepare.criteo_sample",
        description="Make a small file like Criteo's.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("results/data/criteo-sample"))
    parser.add_argument("--rows", type=int, default=50_000, help="to train on")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    if asked.rows < 1:
        sys.exit(f"error: --rows is {asked.rows}: at least 1 is needed")
    made = make(asked.out, asked.rows, asked.seed)
    print(f"{asked.out}: {made['rows']} rows, {made['clicks']} clicks")


if __name__ == "__main__":
    terminal.as_utf8()
    main()
