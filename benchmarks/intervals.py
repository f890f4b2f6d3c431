"""How often the intervals, ranks and marks of the analysis are right, by simulation.

    .venv/bin/python benchmarks/intervals.py [--rounds 100000]

Values are drawn from distributions whose median is known; printed is how often the interval of a
median, of a ratio of two, and a ranking of equal cells do what the formulas of
dlperf.analysis.statistics say, and what other rules of ranking would do. Rankings are drawn in a
tenth as many rounds. tests/unit/analysis/statistics/test_simulation.py asserts it with fewer
rounds. Intervals of whole arrays are taken here by the same ranks that median_interval takes; the
test compares them with it, value by value.
"""

import argparse
import functools
import sys
from pathlib import Path

import numpy as np
import scipy.stats
from scipy.special import ndtri

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from dlperf.analysis.statistics import equivalence, medians, separation

SIZES = (3, 5, 6, 7, 9)
RANKED = (3, 4, 5, 6, 7, 9)
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


def by_welch_and_holm(logs):
    """Which pairs of cells are significantly different: separation.higher of every round at once.

    `logs` has an axis of rounds, of cells and of repetitions; the result one of rounds, of pairs.
    """
    n = logs.shape[-1]
    middles, means = np.median(logs, axis=-1), logs.mean(axis=-1)
    sizes = np.full(logs.shape[-2], n)
    return separation.claims(middles, means, logs.var(axis=-1, ddof=1) / n, sizes) != 0


def pair_coverage(name, n, cells, rounds, dice, spreads=(1.0,), by=0.0):
    """The share of pairs whose interval holds the true ratio, where each cell is above the next by
    that many standard deviations."""
    logs = equal_cells(name, n, cells, rounds, dice, spreads) * 0.05
    places = 0.05 * by * np.arange(cells)
    logs = np.clip(logs, -50, 50) + places[:, None]
    squares, sizes = logs.var(axis=-1, ddof=1) / n, np.full(cells, n)
    middles = np.median(logs, axis=-1)
    low, high = separation.intervals(middles, logs.mean(axis=-1), squares, sizes)
    one, other = separation.pairs(cells)
    true = np.exp(places[one] - places[other])
    return float(np.mean((low <= true) & (true <= high)))


def by_games_and_howell(logs):
    """Welch's t of each pair against the studentised range (1976, J. Educ. Stat. 1:113-125)."""
    n, (one, other) = logs.shape[-1], separation.pairs(logs.shape[-2])
    means, squares = logs.mean(axis=-1), logs.var(axis=-1, ddof=1) / n
    first, second = squares[..., one], squares[..., other]
    error = np.maximum(first + second, 1e-300)
    freedom = np.maximum((n - 1) * error**2 / np.maximum(first**2 + second**2, 1e-300), n - 1)
    t = np.abs(means[..., one] - means[..., other]) / np.sqrt(error)
    return t > np.interp(freedom, *studentized_range(logs.shape[-2], n)) / np.sqrt(2)


@functools.cache
def studentized_range(cells, n):
    """(degrees of freedom, critical values): it takes milliseconds each."""
    freedom = np.linspace(n - 1, 2 * n - 2, 20)
    return freedom, scipy.stats.studentized_range.ppf(1 - separation.ERROR, cells, freedom)


def by_intervals(logs):
    """Which intervals of medians do not overlap."""
    (low, high), (one, other) = intervals(logs), separation.pairs(logs.shape[-2])
    return (low[..., one] > high[..., other]) | (low[..., other] > high[..., one])


#: What ranks could go by; the first is what they do go by.
RULES = {
    "Welch's t, Holm's correction": by_welch_and_holm,
    "Games and Howell": by_games_and_howell,
    "intervals that do not overlap": by_intervals,
}


def equal_cells(name, n, cells, rounds, dice, spreads=(1.0,)):
    """Logarithms of equal cells; `spreads` multiply the noise of the cells in turn."""
    draw, true = DISTRIBUTIONS[name]
    noise = np.resize(spreads, cells)[:, None]
    return np.clip(draw(dice, (rounds, cells, n)) - true, -1e6, 1e6) * noise


def false_rankings(name, n, cells, rounds, dice, spreads=(1.0,), rule=by_welch_and_holm):
    """The share of rounds in which, of equal cells, any two are significantly different."""
    return float(np.mean(rule(equal_cells(name, n, cells, rounds, dice, spreads)).any(axis=-1)))


def power(name, n, cells, rounds, dice, by, rule=by_welch_and_holm):
    """How often a cell is significantly different from another one that it is above by that many
    standard deviations, all others being equal to that."""
    logs = equal_cells(name, n, cells, rounds, dice)
    logs[:, 0] += by
    one, _ = separation.pairs(cells)
    return float(np.mean(rule(logs)[:, one == 0]))


def steps(name, n, cells, rounds, dice, by, rule=by_welch_and_holm):
    """The share of significantly different pairs, where each cell is above the next by so much."""
    logs = equal_cells(name, n, cells, rounds, dice) + by * np.arange(cells)[:, None]
    return float(np.mean(rule(logs)))


def detected(name, n, cells, rounds, dice):
    """How often a cell that is above another one by its `detectable` is significantly different."""
    logs = equal_cells(name, n, cells, rounds, dice)
    by = separation.shift(n, cells) * logs[:, 1].std(axis=-1, ddof=1)
    logs[:, 0] += by[:, None]
    return float(np.mean(by_welch_and_holm(logs)[:, 0]))


def claims(name, n, cells, rounds, dice, ratio, there=1, noise=0.01, margin=0.05):
    """{claim: the share of tables with such a claim on any cell}, where each cell's true ratio to
    what it is held against is `ratio`: a constant, or as many as `there` repetitions."""
    found = dict.fromkeys(CLAIMS, 0)
    for _ in range(rounds):
        own = ratio * speeds(name, (cells, n), dice, noise)
        other = speeds(name, (cells, there), dice, noise) if there > 1 else np.ones((cells, 1))
        judged = equivalence.judge(list(zip(own.tolist(), other.tolist(), strict=True)), margin)
        for claim in {each.claim for each in judged}:
            found[claim] += 1
    return {claim: count / rounds for claim, count in found.items()}


#: In the order of a table.
CLAIMS = (
    *(equivalence.WITHIN, equivalence.ABOVE, equivalence.BELOW),
    *(equivalence.APART, equivalence.UNDECIDED),
)


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
    few = max(1, rounds // 10)
    noisy = {"": (1,), ", noise 1 and 10 in turn": (1, 10)}
    for cells in FRAMEWORKS:
        table(
            f"Ranking of {cells} equal cells: how often some two are significantly different",
            {"stated": [separation.ERROR] * len(RANKED)},
            {
                f"{d}{text}": [false_rankings(d, n, cells, few, dice, spreads) for n in RANKED]
                for text, spreads in noisy.items()
                for d in DISTRIBUTIONS
            },
            RANKED,
        )
    able = tuple(n for n in RANKED if n >= separation.LEAST)
    for cells in FRAMEWORKS:
        for title, by in (
            ("equal cells", 0),
            ("cells, each 3 standard deviations above the next", 3),
        ):
            table(
                f"Interval that decides between two of {cells} {title}",
                {"stated, at least": [1 - separation.ERROR] * len(able)},
                {
                    f"{d}{text}": [pair_coverage(d, n, cells, few, dice, spreads, by) for n in able]
                    for text, spreads in noisy.items()
                    for d in DISTRIBUTIONS
                },
                able,
            )
    for cells in FRAMEWORKS:
        table(
            f"Three rules for ranking {cells} equal cells: the worst of all those distributions",
            {},
            {
                name: [
                    max(
                        false_rankings(d, n, cells, few, dice, spreads, rule)
                        for d in DISTRIBUTIONS
                        for spreads in noisy.values()
                    )
                    for n in RANKED
                ]
                for name, rule in RULES.items()
            },
            RANKED,
        )
    for cells in FRAMEWORKS:
        for title, found in (
            (f"One of {cells} cells is 3 standard deviations above the others", power),
            (f"Each of {cells} cells is 3 standard deviations above the next", steps),
        )[: 1 if cells == 2 else 2]:
            table(
                f"{title}: how often a pair is significantly different (normal)",
                {},
                {
                    name: [found("normal", n, cells, few, dice, 3, rule) for n in RANKED]
                    for name, rule in RULES.items()
                },
                RANKED,
            )
    for cells in (2, 8):
        table(
            f"Detectable difference in a ranking of {cells}: how often it is found",
            {"stated, for normal noise that is known": [separation.POWER] * len(able)},
            {
                "normal, known": [
                    power("normal", n, cells, few, dice, separation.shift(n, cells)) for n in able
                ],
                **{d: [detected(d, n, cells, few, dice) for n in able] for d in CONTINUOUS},
            },
            able,
        )
    for there in (1, 7):
        for cells in (1, 8):
            for ratio, wrong in (
                (1.05, CLAIMS[:2]),
                (0.95, (CLAIMS[0], CLAIMS[2])),
                (1.0, CLAIMS[1:4]),
            ):
                table(
                    f"Verdicts on {cells} cells beside "
                    f"{'figures without noise' if there == 1 else f'{there} repetitions'}, the "
                    f"true ratio is {ratio}: how often any is {' or '.join(wrong)}",
                    {"stated, at most": [separation.ERROR] * len(able)},
                    {
                        d: [
                            sum(
                                claims(d, n, cells, few // 10, dice, ratio, there)[each]
                                for each in wrong
                            )
                            for n in able
                        ]
                        for d in DISTRIBUTIONS
                    },
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
