"""Everything of a round -> report.html: one page that needs no network and no other file.

It says everything without its script, which sorts, filters and draws (templates/report.js).

In: config.yaml, measurements.tsv.gz, parity.tsv, certificates.tsv, limits.tsv, roofline.tsv,
cells.tsv, beside.tsv, nodes/ and figures/ of the round, env.json of its environments and the
manifests of its data. Out: a section for each of CONTENTS, whose templates are
templates/sections/<id>.html.j2. Also of a round in which nothing ran.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import markupsafe

from dlperf import plan, workloads
from dlperf.analysis.report import (
    captions,
    explorer,
    programs,
    provenance,
    summary,
    tables,
    uncertainty,
)
from dlperf.analysis.report.cost import campaign
from dlperf.analysis.report.published import Beside, beside
from dlperf.analysis.report.scripts import scripts
from dlperf.analysis.round import (
    certificates,
    checks,
    checksums,
    flags,
    labels,
    metrics,
    names,
)
from dlperf.analysis.round.calibration import nodes
from dlperf.analysis.schema import forms
from dlperf.analysis.schema.files import Row, read_table
from dlperf.analysis.schema.rows import (
    Cell,
    Certificate,
    Check,
    Limit,
    Measurement,
    Parity,
    read_cells,
    read_certificates,
    read_checks,
    read_limits,
    read_measurements,
    read_parity,
    value_of,
)
from dlperf.analysis.statistics import separation
from dlperf.analysis.statistics.medians import order_coverage, order_rank
from dlperf.contract.files import write

#: Sections of the page, in its order: id, which is also the template's name, and heading.
CONTENTS = (
    ("summary", "Summary"),
    ("results", "Results"),
    ("searches", "Searches for the largest that fits"),  # where the config asks for any
    ("cells", "All cells"),
    ("how-sure", "How sure"),
    ("beside", "Beside figures of others"),  # where the config names any
    ("missing", "Suspects and missing cells"),
    ("equal-work", "Equal work"),
    ("environments", "Environments"),
    ("host", "Host and data"),
    ("method", "How it was computed"),
    ("reproduce", "Measure it again"),
    ("provenance", "Provenance"),
)
HASH = re.compile(r"[0-9a-f]{40,64}")
#: Hashes that a line of a parity sheet names one by one.
FEW_HASHES = 2
# The figures' colours that follow the page's light or dark scheme: see templates/style.css.
FIGURE_COLOURS = {
    "#1f2328": "var(--ink)",
    "#59636e": "var(--muted)",
    "#d8dee4": "var(--line)",
    "#ffffff": "var(--paper)",
}

#: What a step is shown beside (round/roofline.py): part of its columns' names, and its heading.
ROOFS = (
    ("arithmetic", "Arithmetic"),
    ("least", "Least traffic"),
    ("fused", "Fused kernels"),
    ("eager", "Separate kernels"),
)
#: Beginnings of flags that are told elsewhere: of what proves a cell, and of its baseline.
NO_SUSPECTS = (
    *(flags.NOT_EQUIVALENT, flags.DIFFERENT, "certificate", "check-stale"),
    *("suspect-baseline", "unlike-baseline"),
)
#: What MFU is shown beside.
MFU = ("stated", "measured")


@dataclass(frozen=True)
class Section:
    """One table with its figures: (name, svg, caption) each, and what it says in sentences."""

    table: tables.Table
    figures: list[tuple[str, markupsafe.Markup, str]]
    summary: list[str]


def report(config_path: Path, folder: Path, shared: Path, out: Path) -> None:
    """Write the report of the round in `folder`; `shared` has environments/ and data/."""
    config = plan.load(config_path)
    repetitions = read_measurements(folder / "measurements.tsv.gz")
    all_cells = read_cells(folder / "cells.tsv")
    measured = metrics.measured(all_cells)
    cells = metrics.select(measured)
    parity = read_parity(folder / "parity.tsv")
    tiers = read_certificates(folder / "certificates.tsv")
    spots = read_checks(folder / "checks.tsv")
    environments = [
        {
            **provenance.environment(shared, framework, config),
            "version": provenance.version(parity, framework),
        }
        for framework in config.all_frameworks
    ]
    compared = summary.standings(cells, repetitions)
    published = beside(config, cells, folder, shared)
    searched = _searches(folder / names.SEARCHES)
    there = {"beside": bool(published), "searches": bool(searched)}
    content = {
        "config": config,
        "contents": [each for each in CONTENTS if there.get(each[0], True)],
        "config_text": config_path.read_text(encoding="utf-8"),
        "config_sha256": hashlib.sha256(config_path.read_bytes()).hexdigest(),
        "sums_sha256": checksums.of_file(folder / checksums.NAME),
        "computed_with": checksums.computed_with(),
        "folder": f"results/{config.round}",
        "title": f"Round {config.round}",
        "counts": Counter(row["status"] for row in repetitions),
        "repetitions": repetitions,
        "period": provenance.period(repetitions),
        "sections": _sections(all_cells, compared, folder / "figures"),
        "beside": [(each, _drawn_beside(each)) for each in published],
        "margin": config.beside_margin,
        "searches": searched,
        "lead": summary.lead(config, repetitions, cells),
        "standings": compared,
        "won": summary.won(compared, cells),
        "certainty": summary.certainty(config.repetitions, cells),
        "lacking": summary.lacking(cells),
        "quality": summary.quality(cells, repetitions),
        "cells": explorer.table(measured),
        "explorer": explorer.explorer(measured, repetitions),
        "caveats": summary.caveats(config, repetitions, cells, tiers),
        "sure": uncertainty.section(repetitions, cells),
        "missing": _missing(cells, environments),
        "suspects": _suspects(cells, repetitions),
        "certificates": _certificates(tiers),
        "checks": _checks(spots),
        "parity": _parity(parity),
        "environments": environments,
        "data": provenance.data(shared, config),
        "hosts": provenance.hosts(repetitions),
        "apart": provenance.apart(repetitions),
        "campaign": campaign(repetitions),
        "nodes": nodes.rows((folder / "nodes").glob("*.json")),
        "spell": nodes.spell,
        "units": nodes.UNITS,
        "limits": _limits(folder / "limits.tsv", cells),
        "rooflines": _rooflines(folder / names.ROOFLINE),
        "programs": programs.of_round(config),
        "roofs": ROOFS,
        "mark": flags.mark,
        "suspect": flags.suspect,
        "interval": labels.interval(config.repetitions),
        "coverage": order_coverage(config.repetitions, order_rank(config.repetitions)),
        "error": separation.ERROR,
        "power": separation.POWER,
        "least": separation.LEAST,
        "commits": sorted({row["git_commit"] for row in repetitions if row["git_commit"]}),
        "example": next((row["record"] for row in repetitions if row["record"]), ""),
        "labels": labels,
        "forms": forms,
        "names": names,
        "scripts": scripts(),
        "style": markupsafe.Markup((tables.TEMPLATES / "style.css").read_text(encoding="utf-8")),
    }
    write(out, tables.templates().get_template("report.html.j2").render(content))


def _sections(
    cells: Sequence[Cell], compared: Sequence[summary.Standing], figures: Path
) -> list[Section]:
    found = []
    groups: set[str] = set()
    for name, own in metrics.shown(cells):
        table, is_own = own[0]["table"], metrics.is_own(own[0])
        standing = [each for each in compared if each.best["table"] == table and is_own]
        drawn = []
        group = f"{names.without_batch(table)}-{names.BATCHES}"
        if group not in groups and (figures / f"{group}.svg").exists():  # before its first table
            groups.add(group)
            rows = metrics.over_batches(cells, group.removesuffix(f"-{names.BATCHES}"))
            said = captions.describe(rows, names.BATCHES)
            svg = inline((figures / f"{group}.svg").read_text(encoding="utf-8"), group, said)
            drawn.append((group, svg, captions.caption(rows, names.BATCHES)))
        of_kind = {own[0]["metric"]: own}
        if is_own:
            of_kind |= {names.SCALING: own, names.ECDF: metrics.distribution(cells, table)}
            of_kind[names.CURVE] = metrics.tested(cells, table)
            of_kind[names.LAYOUTS] = metrics.over_layouts(
                row for row in cells if row["table"] == table
            )
        for kind, rows in of_kind.items():
            path = figures / f"{table}-{kind}.svg"
            if path.exists():
                alternative = captions.describe(rows, kind)
                svg = inline(path.read_text(encoding="utf-8"), path.stem, alternative)
                drawn.append((path.stem, svg, captions.caption(rows, kind)))
        found.append(Section(tables.build(name, own), drawn, summary.standing(own, standing)))
    return found


def _drawn_beside(found: Beside) -> markupsafe.Markup | str:
    """The figure of what stands beside the round; nothing where nothing was tested."""
    return inline(found.figure, found.name, found.described) if found.figure else ""


def _searches(path: Path) -> list[dict[str, Any]]:
    """Each search of searches.tsv with its tries, and what it found in a few words."""
    if not path.exists():
        return []
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in read_table(path):
        found.setdefault((row["workload"], row["framework"], row["case"]), []).append(row)
    return [
        {
            "implementation": labels.implementation(tries[0]),
            "workload": labels.workload(tries[0]),
            "case": tries[0]["case"],
            "searched": tries[0]["searched"].replace("_", " "),
            "said": _found(tries[0]),
            "tries": tries,
        }
        for tries in found.values()
    ]


def _found(row: Row) -> str:
    """'5,700,000; the next size runs out of memory', or why nothing was found."""
    if row["largest"] is None:
        return str(row["why"])
    above = {
        "oom": "the next size runs out of memory",
        "most": "the largest size that the config allows (`most`)",
    }
    told = above.get(row["above"], f"unknown above: the next size ended as {row['above']}")
    return f"{row['largest']:,}; {told}"


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


def _missing(
    cells: Sequence[Cell], environments: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What has no number or fewer repetitions: one entry a reason, with all that it concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for environment in environments:
        if environment["status"] != "ok":
            key = "environment", environment["reason"] or "no env.json"
            found.setdefault(key, []).append(environment["title"])
    for row in cells:
        if row["status"] != "ok":
            key = forms.STATUS[row["status"]], row["reason"]
        elif row["n_ok"] < row["n_asked"]:
            key = "fewer repetitions", tables.partial(row)
        else:
            continue
        found.setdefault(key, []).append(f"{labels.implementation(row)} {labels.where(row)}")
    return [{"what": what, "why": why, "where": where} for (what, why), where in found.items()]


def _limits(path: Path, cells: Sequence[Cell]) -> dict[str, Any]:
    """Stated peaks of the round's devices, and in how many cells MFU is shown beside which."""
    stated: dict[tuple[str, str], list[Limit]] = {}
    for row in read_limits(path):
        if row["basis"] == "stated":
            stated.setdefault((row["device_name"], row["source"]), []).append(row)
    ok = [row for row in cells if row["status"] == "ok"]
    beside = {basis: sum(value_of(row, f"mfu_{basis}") is not None for row in ok) for basis in MFU}
    return {"stated": stated, "beside": beside, "ok": len(ok)}


def _rooflines(path: Path) -> list[dict[str, Any]]:
    """Steps beside their limits: a table for each workload."""
    found: dict[str, list[Row]] = {}
    for row in read_table(path):
        found.setdefault(row["workload"], []).append(row)
    return [
        {"workload": name, "title": labels.workload(own[0]), "rows": own}
        for name, own in found.items()
    ]


def _suspects(cells: Sequence[Cell], repetitions: Iterable[Measurement]) -> list[dict[str, Any]]:
    """Cells that something may have disturbed, or whose work is in doubt, with the worst that their
    repetitions saw."""
    runs: dict[tuple[str, str, str], list[Measurement]] = {}
    for run in repetitions:
        if run["status"] == "ok":
            runs.setdefault((run["workload"], run["framework"], run["case"]), []).append(run)
    found = []
    for row in cells:
        raised = [
            flag
            for flag in row["flags"].split()
            if flag != "partial" and not flag.startswith(NO_SUSPECTS)
        ]
        if not raised:
            continue
        own = runs.get((row["workload"], row["framework"], row["case"]), [])
        idle = [run["idle_share_before"] for run in own if run["idle_share_before"] is not None]
        foreign = [run["foreign_cpu_share"] for run in own if run["foreign_cpu_share"] is not None]
        found.append(
            {
                "implementation": labels.implementation(row),
                "workload": labels.workload(row),
                "where": labels.where(row),
                "value": row["median"],
                "cv": row["cv"],
                "idle": min(idle, default=None),
                "foreign": max(foreign, default=None),
                "why": [*map(_reason, raised), *_unvouched(own)],
            }
        )
    return found


def _unvouched(repetitions: Iterable[Measurement]) -> list[str]:
    """What of the code that ran in these is in doubt, each once."""
    return list(dict.fromkeys(run["unvouched"] for run in repetitions if run.get("unvouched")))


def _reason(flag: str) -> str:
    """Why a cell is in the list of suspects."""
    excluded = "excluded from ranks: " if flag in flags.EXCLUDING else ""
    return excluded + flags.FLAGS[flag]


def _certificates(rows: Sequence[Certificate]) -> dict[str, Any]:
    """A line a certificate, a column a tier: sign, numbers, and where it fails."""
    tiers = list(dict.fromkeys(row["tier"] for row in rows if row["tier"]))
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
                    key: value_of(row, key)
                    for key in ("precision", "compiler", "variant", "layout", "status", "reason")
                },
                "path": row["certificate"],
                "tiers": [_tier(found.get(tier)) for tier in tiers],
                "date": row["start_utc"][:16].replace("T", " "),
                "commit": row["git_commit"],
                "released": certificates.is_released(row),
                "processor": row["processor"],
            }
        )
    weaker = [
        own
        for own in found_for
        if own[0]["status"] == "passed"
        and any(row["tier"].startswith("float64") and not row["tier_passed"] for row in own)
    ]
    not_run: dict[str, dict[str, None]] = {}
    for row in rows:
        if row["tier"] and not row["tier_passed"]:
            not_run.setdefault(row["reason"], {})[labels.implementation(row)] = None
    return {
        "lines": lines,
        "not_run": {why: list(where) for why, where in not_run.items()},
        "tiers": tiers,
        "counts": Counter(line["status"] for line in lines),
        "weaker": len(weaker),
    }


def _checks(rows: Sequence[Check]) -> dict[str, Any]:
    """The same of spot checks, a line a case."""
    tiers = list(dict.fromkeys(row["tier"] for row in rows if row["tier"]))
    lines = []
    for own in checks.by_case(rows).values():
        row, found = own[0], {each["tier"]: each for each in own}
        judged = [found.get(tier) for tier in tiers]
        lines.append(
            {
                "workload": workloads.of(row["workload"]).title,
                "framework": names.framework_title(row["framework"]),
                **{key: value_of(row, key) for key in ("case", "status")},
                "reason": "" if row["tier"] else row["reason"],
                "path": row["spot_run"] if row["tier"] else "",
                "tiers": [
                    _tier(cast(Certificate, {**each, "worst_step": None}) if each else None)
                    for each in judged
                ],
            }
        )
    return {"lines": lines, "tiers": tiers, "counts": Counter(each["status"] for each in lines)}


def _tier(row: Certificate | None) -> dict[str, str]:
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


def _parity(rows: Sequence[Parity]) -> list[dict[str, Any]]:
    """A sheet a table: for each key the value of every series, those marked that differ.

    `own` has the keys that only one series reports: settings of that framework alone.
    """
    sheets = []
    for table in dict.fromkeys(row["table"] for row in rows):
        found = [row for row in rows if row["table"] == table]
        series = labels.series(found)
        values: dict[str, dict[tuple[str, ...], list[str]]] = {}
        for row in found:
            by_series = values.setdefault(row["key"], {})
            reported = by_series.setdefault(labels.series_key(row), [])
            if row["value"] not in reported:
                reported.append(row["value"])
        lines = []
        own: dict[str, list[tuple[str, str]]] = {}
        for key, by_series in values.items():
            shown = {each: _reported(reported) for each, reported in by_series.items()}
            if len(shown) == 1 < len(series):
                ((each, value),) = shown.items()
                own.setdefault(names.series_title(*each), []).append((key, value))
                continue
            usual, count = Counter(shown.values()).most_common(1)[0]
            majority = usual if count > len(shown) / 2 else None
            differs = len(set(shown.values())) > 1
            lines.append(
                {
                    "key": key,
                    "differs": differs,
                    "values": [
                        (shown.get(each, ""), majority not in (None, shown.get(each, majority)))
                        for each in series
                    ],
                }
            )
        titles = [names.series_title(*each) for each in series]
        same = sum(not line["differs"] for line in lines)
        sheets.append({"table": table, "series": titles, "lines": lines, "same": same, "own": own})
    return sheets


def _reported(values: Sequence[str]) -> str:
    """What a series reports of one key, its repetitions' values together.

    Each repetition has batches of its own, so there are as many digests: one of all says as much.
    """
    if len(values) > FEW_HASHES and all(map(_is_hash, values)):
        together = hashlib.sha256("".join(sorted(values)).encode()).hexdigest()
        return f"{len(values)} hashes, together {_short_hash(together)}"
    return " / ".join(map(_short_hash, values)) or "(empty)"


def _is_hash(value: str) -> bool:
    return bool(HASH.fullmatch(value))


def _short_hash(value: str) -> str:
    """The first 12 digits of a sha256, and anything else as it is."""
    return f"{value[:12]}…" if _is_hash(value) else value
