"""What a round's numbers and figures say, in sentences of its report.

In: the round's config, and rows of measurements.tsv.gz, cells.tsv and certificates.tsv. Out: text.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from dlperf import plan
from dlperf.analysis.report import provenance, tables
from dlperf.analysis.report.summary import Standing
from dlperf.analysis.round import labels, names
from dlperf.analysis.round.calibration import noise
from dlperf.analysis.schema.files import Row
from dlperf.analysis.statistics.medians import order_coverage, order_rank
from dlperf.analysis.statistics.separation import ERROR


def lead(config: plan.Config, repetitions: Sequence[Row], cells: Sequence[Row]) -> list[str]:
    ok = [row for row in repetitions if row["status"] == "ok"]
    asked = [row for row in repetitions if row["status"] != "unsupported"]
    frameworks = labels.plural(len(config.frameworks), "framework")
    workloads = labels.listed([labels.workload({"workload": w}) for w in config.workloads.asked()])
    if not ok:
        happened = Counter(labels.STATUS[row["status"]] for row in repetitions)
        said = labels.listed([f"{count} {status}" for status, count in happened.items()])
        count = labels.plural(len(repetitions), "repetition")
        return [
            f"Nothing was measured: this round asks {count} of {workloads} of {frameworks}, and "
            f"none ended ok ({said}). Why is said below."
        ]
    measured = {row["framework"] for row in ok}
    who = frameworks
    if len(measured) < len(config.frameworks):
        who = f"{len(measured)} of {frameworks}"
    first, last = provenance.period(repetitions)
    where = labels.listed(sorted({row["gpu"] or row["cpu"] for row in ok}))
    counts = sorted({labels.devices(row) for row in cells})
    devices = f"{labels.listed(list(map(str, counts)))} {'device' if counts == [1] else 'devices'}"
    most = max(row["nodes"] for row in cells)
    if most > 1:
        devices += f" of up to {most} nodes"
    return [
        f"{who} trained {workloads} on {devices} ({where}; {labels.device(cells[0])}). "
        f"{len(ok)} of {labels.plural(len(asked), 'repetition')} ended ok, between {first} and "
        f"{last} UTC."
    ]


def standing(cells: Sequence[Row], found: Sequence[Standing]) -> list[str]:
    """What the standings of one table say, and which of its cells are in none."""
    said = []
    for each in found:
        best, last, unit = each.best, each.last, labels.unit(each.best)
        text = (
            f"{labels.topology(best)}: the highest median is {labels.implementation(best)}'s, "
            f"{best['throughput']:.2f} {unit} ({best['throughput_low']:.2f} – "
            f"{best['throughput_high']:.2f})"
        )
        if each.tied:
            text += f"; the interval overlaps with {each.tied_with}, so these are not told apart."
        else:
            text += "; its interval lies above all others."
        said.append(
            f"{text} The lowest is {labels.implementation(last)}'s, {last['throughput']:.2f} "
            f"{unit}: a factor of {each.over_last:.2f}."
        )
    if found and found[-1].efficiency:
        worst, best = found[-1].efficiency
        said.append(
            f"Scaling efficiency on {labels.topology(best)} goes from "
            f"{labels.percent(worst['efficiency'])} ({labels.implementation(worst)}) to "
            f"{labels.percent(best['efficiency'])} ({labels.implementation(best)})."
        )
    left_out = [row for row in cells if row["status"] == "ok" and not labels.comparable(row)]
    if left_out:
        said.append(
            "Left out of these comparisons, because equal work is not certified: "
            f"{labels.listed(list(map(labels.cell, left_out)))}."
        )
    return said


def caveats(
    config: plan.Config,
    repetitions: Sequence[Row],
    cells: Sequence[Row],
    tiers: Sequence[Row],
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
            f"only {labels.percent(coverage)}; 95 % needs at least 6."
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
    found += [*_moved(repetitions), *_ranked(cells)]
    return found


def _moved(repetitions: Sequence[Row]) -> Iterable[str]:
    """Hosts that drifted by more than the noise."""
    floors = noise.floors(repetitions)
    for each in noise.drifts(repetitions):
        if noise.drifted(each, floors[-1]):
            how = "faster" if each.change > 0 else "slower"
            yield (
                f"{each.host} became {labels.percent(abs(each.change))} {how} during the round: "
                "speeds are a mean over that time (see 'How sure')."
            )


def _ranked(cells: Sequence[Row]) -> Iterable[str]:
    """Rankings that would often separate equal cells."""
    errors = [row["rank_error"] for row in cells if row["rank_error"] is not None]
    if max(errors, default=0.0) > ERROR:
        yield (
            "Ranks are weak evidence here: were all cells of a ranking equally fast, some two of "
            f"them would be told apart in up to {labels.percent(max(errors), 0)} of rounds, by "
            "chance. More repetitions make that rare."
        )


def _unproved(cells: Sequence[Row], tiers: Sequence[Row]) -> Iterable[str]:
    """What certificates do not say of the measured cells."""
    unequal = [row for row in cells if labels.not_equivalent(row)]
    if unequal:
        yield (
            f"Not equivalent: {'; '.join(map(labels.cell, unequal))}. Equal work is not certified "
            "for them: their speeds are shown and marked, and no comparison takes them in. What "
            "differs is said under 'Equal work'."
        )
    stale = [row for row in cells if row["status"] == "ok" and row["certificate"] == "stale"]
    if stale:
        yield (
            f"Stale certificates: {'; '.join(map(labels.cell, stale))}. Equal work was certified "
            "with other code or in another environment, so no comparison takes them in."
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


def describe(cells: Sequence[Row], kind: str) -> str:
    """What a figure shows, in words, for those who do not see it."""
    parts = []
    for key in labels.series(cells):
        ok = [row for row in cells if labels.series_key(row) == key and row["status"] == "ok"]
        if kind == "throughput":
            said = [
                f"{row['throughput']:.2f} on {labels.short_topology(row)}{_mark(row)}" for row in ok
            ]
        else:
            said = [
                f"{labels.percent(row['efficiency'])} on {labels.short_topology(row)}{_mark(row)}"
                for row in ok
                if row["efficiency"] is not None and labels.devices(row) > 1
            ]
        parts.append(f"{names.series_title(*key)} {', '.join(said) or 'no value'}")
    unit = labels.unit(cells[0])
    what = {
        "throughput": f"Bars of median throughput in {unit}",
        "scaling": f"Curves of throughput in {unit} over devices, and scaling efficiency",
    }[kind]
    return f"{what}: {'; '.join(parts)}."


def _mark(row: Row) -> str:
    return " (not equivalent)" if labels.not_equivalent(row) else ""


def caption(cells: Sequence[Row], kind: str) -> str:
    what = ", ".join([tables.title(cells[0]), *labels.sizes(cells[0])])
    if labels.imported(cells[0]):
        return f"{what}: {kind}. Imported, not measured here; {labels.device(cells[0])}."
    if kind == "throughput":
        return (
            f"{what}: median throughput. Whiskers are the interval of the median "
            f"({labels.interval(cells[0]['n_asked'])})."
        )
    return (
        f"{what}: throughput over devices with the ideal from one device (dotted, both axes "
        "logarithmic), and scaling efficiency with its conservative interval (dashed: ideal)."
    )
