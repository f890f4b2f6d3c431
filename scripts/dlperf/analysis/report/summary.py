"""The report's summary: what was measured, what won where and by how much, what limits the claim.

In: the round's config, and rows of measurements.tsv.gz, cells.tsv and certificates.tsv. Out: a
Standing for each table, topology and layout in which at least two implementations can be compared,
and sentences. Only cells that may be ranked are compared: equal work is certified, and no flag
excludes them.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlperf import plan
from dlperf.analysis.report import provenance
from dlperf.analysis.round import flags, labels, metrics
from dlperf.analysis.round.calibration import noise
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.rows import Cell, Certificate, Measurement, value_of
from dlperf.analysis.statistics.medians import order_coverage, order_rank
from dlperf.analysis.statistics.separation import ERROR, LEAST, POWER, pairwise, shift

#: Above this many winners a sentence counts them, and the table says where.
NAMED = 3
#: Repetitions that are advised where a difference matters.
ENOUGH = 7


@dataclass(frozen=True)
class Standing:
    """One table, topology and layout, with the cells of the best, second and worst median.

    `tied` are not significantly different from best, by the comparisons that ranks are made of;
    `over_second_interval` is the one that decides this for the second.
    """

    best: Cell
    second: Cell
    last: Cell
    tied: list[Cell]
    compared: int
    over_second: float
    over_second_interval: tuple[float, float]  # from 0 to infinity: too few repetitions
    over_last: float
    efficiency: tuple[Cell, Cell] | None  # the cells with the lowest and the highest efficiency

    @property
    def where(self) -> str:
        row = self.best
        what = f"{labels.workload(row)} {labels.scenario(row)}"
        return f"{what} ({self.setting}, {labels.place(row)})"

    @property
    def setting(self) -> str:
        """'fp32, batch 8'."""
        return f"{self.best['precision']}, batch {self.best['batch_size']}"

    @property
    def tied_with(self) -> str:
        return labels.listed([labels.implementation(row) for row in self.tied])

    @property
    def interval(self) -> str:
        """'1.05 – 1.20', of the best over the second."""
        return forms.factors(*self.over_second_interval)


def standings(cells: Sequence[Cell], repetitions: Iterable[Measurement]) -> list[Standing]:
    """Of the cells of one metric, in the order of the plan; topologies of a table by their number
    of devices."""
    metric_of = {_case(row): row["metric"] for row in cells}
    values: dict[tuple[str, str, str], list[float]] = {}
    for run in repetitions:
        metric = metric_of.get(_case(run))
        if run["status"] == "ok" and metric and (value := value_of(run, metric)) is not None:
            values.setdefault(_case(run), []).append(value)
    groups: dict[tuple[str, tuple[int, int, int, str]], list[Cell]] = {}
    tables = list(dict.fromkeys(row["table"] for row in cells))
    for row in cells:
        if flags.rankable(row) and not row.get("searched"):  # other sizes are other work
            groups.setdefault((row["table"], labels.by_place(row)), []).append(row)
    places = sorted(groups, key=lambda place: (tables.index(place[0]), place[1][:3]))
    return [_standing(groups[place], values) for place in places if len(groups[place]) > 1]


def _case(row: Cell | Measurement) -> tuple[str, str, str]:
    return row["workload"], row["framework"], row["case"]


def _standing(rows: Sequence[Cell], values: dict[tuple[str, str, str], list[float]]) -> Standing:
    ordered = metrics.better_first(rows)
    best, second, last = ordered[0], ordered[1], ordered[-1]
    found = pairwise([values[_case(row)] for row in ordered])
    lower = metrics.of_row(best).lower_is_better
    better = found.higher.T if lower else found.higher
    # of the two, the ratio that is above 1 where the best one is better
    over = (1, 0) if lower else (0, 1)
    scaled = [row for row in rows if row["efficiency"] is not None and labels.is_scaled(row)]
    scaled = [row for row in scaled if flags.OTHER_BASELINE not in row["flags"].split()]
    scaled.sort(key=lambda row: row["efficiency"])
    return Standing(
        best=best,
        second=second,
        last=last,
        tied=[row for row, worse in zip(ordered[1:], better[0, 1:], strict=True) if not worse],
        compared=len(rows),
        over_second=metrics.better_by(best, second),
        over_second_interval=(float(found.low[over]), float(found.high[over])),
        over_last=metrics.better_by(best, last),
        efficiency=(scaled[0], scaled[-1]) if scaled else None,
    )


def won(found: Sequence[Standing], cells: Sequence[Cell]) -> str:
    """What won where and by how much; where nothing did. A winner that is suspect is not named.

    `cells`: of the metric that is compared.
    """
    if not found:
        return _nothing_ranked(cells)
    clear = [each for each in found if not each.tied and not flags.suspect(each.best)]
    doubtful = [each for each in found if not each.tied and flags.suspect(each.best)]
    rest = [each for each in found if each.tied]
    count = labels.plural(len(found), "comparison")
    parts = []
    if len(clear) > NAMED:
        winners = Counter(labels.implementation(each.best) for each in clear)
        said = labels.listed([f"{name} in {times}" for name, times in winners.most_common()])
        factors = [each.over_second for each in clear]
        parts.append(
            f"In {len(clear)} of {count} one is significantly better than all others: {said}, "
            f"ahead of the next by a factor of {min(factors):.2f} to {max(factors):.2f}."
        )
    elif clear:
        said = "; ".join(map(_lead, clear))
        parts.append(
            f"In {len(clear)} of {count} one is significantly better than all others: {said}."
        )
    else:
        named = f"In none of {count} is a winner named." if found[1:] else "No winner is named."
        parts.append(named)
    if doubtful:
        parts.append(
            f"In {len(doubtful)} the best is a suspect cell: the table below says which and why."
        )
    if rest:
        ties = [len(each.tied) for each in rest]
        others = f"{min(ties)} to {max(ties)} others" if min(ties) < max(ties) else f"{ties[0]}"
        if min(ties) == max(ties):
            others += " other" if ties[0] == 1 else " others"
        where = "The"
        if clear or doubtful:
            where = f"In {len(rest)} the"
        elif found[1:]:
            where = "Everywhere the"
        parts.append(f"{where} best median is not significantly different from {others}.")
    return " ".join(parts)


def _nothing_ranked(cells: Sequence[Cell]) -> str:
    """Why there is no comparison: how many cells of each place stand against it."""
    numbers = [row for row in cells if row["status"] == "ok"]
    suspect = [row for row in numbers if flags.comparable(row) and flags.excluding(row)]
    unproved = [row for row in numbers if not flags.comparable(row)]
    why = [
        f"{labels.plural(len(rows), 'cell')} {'is' if len(rows) == 1 else 'are'} excluded {reason}"
        for rows, reason in (
            (suspect, "as suspect (what is done in the timed window is in doubt)"),
            (unproved, "because equal work is not certified"),
        )
        if rows
    ]
    text = "Nothing is ranked: nowhere do two implementations have a number that may be compared"
    return f"{text}; {labels.listed(why)}." if why else f"{text}."


def _lead(each: Standing) -> str:
    return (
        f"{labels.implementation(each.best)} in {each.where}, at {each.over_second:.2f} times "
        f"{labels.implementation(each.second)} (interval {each.interval})"
    )


def certainty(asked: int, cells: Sequence[Cell]) -> str:
    """What the intervals are worth: coverage, chance, noise. `asked`: repetitions a cell."""
    coverage = order_coverage(asked, order_rank(asked))
    text = (
        f"A number is the median of {labels.plural(asked, 'repetition')}; its interval holds the "
        f"true median with a probability of {forms.percent(coverage)}. "
    )
    if asked < LEAST:
        text += f"So few show no significant difference; it takes {LEAST} or more."
    else:
        text += (
            "If all implementations of a comparison were equally fast, a significant difference "
            f"would still be found with a probability of {forms.percent(ERROR)}."
        )
    scatter = [row["cv"] for row in cells if row["cv"] is not None]
    if scatter:
        text += (
            " Over the repetitions of a cell, the coefficient of variation is "
            f"{forms.percent(statistics.median(scatter), 1)} at the median and "
            f"{forms.percent(max(scatter), 1)} at most."
        )
    return text


def lacking(cells: Sequence[Cell]) -> str:
    """What has no number, too few repetitions, no certificate, or a reason for doubt."""
    total = labels.plural(len(cells), "cell")
    without = Counter(forms.STATUS[row["status"]] for row in cells if row["status"] != "ok")
    partial = sum(row["status"] == "ok" and row["n_ok"] < row["n_asked"] for row in cells)
    doubtful = sum(map(flags.suspect, cells))
    excluded = sum(flags.comparable(row) and bool(flags.excluding(row)) for row in cells)
    unproved = sum(row["status"] == "ok" and not flags.comparable(row) for row in cells)
    if without:
        said = labels.listed([f"{count} {status}" for status, count in without.items()])
        parts = [f"{sum(without.values())} of {total} without a number ({said})"]
    else:
        parts = [f"All {total} have a number"]
    if partial:
        parts.append(f"{partial} with fewer repetitions than asked for")
    if unproved:
        parts.append(f"{unproved} without a valid certificate of equal work, so in no comparison")
    text = "; ".join(parts) + "."
    if doubtful:
        be = "is" if doubtful == 1 else "are"
        text += f" {labels.plural(doubtful, 'cell')} {be} suspect, and the tables say why"
        text += f"; {excluded} of them excluded from ranks." if excluded else "."
    elif not without:
        text += " None is suspect."
    return text


def quality(
    cells: Sequence[Cell], repetitions: Sequence[Measurement]
) -> dict[str, tuple[int, int]]:
    """Counts at a glance: {what: (how many, of how many)}."""
    asked = [row for row in repetitions if row["status"] != "unsupported"]
    ok = [row for row in cells if row["status"] == "ok"]
    return {
        "repetitions": (sum(row["status"] == "ok" for row in asked), len(asked)),
        "measured": (len(ok), len(cells)),
        "certified": (sum(map(flags.comparable, ok)), len(ok)),
        "suspect": (sum(map(flags.suspect, ok)), len(ok)),
    }


def lead(
    config: plan.Config, repetitions: Sequence[Measurement], cells: Sequence[Cell]
) -> list[str]:
    ok = [row for row in repetitions if row["status"] == "ok"]
    asked = [row for row in repetitions if row["status"] != "unsupported"]
    frameworks = labels.plural(len(config.all_frameworks), "framework")
    workloads = labels.listed([labels.workload({"workload": w}) for w in config.workloads.asked()])
    if not ok:
        happened = Counter(forms.STATUS[row["status"]] for row in repetitions)
        said = labels.listed([f"{count} {status}" for status, count in happened.items()])
        count = labels.plural(len(repetitions), "repetition")
        return [
            f"Nothing was measured: this round asks {count} of {workloads} of {frameworks}, and "
            f"none ended ok ({said}). The reasons are below."
        ]
    measured = {row["framework"] for row in ok}
    who = frameworks
    if len(measured) < len(config.all_frameworks):
        who = f"{len(measured)} of {frameworks}"
    first, last = provenance.period(repetitions)
    where = labels.listed(sorted({row["gpu"] or row["cpu"] for row in ok}))
    counts = sorted({labels.devices(row) for row in cells})
    devices = f"{labels.listed(list(map(str, counts)))} {'device' if counts == [1] else 'devices'}"
    most = max(row["nodes"] for row in cells)
    if most > 1:
        devices += f" of up to {most} nodes"
    done = f"trained {workloads}"
    titles = dict.fromkeys(map(labels.scenario, cells))
    if list(titles) != ["training"]:
        done = f"ran {workloads} ({labels.listed(list(titles))})"
    return [
        f"{who} {done} on {devices} ({where}; {labels.device(cells[0])}). "
        f"{len(ok)} of {labels.plural(len(asked), 'repetition')} ended ok, between {first} and "
        f"{last} UTC."
    ]


def standing(cells: Sequence[Cell], found: Sequence[Standing]) -> list[str]:
    """What the standings of one table say, and which of its cells are in none."""
    said = []
    for each in found:
        best, last, unit = each.best, each.last, labels.unit(each.best)
        text = (
            f"{labels.place(best)}: the {metrics.superlative(best)} median is "
            f"{labels.implementation(best)}'s, {forms.number(best['median'])} {unit} "
            f"({forms.number(best['median_low'])} – {forms.number(best['median_high'])})"
        )
        if each.tied:
            text += f"; it is not significantly different from {each.tied_with}."
        else:
            text += "; it is significantly different from all others."
        said.append(
            f"{text} The {metrics.superlative(best, best=False)} is "
            f"{labels.implementation(last)}'s, {forms.number(last['median'])} {unit}: a factor of "
            f"{each.over_last:.2f}."
        )
    if found and found[-1].efficiency:
        worst, best = found[-1].efficiency
        said.append(
            f"Scaling efficiency on {labels.place(best)} goes from "
            f"{forms.percent(worst['efficiency'])} ({labels.implementation(worst)}) to "
            f"{forms.percent(best['efficiency'])} ({labels.implementation(best)})."
        )
    numbers = [row for row in cells if row["status"] == "ok"]
    for excluded, why in (
        ([row for row in numbers if not flags.comparable(row)], "equal work is not certified"),
        (
            [row for row in numbers if flags.comparable(row) and flags.excluding(row)],
            "they are suspect cells, whose timed work is in doubt (see the notes)",
        ),
    ):
        if excluded:
            said.append(
                f"Excluded from these comparisons, because {why}: "
                f"{labels.listed(list(map(labels.cell, excluded)))}."
            )
    if excluded and not found:
        said.append("So nothing is ranked here.")
    return said


def caveats(
    config: plan.Config,
    repetitions: Sequence[Measurement],
    cells: Sequence[Cell],
    tiers: Sequence[Certificate],
) -> list[str]:
    found = [*_unproved(cells, tiers)]
    reduced = dict.fromkeys(
        size for row in cells for size in labels.sizes(row) if "standard" in size
    )
    if reduced:
        found.append(
            f"Not the published size: {labels.listed(list(reduced))}. These figures cannot be "
            "compared with published ones."
        )
    coverage = order_coverage(config.repetitions, order_rank(config.repetitions))
    if coverage < 0.95:
        found.append(
            f"{labels.plural(config.repetitions, 'repetition')} a cell: the interval's coverage is "
            f"only {forms.percent(coverage)}; 95 % needs at least 6."
        )
    if config.device == "cpu":
        found.append(
            "A CPU stands in for devices here: the round says how these frameworks do on this "
            "machine, not how they do on GPUs."
        )
    commits = {row["git_commit"] for row in repetitions if row["git_commit"]}
    if len(commits) > 1:
        found.append(f"The round was measured at {len(commits)} commits of this repository.")
    if any(row["git_dirty"] == "true" for row in repetitions):
        found.append("Some repetitions were measured with changes that are not in their commit.")
    if any(row["record"] and not row["git_commit"] for row in repetitions):
        found.append("Some repetitions do not know the commit of the code that measured them.")
    found += [*_doubted(cells), *_moved(repetitions), *_ranked(cells)]
    return found


def _doubted(cells: Sequence[Cell]) -> Iterable[str]:
    """Cells that flags exclude, which a reader of their numbers alone would not know."""
    excluded = [row for row in cells if row["status"] == "ok" and flags.excluding(row)]
    if excluded:
        yield (
            f"Suspect cells, excluded from ranks: {'; '.join(map(labels.cell, excluded))}. They "
            "may have been timed with less or other work than is certified. Their numbers are "
            "shown and marked; nothing is compared with them, and no speed-up is over them."
        )


def _moved(repetitions: Sequence[Measurement]) -> Iterable[str]:
    """Hosts that drifted by more than the noise."""
    floors = noise.floors(repetitions)
    for each in noise.drifts(repetitions):
        if noise.drifted(each, floors[-1]):
            how = "faster" if each.change > 0 else "slower"
            yield (
                f"{each.host} became {forms.percent(abs(each.change))} {how} during the round: "
                "speeds are a mean over that time (see 'How sure')."
            )


def _ranked(cells: Sequence[Cell]) -> Iterable[str]:
    """Rankings without a result, because no cell has repetitions enough."""
    ranked = [row for row in cells if row["rank"] is not None]
    if not ranked or max(row["n_ok"] for row in ranked) >= LEAST:
        return
    places = Counter((row["table"], labels.by_place(row)) for row in ranked)
    count = max(places.values())
    few, many = shift(LEAST, count), shift(ENOUGH, count)
    yield (
        f"All ranks are shared: with fewer than {LEAST} repetitions no difference is significant. "
        f"Of {count} cells, {LEAST} repetitions find one of {few:.1f} standard deviations in "
        f"{forms.percent(POWER)} of cases, {ENOUGH} one of {many:.1f}."
    )


def _unproved(cells: Sequence[Cell], tiers: Sequence[Certificate]) -> Iterable[str]:
    """What certificates do not say of the measured cells."""
    unequal = [row for row in cells if flags.not_equivalent(row)]
    if unequal:
        yield (
            f"Not equivalent: {'; '.join(map(labels.cell, unequal))}. Equal work is not certified "
            "for them: their speeds are shown and marked, and they are excluded from comparisons. "
            "See 'Equal work' for what differs."
        )
    stale = [row for row in cells if row["status"] == "ok" and row["certificate"] == "stale"]
    if stale:
        yield (
            f"Stale certificates: {'; '.join(map(labels.cell, stale))}. Equal work was certified "
            "with other code or in another environment, so they are excluded from comparisons."
        )
    trained = [row for row in cells if row["status"] == "ok" and row.get("check")]
    unchecked = [row for row in trained if row["check"] not in ("passed", "failed")]
    if unchecked:
        yield (
            f"Certificate only: {len(unchecked)} of {labels.plural(len(trained), 'cell')} of "
            "training. No spot check proves their timed process: see 'Equal work'."
        )
    partly: dict[str, dict[str, None]] = {}
    for row in tiers:
        if row["status"] == "passed" and not row["tier_passed"]:
            partly.setdefault(labels.implementation(row), {})[row["tier"]] = None
    for title, names_of_tiers in partly.items():
        yield (
            f"{title} is certified without {labels.listed(list(names_of_tiers))}, which cannot run "
            "there: see 'Equal work'."
        )
