"""How often a comparison of rounds finds what changed, and how often what did not.

    .venv/bin/python benchmarks/comparison.py

Simulates pairs of rounds of 24 or 120 cells, of which 6 or none changed. Prints the share of
changed cells that are found, by permutation with maxT (dlperf.analysis.statistics.permutation) and
by rank tests with Holm's correction, and the share of pairs with a cell that is called different
wrongly.
About a minute of one core. docs/comparing.md has the figures.
"""

import sys

import numpy as np
from common import ROOT
from scipy import stats

sys.path.insert(0, str(ROOT / "tests/support"))

from noises import disturbed, drifting, heavy_tails, normal

from dlperf.analysis.statistics.permutation import p_values

CHANGED = 6


def holm(before, now):
    """Corrected p-values of exact rank tests, a column a cell."""
    p = stats.mannwhitneyu(before, now, method="exact").pvalue
    order = np.argsort(p)
    corrected = np.empty(len(p))
    factors = len(p) - np.arange(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1)
    return corrected


def simulate(noise, repetitions, cells, change, pairs):
    """(found by maxT, found by Holm, pairs with a wrong one by maxT, and by Holm), as shares."""
    dice = np.random.default_rng(11)
    changed = CHANGED if change else 0
    found, wrong = np.zeros(2), np.zeros(2)
    for _ in range(pairs):
        speeds = np.exp(noise(dice, (2 * repetitions, cells)))
        speeds[repetitions:, :changed] *= 1 + change
        before, now = speeds[:repetitions], speeds[repetitions:]
        for method, p in enumerate((p_values(before, now)[1], holm(before, now))):
            found[method] += (p[:changed] <= 0.05).sum()
            wrong[method] += (p[changed:] <= 0.05).any()
    return (*(found / max(1, changed * pairs)), *(wrong / pairs))


def main():
    shares = ("found, maxT", "found, Holm", "wrong, maxT", "wrong, Holm")
    print("noise", "repetitions", "cells", "change", "pairs", *shares, sep="\t")
    for noise, repetitions, cells, change, pairs in (
        (normal, 7, 24, -0.1, 20),
        (normal, 7, 24, -0.05, 20),
        (normal, 7, 24, -0.03, 20),
        (normal, 7, 120, -0.1, 10),
        (disturbed, 7, 24, -0.1, 30),
        (disturbed, 7, 120, -0.1, 20),
        (disturbed, 5, 24, -0.1, 60),
        *((each, 5, 24, 0.0, 400) for each in (normal, heavy_tails, disturbed, drifting)),
    ):
        shares = simulate(noise, repetitions, cells, change, pairs)
        shown = "\t".join(f"{share:.3f}" for share in shares)
        print(f"{noise.__name__}\t{repetitions}\t{cells}\t{change}\t{pairs}\t{shown}", flush=True)


if __name__ == "__main__":
    main()
