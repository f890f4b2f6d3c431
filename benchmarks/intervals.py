"""How often the intervals, ranks and marks of the analysis are right, by simulation.

    .venv/bin/python benchmarks/intervals.py [--rounds 100000]

Values are drawn from distributions whose median is known; printed is how often the interval of a
median, of a ratio of two, and a ranking of equal cells do what the formulas of
dlperf.analysis.statistics say. tests/unit/analysis/statistics/test_simulation.py asserts it with
fewer rounds. Intervals of whole arrays are taken here by the same ranks that
median_interval takes; the test compares them with it, value by value.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.special import ndtri

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from dlperf.analysis.statistics import medians, separation

SIZES = (3, 5, 6, 7, 9)
FRAMEWORKS = (2, 4, 8)

#: name -> (draw(dice, shape), true median). Slow repetitions are what disturbs a benchmark: the
#: contaminated one has 10 % that are 10 standard deviations slower.
DISTRIBUTIONS = {
    "normal": (lambda dice, shape: dice.standard_normal(shape), 0.0),
    "lognormal": (lambda dice, shape: np.exp(dice.standard_normal(shape)), 1.0),
    "Student t, 2 d.f.": (lambda dice, shape: dice.standard_t(2, shape), 0.0),
    "Cauchy": (lambda dice, shape: dice.standard_cauchy(shape), 0.0),
    "10 % slow": (
        lambda dice, shape: dice.standard_normal(shape) - 10 * (dice.random(shape) < 0.1),
        float(ndtri(0.4 / 0.9)),  # nearly: the slow ones hardly reach it
    ),
    "ties (rounded)": (lambda dice, shape: np.round(dice.standard_normal(shape)), 0.0),
}
CONTINUOUS = tuple(name for name in DISTRIBUTIONS if not name.startswith("ties"))


def intervals(values, confidence=medians.CONFIDENCE):
    """(low, high) of the last axis' medians: median_interval of every row at once."""
    n = values.shape[-1]
    k = medians.order_rank(n, confidence)
    ordered = np.sort(values, axis=-1)
    return ordered[..., k - 1], ordered[..., n - k]


def median_coverage(name, n, rounds, dice):
    """The share of intervals of the median of n values that hold the true median."""
    draw, true = DISTRIBUTIONS[name]
    low, high = intervals(draw(dice, (rounds, n)))
    return float(np.mean((low <= true) & (true <= high)))


def speeds(name, shape, dice, noise=0.05):
    """Positive values with the true median 1: exp(noise (x - median)), which keeps the tails."""
    draw, true = DISTRIBUTIONS[name]
    return np.exp(noise * np.clip(draw(dice, shape) - true, -1000, 1000))


def ratio_coverage(name, n, rounds, dice):
    """The share of intervals of a ratio of two medians of n that hold the true ratio."""
    each = 1 - (1 - medians.CONFIDENCE) / 2
    above = intervals(1.7 * speeds(name, (rounds, n), dice), each)
    below = intervals(speeds(name, (rounds, n), dice), each)
    low, high = above[0] / below[1], above[1] / below[0]
    return float(np.mean((low <= 1.7) & (1.7 <= high)))


def false_rankings(name, n, cells, rounds, dice, spreads=(1.0,)):
    """The share of rounds in which, of equal cells, any one is said to be faster than another.

    `spreads` multiply the noise of the cells in turn; their medians stay equal.
    """
    draw, true = DISTRIBUTIONS[name]
    noise = np.resize(spreads, cells)[:, None]
    low, high = intervals((draw(dice, (rounds, cells, n)) - true) * noise)
    return float(np.mean(low.max(axis=1) > high.min(axis=1)))


def power(name, n, rounds, dice):
    """How often a cell that is faster by `detectable` of the other one's values is found faster."""
    logs = np.log(speeds(name, (rounds, 2, n), dice, noise=0.01))
    spread = logs[:, 0].std(axis=-1, ddof=1)
    shift = separation.separating_shift(n) * spread
    low, high = intervals(logs)
    return float(np.mean(low[:, 1] + shift > high[:, 0]))


def marked(name, n, rounds, dice):
    """The share of undisturbed cells of n in which a repetition is marked as an outlier."""
    values = DISTRIBUTIONS[name][0](dice, (rounds, n))
    apart = np.abs(values - np.median(values, axis=-1, keepdims=True))
    scale = np.median(apart, axis=-1) / 0.6745
    scale = np.where(scale > 0, scale, 1.253314 * apart.mean(axis=-1))
    score = np.divide(apart.max(axis=-1), scale, out=np.zeros(rounds), where=scale > 0)
    least = medians.OUTLIER_SCORES.get(n, medians.OUTLIER_SCORE)
    return float(np.mean(score >= least))


def table(title, stated, found, sizes=SIZES):
    """Print a Markdown table: a row a distribution, a column a size, the stated values first."""
    print(f"\n**{title}**\n")
    print(f"| | {' | '.join(f'n = {n}' for n in sizes)} |\n|---|{'---:|' * len(sizes)}")
    for name, values in {**stated, **found}.items():
        print(f"| {name} | {' | '.join(f'{100 * value:.1f} %' for value in values)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100_000)
    rounds = parser.parse_args().rounds
    dice = np.random.default_rng(20261122)
    ratio = 1 - (1 - medians.CONFIDENCE) / 2
    cover = {n: medians.order_coverage(n, medians.order_rank(n)) for n in SIZES}
    each = {n: medians.order_coverage(n, medians.order_rank(n, ratio)) for n in SIZES}

    table(
        "Interval of a median: how often it contains the true median",
        {"stated": [cover[n] for n in SIZES]},
        {d: [median_coverage(d, n, rounds, dice) for n in SIZES] for d in DISTRIBUTIONS},
    )
    table(
        "Interval of a ratio of two medians",
        {"stated, at least": [max(0, 2 * each[n] - 1) for n in SIZES]},
        {d: [ratio_coverage(d, n, rounds, dice) for n in SIZES] for d in DISTRIBUTIONS},
    )
    for cells in FRAMEWORKS:
        table(
            f"Ranking of {cells} equal cells: how often any two are separated",
            {"stated": [separation.false_ranking((n,) * cells) for n in SIZES]},
            {
                d: [false_rankings(d, n, cells, rounds // 4, dice) for n in SIZES]
                for d in DISTRIBUTIONS
            }
            | {
                f"{d}, noise 1 and 10 in turn": [
                    false_rankings(d, n, cells, rounds // 4, dice, (1, 10)) for n in SIZES
                ]
                for d in ("normal", "10 % slow")
            },
        )
    able = tuple(n for n in range(3, 10) if separation.false_separation(n, n) <= separation.ERROR)
    table(
        "Detectable difference: how often a cell that is faster by this much is found to be faster",
        {"stated, for normal noise that is known": [separation.POWER] * len(able)},
        {d: [power(d, n, rounds, dice) for n in able] for d in CONTINUOUS},
        able,
    )
    sizes = (5, 6, 7, 9, 12, 20)
    table(
        "Outliers: how often one is marked in a cell",
        {"stated, for normal noise": [0.05] * len(sizes)},
        {d: [marked(d, n, rounds, dice) for n in sizes] for d in DISTRIBUTIONS},
        sizes,
    )


if __name__ == "__main__":
    main()
