"""Everything of a round -> report.html: one page that needs no network, no script, no other file.

In: config.yaml, measurements.tsv.gz, parity.tsv, certificates.tsv, cells.tsv and figures/ of the
round, env.json of its environments and the manifests of its data. Out: what was measured where,
tables, figures, what is missing and why, certificates, parity, environments, method, provenance.
Also a round in which nothing ran.
"""

import hashlib
import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import markupsafe

from dlperf import plan, workloads
from dlperf.analysis import certificates, labels, names, nodes, tables
from dlperf.analysis.campaign import campaign
from dlperf.analysis.cells import overlapping
from dlperf.analysis.files import Row, read_table
from dlperf.analysis.statistics import order_coverage, order_rank
from dlperf.files import write

# The figures' colours that follow the page's light or dark scheme: see templates/style.css.
FIGURE_COLOURS = {
    "#1f2328": "var(--ink)",
    "#59636e": "var(--muted)",
    "#d8dee4": "var(--line)",
    "#ffffff": "var(--paper)",
}


@dataclass(frozen=True)
class Section:
    """One table with its figures: (name, svg, caption) each, and its cells in full."""

    table: tables.Table
    figures: list[tuple[str, markupsafe.Markup, str]]
    cells: list[Row]
    summary: list[str]


def report(config_path: Path, folder: Path, shared: Path, out: Path) -> None:
    """Write the report of the round in `folder`; `shared` has environments/ and data/."""
    config = plan.load(config_path)
    repetitions = read_table(folder / "measurements.tsv.gz")
    cells = read_table(folder / "cells.tsv")
    parity = read_table(folder / "parity.tsv")
    tiers = read_table(folder / "certificates.tsv")
    environments = [
        {**_environment(shared, framework, config), "version": _version(parity, framework)}
        for framework in config.frameworks
    ]
    content = {
        "config": config,
        "steps": _each_once(map(config.steps_of, config.workloads.asked())),
        "config_text": config_path.read_text(),
        "config_sha256": hashlib.sha256(config_path.read_bytes()).hexdigest(),
        "folder": f"results/{config.round}",
        "title": f"Round {config.round}",
        "counts": Counter(row["status"] for row in repetitions),
        "repetitions": repetitions,
        "asked": sum(row["status"] != "unsupported" for row in repetitions),
        "period": _period(repetitions),
        "sections": _sections(cells, folder / "figures"),
        "lead": _lead(config, repetitions, cells),
        "caveats": _caveats(config, repetitions, cells, tiers),
        "missing": _missing(cells, environments),
        "suspects": _suspects(cells),
        "certificates": _certificates(tiers),
        "parity": _parity(parity),
        "environments": environments,
        "data": _data(shared, config),
        "hosts": _hosts(repetitions),
        "apart": _apart(repetitions),
        "campaign": campaign(repetitions),
        "nodes": nodes.rows((shared / "nodes").glob("*.json")),
        "interval": labels.interval(config.repetitions),
        "coverage": order_coverage(config.repetitions, order_rank(config.repetitions)),
        "commits": sorted({row["git_commit"] for row in repetitions if row["git_commit"]}),
        "example": next((row["record"] for row in repetitions if row["record"]), ""),
        "labels": labels,
        "names": names,
        "style": markupsafe.Markup((tables.TEMPLATES / "style.css").read_text()),
    }
    write(out, tables.templates().get_template("report.html.j2").render(content))


def _sections(cells: Sequence[Row], figures: Path) -> list[Section]:
    found = []
    for name in dict.fromkeys(row["table"] for row in cells):
        own = [row for row in cells if row["table"] == name]
        drawn = []
        for kind in ("throughput", "scaling"):
            path = figures / f"{name}-{kind}.svg"
            if path.exists():
                alternative = describe(own, kind)
                svg = inline(path.read_text(), path.stem, alternative)
                drawn.append((path.stem, svg, caption(own, kind)))
        found.append(Section(tables.build(name, own), drawn, own, _standing(own)))
    return found


def describe(cells: Sequence[Row], kind: str) -> str:
    """What a figure shows, in words, for those who do not see it."""
    parts = []
    for framework, compiler in labels.series(cells):
        ok = [
            row
            for row in cells
            if (row["framework"], row["compiler"]) == (framework, compiler)
            and row["status"] == "ok"
        ]
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
        parts.append(f"{names.series_title(framework, compiler)} {', '.join(said) or 'no value'}")
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
    if kind == "throughput":
        return (
            f"{what}: median throughput. Whiskers are the interval of the median "
            f"({labels.interval(cells[0]['n_asked'])})."
        )
    return (
        f"{what}: throughput over devices with the ideal from one device (dotted, both axes "
        "logarithmic), and scaling efficiency with its conservative interval (dashed: ideal)."
    )


def inline(svg: str, prefix: str, alternative: str) -> markupsafe.Markup:
    """An SVG file as an element of the page: ids of its own, the page's colours, a text for all."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<title>.*?</title>", "", body, flags=re.DOTALL)
    body = body.replace("*{stroke-linejoin", f"#{prefix} *{{stroke-linejoin")
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", body)
    for colour, variable in FIGURE_COLOURS.items():
        body = body.replace(f": {colour}", f": {variable}")
    opening = re.match(r"<svg[^>]*>", body)
    assert opening, "matplotlib writes an <svg> element"
    box = re.search(r'viewBox="([^"]*)"', opening[0])
    assert box, "matplotlib writes a viewBox"
    spoken = markupsafe.escape(alternative)
    start = f'<svg id="{prefix}" role="img" aria-label="{spoken}" viewBox="{box[1]}">'
    start = start.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ')
    return markupsafe.Markup(start + body[opening.end() :].strip())


# What the numbers say, in sentences.


def _lead(config: plan.Config, repetitions: Sequence[Row], cells: Sequence[Row]) -> list[str]:
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
    first, last = _period(repetitions)
    where = labels.listed(sorted({row["gpu"] or row["cpu"] for row in ok}))
    counts = sorted({labels.devices(row) for row in cells})
    devices = f"{labels.listed(list(map(str, counts)))} {'device' if counts == [1] else 'devices'}"
    most = max(row["nodes"] for row in cells)
    if most > 1:
        devices += f" of up to {most} nodes"
    noise = [row["cv"] for row in cells if row["cv"] is not None]
    text = (
        f"{who} trained {workloads} on {devices} ({where}; {labels.device(cells[0])}). "
        f"{len(ok)} of {labels.plural(len(asked), 'repetition')} ended ok, between {first} and "
        f"{last} UTC."
    )
    if noise:
        text += (
            " Over the repetitions of a cell, the coefficient of variation is "
            f"{labels.percent(statistics.median(noise), 2)} at the median and "
            f"{labels.percent(max(noise), 2)} at most."
        )
    return [text]


def _standing(cells: Sequence[Row]) -> list[str]:
    """The highest median of each topology and what it stands apart from; the range of scaling.

    Only of cells whose equal work is certified; which ones are left out is said.
    """
    found = []
    topologies = dict.fromkeys((row["nodes"], row["devices_per_node"]) for row in cells)
    for here in topologies:
        ok = [row for row in cells if _topology(row) == here and labels.comparable(row)]
        if len(ok) < 2:
            continue
        best = max(ok, key=lambda row: row["throughput"])
        near = [
            _title(row)
            for row in ok
            if row is not best and row["throughput_high"] >= best["throughput_low"]
        ]
        unit = labels.unit(best)
        text = (
            f"{labels.topology(best)}: the highest median is {_title(best)}'s, "
            f"{best['throughput']:.2f} {unit} ({best['throughput_low']:.2f} – "
            f"{best['throughput_high']:.2f})"
        )
        if near:
            text += (
                f"; the interval overlaps with {labels.listed(near)}, so these are not told apart."
            )
        else:
            text += "; its interval lies above all others."
        lowest = min(ok, key=lambda row: row["throughput"])
        ratio = best["throughput"] / lowest["throughput"]
        text += (
            f" The lowest is {_title(lowest)}'s, {lowest['throughput']:.2f} {unit}: "
            f"a factor of {ratio:.2f}."
        )
        found.append(text)
    scaled = [
        row
        for row in cells
        if labels.comparable(row)
        and row["efficiency"] is not None
        and _topology(row) == max(topologies)
    ]
    if scaled and max(topologies) != (1, 1):
        worst = min(scaled, key=lambda row: row["efficiency"])
        best = max(scaled, key=lambda row: row["efficiency"])
        found.append(
            f"Scaling efficiency on {labels.topology(best)} goes from "
            f"{labels.percent(worst['efficiency'])} ({_title(worst)}) to "
            f"{labels.percent(best['efficiency'])} ({_title(best)})."
        )
    left_out = [row for row in cells if row["status"] == "ok" and not labels.comparable(row)]
    if left_out:
        found.append(
            "Left out of these comparisons, because equal work is not certified: "
            f"{labels.listed(list(map(_where, left_out)))}."
        )
    return found


def _topology(row: Row) -> tuple[int, int]:
    return row["nodes"], row["devices_per_node"]


def _title(row: Row) -> str:
    return names.series_title(row["framework"], row["compiler"])


def _where(row: Row) -> str:
    """'JAX [xla], fp32 b8 1n2d'."""
    return f"{_title(row)}, {row['precision']} b{row['batch_size']} {labels.short_topology(row)}"


def _caveats(
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
    suspects = sum("suspect:" in row["flags"] for row in cells)
    if suspects:
        found.append(f"{labels.plural(suspects, 'cell')} should not be trusted: see 'Suspects'.")
    return found


def _unproved(cells: Sequence[Row], tiers: Sequence[Row]) -> Iterable[str]:
    """What certificates do not say of the measured cells."""
    unequal = [row for row in cells if labels.not_equivalent(row)]
    if unequal:
        yield (
            f"Not equivalent: {'; '.join(map(_where, unequal))}. Equal work is not certified for "
            "them: their speeds are shown and marked, and no comparison takes them in. What "
            "differs is said under 'Equal work'."
        )
    stale = [row for row in cells if row["status"] == "ok" and row["certificate"] == "stale"]
    if stale:
        yield (
            f"Stale certificates: {'; '.join(map(_where, stale))}. Equal work was certified with "
            "other code or in another environment, so no comparison takes them in."
        )
    partly: dict[str, dict[str, None]] = {}
    for row in tiers:
        if row["status"] == "passed" and not row["tier_passed"]:
            partly.setdefault(_title(row), {})[row["tier"]] = None
    for title, names_of_tiers in partly.items():
        yield (
            f"{title} is certified without {labels.listed(list(names_of_tiers))}, which cannot run "
            "there: see 'Equal work'."
        )


# What is missing, suspect, or different.


def _missing(
    cells: Sequence[Row], environments: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What has no number or fewer repetitions: one entry a reason, with all that it concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for environment in environments:
        if environment["status"] != "ok":
            key = "environment", environment["reason"] or "no env.json"
            found.setdefault(key, []).append(environment["title"])
    for row in cells:
        if row["status"] != "ok":
            key = labels.STATUS[row["status"]], row["reason"]
        elif row["n_ok"] < row["n_asked"]:
            key = "fewer repetitions", tables.partial(row)
        else:
            continue
        where = f"{row['precision']} b{row['batch_size']} {labels.short_topology(row)}"
        found.setdefault(key, []).append(f"{_title(row)} {where}")
    return [{"what": what, "why": why, "where": where} for (what, why), where in found.items()]


def _each_once(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _suspects(cells: Sequence[Row]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for row in cells:
        for flag in row["flags"].split():
            if flag != "partial" and not flag.startswith((labels.NOT_EQUIVALENT, "certificate")):
                where = f"{_title(row)}, {row['case']}"
                found.setdefault(labels.flag(flag), []).append(where)
    return list(found.items())


def _certificates(rows: Sequence[Row]) -> dict[str, Any]:
    """A line a certificate, a column a tier: sign, numbers, and where it fails."""
    there = dict.fromkeys(row["tier"] for row in rows if row["tier"])
    known = [tier for tier in labels.TIERS if tier in there]
    tiers = known + [tier for tier in there if tier not in known]
    lines = []
    frameworks = list(dict.fromkeys(row["framework"] for row in rows))
    found_for = sorted(  # one framework's together; otherwise as the plan has them
        certificates.by_key(rows).values(), key=lambda own: frameworks.index(own[0]["framework"])
    )
    for own in found_for:
        row, found = own[0], {each["tier"]: each for each in own}
        lines.append(
            {
                "workload": labels.workload(row),
                "framework": names.framework_title(row["framework"]),
                **{
                    key: row[key]
                    for key in ("precision", "compiler", "variant", "ranks", "status", "reason")
                },
                "tiers": [_tier(found.get(tier)) for tier in tiers],
                "date": row["start_utc"][:16].replace("T", " "),
                "commit": row["git_commit"],
            }
        )
    not_run: dict[str, dict[str, None]] = {}
    for row in rows:
        if row["tier"] and not row["tier_passed"]:
            not_run.setdefault(row["reason"], {})[_title(row)] = None
    return {
        "lines": lines,
        "not_run": {why: list(where) for why, where in not_run.items()},
        "tiers": [labels.TIERS.get(tier, tier) for tier in tiers],
        "counts": Counter(line["status"] for line in lines),
    }


def _tier(row: Row | None) -> dict[str, str]:
    """One tier for readers: {"kind", "text", "where"}; a sign says passed or not without colour."""
    if row is None:
        return {"kind": "none", "text": "–", "where": ""}
    if not row["tier_passed"]:
        return {"kind": "none", "text": "not run", "where": ""}
    passed = row["tier_passed"] == "true"
    kind, sign = ("passed", "✓") if passed else ("failed", "✗")
    if row["measured"] is None:
        return {"kind": kind, "text": sign, "where": row["reason"]}
    if not row["tolerance"]:
        text = f"{sign} {row['measured']:g} differ"
    else:
        text = f"{sign} {row['measured']:.2g} {'≤' if passed else '>'} {row['tolerance']:g}"
    step = f"step {row['worst_step']}" if row["worst_step"] else ""
    where = ", ".join(filter(None, (row["worst_tensor"], step, row["reason"])))
    return {"kind": kind, "text": text, "where": "" if passed else where}


def _parity(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A sheet a table: for each key the value of every series, those marked that differ."""
    sheets = []
    for table in dict.fromkeys(row["table"] for row in rows):
        own = [row for row in rows if row["table"] == table]
        series = labels.series(own)
        values: dict[str, dict[tuple[str, str], list[str]]] = {}
        for row in own:
            by_series = values.setdefault(row["key"], {})
            reported = by_series.setdefault((row["framework"], row["compiler"]), [])
            if row["value"] not in reported:
                reported.append(row["value"])
        lines = []
        for key, by_series in values.items():
            said = [by_series.get(each, ["not reported"]) for each in series]
            shown = [" / ".join(map(_short_hash, each)) for each in said]
            usual, count = Counter(shown).most_common(1)[0]
            majority = usual if count > len(shown) / 2 else None
            differs = len(set(shown)) > 1
            marks = [differs and majority is not None and value != majority for value in shown]
            lines.append(
                {"key": key, "differs": differs, "values": list(zip(shown, marks, strict=True))}
            )
        titles = [names.series_title(*each) for each in series]
        same = sum(not line["differs"] for line in lines)
        sheets.append({"table": table, "series": titles, "lines": lines, "same": same})
    return sheets


def _short_hash(value: str) -> str:
    """The first 12 digits of a sha256, and anything else as it is."""
    return f"{value[:12]}…" if re.fullmatch(r"[0-9a-f]{40,64}", value) else value


# Where it was measured.


def _environment(shared: Path, framework: str, config: plan.Config) -> dict[str, Any]:
    path = shared / "environments" / f"{framework}.{config.device}" / "env.json"
    found: dict[str, Any] = {"status": "missing", "reason": f"{path}: does not exist"}
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        pass
    except ValueError:
        found = {"status": "missing", "reason": f"{path}: is not JSON"}
    empty = dict.fromkeys(("python", "backend", "lock", "lock_sha256", "utc"), "")
    shown = {**empty, "reason": "", "freeze": [], "size_bytes": None, "lock_applied": None, **found}
    return {**shown, "framework": framework, "title": names.framework_title(framework)}


def _version(parity: Sequence[Row], framework: str) -> str:
    """What the framework's processes said that they are."""
    own = [row for row in parity if row["framework"] == framework]
    return ", ".join(dict.fromkeys(r["value"] for r in own if r["key"] == "framework_version"))


def _data(shared: Path, config: plan.Config) -> list[dict[str, Any]]:
    folders = dict.fromkeys(
        workloads.facts(name).DATA_SETS.get(kind, "")
        for name, section in config.workloads.asked().items()
        for kind in section.data
    )
    paths = [shared / "data" / folder / "manifest.json" for folder in folders if folder]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def _hosts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Each machine with the extremes of what was read from it before and in the repetitions."""
    hosts: dict[str, list[Row]] = {}
    for row in rows:
        if row["hostname"]:
            hosts.setdefault(row["hostname"], []).append(row)
    found = []
    for name, own in hosts.items():

        def span(key: str, scale: float = 1.0, unit: str = "", own: list[Row] = own) -> str:
            values = [row[key] * scale for row in own if row[key] is not None]
            if not values:
                return "not read"
            low, high = f"{min(values):.4g}", f"{max(values):.4g}"
            return f"{low}{unit}" if low == high else f"{low} – {high}{unit}"

        def text(key: str, own: list[Row] = own) -> str:
            return labels.listed(list(dict.fromkeys(row[key] for row in own if row[key])))

        cores = dict.fromkeys(
            f"{row['cores_allowed'] or row['cores']} of {labels.plural(row['cores'], 'core')}"
            for row in own
            if row["cores"]
        )
        facts = {
            "CPU": text("cpu"),
            "cores that may be used": labels.listed(list(cores)),
            "memory": labels.size(max((row["memory_bytes"] or 0 for row in own), default=0)),
            "GPU": text("gpu"),
            "GPU driver": text("gpu_driver"),
            "system": text("os"),
            "kernel": text("kernel"),
            "CPU governor": text("governor"),
            "load before a repetition": span("load_before"),
            "idle CPU time before a repetition": span("idle_share_before", 100, " %"),
            "CPU time of others in the window": span("foreign_cpu_share", 100, " %"),
            "CPU time over wall time of the ranks": span("cpu_time_over_wall", 100, " %"),
            "CPU clock before a repetition": span("clock_mhz_before", 1, " MHz"),
            "CPU clock after a repetition": span("clock_mhz_after", 1, " MHz"),
        }
        kept = {key: value for key, value in facts.items() if value and value != "not read"}
        found.append({"name": name, "count": len(own), "facts": kept})
    return found


def _period(rows: Iterable[Row]) -> tuple[str, str]:
    """(first start, last end) of the round's runs: '2026-11-21 05:00:00'."""
    starts = [row["start_utc"] for row in rows if row["start_utc"]]
    ends = [row["end_utc"] for row in rows if row["end_utc"]]
    if not starts or not ends:
        return "", ""
    return min(starts)[:19].replace("T", " "), max(ends)[:19].replace("T", " ")


def _apart(rows: Sequence[Row]) -> str:
    """Whether repetitions shared a host, and the shortest pause between two timed windows."""
    windows: dict[str, list[tuple[datetime, datetime]]] = {}
    for row in rows:
        if row["window_start_utc"]:
            window = (
                datetime.fromisoformat(row["window_start_utc"]),
                datetime.fromisoformat(row["window_end_utc"]),
            )
            for node in row["nodes_used"].split():
                windows.setdefault(node, []).append(window)
    shared = overlapping(rows)
    count = sum(len(each) for each in windows.values())
    if shared:
        return (
            f"{labels.plural(len(shared), 'repetition')} ran while another one ran on the same "
            "host; their cells are marked as suspect."
        )
    pauses = [
        (after[0] - before[1]).total_seconds()
        for each in windows.values()
        for before, after in pairwise(sorted(each))
    ]
    if not pauses:
        return ""
    return (
        f"No two repetitions ran on one host at the same time: the {count} timed windows are apart "
        f"by at least {min(pauses):.1f} s, and the runs around them do not overlap either."
    )
