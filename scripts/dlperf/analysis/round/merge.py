"""Records and plan -> measurements.tsv.gz (a row a repetition), parity.tsv (a row a setting),
certificates.tsv and checks.tsv (a row a tier) and SHA256SUMS (a line a file that numbers depend
on); of a round with latencies, latencies.tsv.gz (a row a repetition: all of them); of one that
trains to a quality, curves.tsv.gz (a row a test).

Every repetition of the plan has a row: measured, failed, unsupported or missing. Rows stand in the
order of the plan, and the same records give the same bytes.
"""

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dlperf import plan, scenarios, workloads
from dlperf.analysis.publications.config import is_import
from dlperf.analysis.publications.records import measurements as imported_rows
from dlperf.analysis.round import (
    cards,
    certificates,
    checks,
    checksums,
    metrics,
    names,
    ran,
    throttling,
)
from dlperf.analysis.round import searches as tries
from dlperf.analysis.round.calibration.multiplied import peak_precision
from dlperf.analysis.round.records import Repetition, read_round, strangers
from dlperf.analysis.schema import columns
from dlperf.analysis.schema.files import Row, lines, write_lines, write_table
from dlperf.analysis.statistics.medians import outliers
from dlperf.scenarios import train
from dlperf.workloads import inputs


def merge(
    config_path: Path,
    runs: Path,
    shared: Path,
    measurements: Path,
    parity: Path,
    certified: Path,
    checked: Path,
    listed: Path,
    latencies: Path | None = None,
    curves: Path | None = None,
    searches: Path | None = None,
) -> list[str]:
    """Write the files. Returns the records under `runs` that the plan does not ask for.

    `shared` has certificates/ and data/; the folder that holds `runs` has what else is listed in
    SHA256SUMS. Raises AnalysisError for files that are not what their path says,
    ConfigError for the config.
    """
    if is_import(config_path):
        workloads, rows = imported_rows(config_path, runs)
        own = [*columns.IMPORTED, *columns.measurements(workloads)]
        write_table(measurements, own, rows)
        write_table(parity, columns.PARITY, [])
        write_table(certified, columns.CERTIFICATE, certificates.none(rows))
        write_table(checked, columns.CHECK, [])
        checksums.save(listed, {"config.yaml": checksums.of_file(config_path), **_digests(rows)})
        return []
    config = plan.load(config_path)
    cases = plan.expand(config)
    table_of = {case.folder: name for name, own in names.by_table(cases).items() for case in own}
    wanted = columns.measurements(list(config.workloads.asked()))
    tried = tries.rows(config, cases, runs.parent) if searches else []
    read = read_round(config, cases, runs, partial(_of_case, config, table_of, wanted))
    if searches:
        write_table(searches, columns.SEARCH, tried)
    tiers = certificates.read(config, cases, shared)
    of_spots = checks.read(config, cases, runs.parent)
    write_lines(measurements, wanted, [each.measurements for each in read])
    write_lines(parity, columns.PARITY, [each.parity for each in read])
    if latencies:
        write_lines(latencies, columns.LATENCIES, [each.latencies for each in read])
    if curves:
        write_lines(curves, columns.CURVES, [each.curves for each in read])
    write_table(certified, columns.CERTIFICATE, tiers)
    write_table(checked, columns.CHECK, of_spots)
    digests = {path: digest for each in read for path, digest in each.digests.items()} | {
        f"../{row['certificate']}": row["certificate_sha256"]
        for row in tiers
        if row["status"] != "missing"
    }
    data = {each for case in cases if not case.unsupported for each in inputs.folders(case)}
    checksums.save(listed, {**checksums.beside(runs.parent, shared, data), **digests})
    return strangers(cases, config.repetitions, runs)


def _digests(rows: Sequence[Row]) -> dict[str, str]:
    """The sha256 of each record that was read, by its path."""
    return {row["record"]: row["record_sha256"] for row in rows if row.get("record_sha256")}


#: The value of each of a case's metrics, by the metric's name.
Values = Mapping[str, Callable[[dict[str, Any], plan.Case], float | None]]


@dataclass(frozen=True)
class _OfCase:
    """What is merged of one case: lines of the tables, and the records' sha256.

    Lines, not rows: so they are made where the records are read, by a process a core, and
    strings are sent back in place of a dict a repetition.
    """

    measurements: str
    parity: str
    latencies: str
    curves: str
    digests: dict[str, str]


def _of_case(
    config: plan.Config,
    table_of: Mapping[str, str],
    wanted: Sequence[str],
    repetitions: list[Repetition],
) -> _OfCase:
    case = repetitions[0].case
    settings = plan.document(case, config, 1)["settings"]
    shared = {
        **case.columns(config.round, 1),
        "table": table_of[case.folder],
        "case": case.name,
        "global_batch_size": case.global_batch_size if case.together else None,
        **{key: settings.get(key) for key in columns.SETTINGS},
    }
    values = {
        name: metric.value
        for name, metric in scenarios.metrics(case.scenario, case.workload).items()
    }
    target = settings.get("target", 0)
    rows = [_row(each, shared, values, target) for each in repetitions]
    ok = [row for row in rows if row["status"] == "ok"]
    # an unsupported case's devices may not be divisible by its layout
    if ok and workloads.is_split(case.workload, case.dimensions, case.layout.mesh(case.devices)):
        for row in ok:
            row["weights_distinct"] = None  # each rank has its own part of them
    own = metrics.own(case.scenario)
    for row, mark in zip(ok, outliers([row[own] for row in ok]), strict=True):
        row["outlier"] = mark
    return _OfCase(
        measurements=lines(wanted, rows),
        parity=lines(columns.PARITY, _parity_rows(repetitions, rows)),
        latencies=lines(columns.LATENCIES, _latencies(repetitions, rows)),
        curves=lines(columns.CURVES, _curves(repetitions, rows, target)),
        digests=_digests(rows),
    )


def utc(seconds: float) -> str:
    """Seconds since 1970 as '2026-11-21T05:00:00.000000Z'."""
    stamp = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    return stamp.replace("+00:00", "Z")


def _row(repetition: Repetition, shared: Mapping[str, Any], values: Values, target: float) -> Row:
    """A repetition's row; `shared` is what it has in common with the case's others."""
    case, record = repetition.case, repetition.record
    row: Row = {**shared, "repetition": repetition.number}
    if record is None:
        status = "unsupported" if case.unsupported else "missing"
        return {**row, "status": status, "reason": case.unsupported or "not measured yet"}
    host, provenance = record["host"], record["provenance"]
    row |= {key: host.get(key) for key in columns.HOST}
    row |= {key: provenance.get(key) for key in columns.PROVENANCE}
    gpus = host.get("gpus") or []
    row |= {
        "status": record["status"],
        "reason": record["reason"],
        "unit": record["unit"],
        "gpu": "; ".join(dict.fromkeys(str(gpu.get("name")) for gpu in gpus)),
        "gpu_driver": "; ".join(dict.fromkeys(str(gpu.get("driver")) for gpu in gpus)),
        "throttled": "; ".join(throttling.signs(record)),
        "placement": "; ".join(cards.far_ranks(record)),
        "gpu_clock_mhz_before": _mean(host.get("gpus_before"), "sm_clock_mhz"),
        "gpu_clock_mhz_after": _mean(host.get("gpus_after"), "sm_clock_mhz"),
        "gpu_clock_mhz_within": cards.clock_mhz_within(record),
        "gpu_power_capped_share": cards.power_capped_share(record),
        "gpu_power_limit_watts": _mean(gpus, "power_limit_watts"),
        **ran.of_document(record),
        "record": repetition.path,
        "record_sha256": repetition.sha256,
    }
    if record["status"] == "ok":
        row |= _measured(record, case, values, target)
        row["peak_precision"] = peak_precision(record["parity"], case.precision, shared["device"])
        row["cuda_graphs"] = _graphs(record["parity"])
    return row


def _graphs(parity: Mapping[str, Any]) -> str:
    """Whether steps were replayed as CUDA graphs: 'captured', 'none', or '' of a framework that
    does not say it."""
    said = str(parity.get("cuda_graphs") or "")
    captured = re.search(r"captured: (\d+)", said)
    return "captured" if captured and int(captured[1]) else "none" if said else ""


def _steps(record: Mapping[str, Any]) -> Row:
    """The spread of steps. None on a GPU by the host's clock: that times the queueing of a step."""
    steps = record["steps"]
    if steps["clock"] == "host" and record["settings"]["device"] == "cuda":
        return {}
    seconds = steps["seconds"]
    return {
        "step_seconds_median": statistics.median(seconds),
        "step_seconds_min": min(seconds),
        "step_seconds_max": max(seconds),
    }


def _measured(record: Mapping[str, Any], case: plan.Case, values: Values, target: float) -> Row:
    # the target is the config's: another one needs no other run
    settings, window = {**record["settings"], "target": target}, _by_node(record["window"])
    record = {**record, "settings": settings, "window": window}
    steps, memory = record["steps"], record["memory"]
    seconds = train.window_seconds(record)
    energy = [each["joules"] for each in record.get("energy", [])]
    weights = record.get("weights", [])
    return {
        **{name: value(record, case) for name, value in values.items()},
        "samples": record["samples"],
        "timed_steps": steps["measured"],
        "trial_seconds": steps["trial"]["seconds"] if "trial" in steps else None,
        "window_seconds": seconds,
        "window_start_utc": utc(min(rank["start_utc"] for rank in window)),
        "window_end_utc": utc(max(rank["end_utc"] for rank in window)),
        "clock": steps["clock"],
        **_steps(record),
        "loader_share": _share(steps.get("loader_seconds"), seconds),
        # a framework may keep the last one alone
        "loss_first": steps["loss"][0] if len(steps.get("loss", ())) == steps["measured"] else None,
        "loss_last": _last_loss(record),
        # of the rank that trained least
        "weights_change": min((rank["change"] for rank in weights), default=None),
        "weights_unchanged": _largest(weights, "unchanged"),
        # how many different weights the ranks ended with
        "weights_distinct": len({rank["sha256"] for rank in weights}) or None,
        **_outputs(record),
        "host_peak_rss_bytes": _largest(memory, "host_peak_rss_bytes"),
        "device_peak_bytes": _largest(memory, "device_peak_bytes"),
        "device_total_peak_bytes": _largest(memory, "device_total_peak_bytes"),
        "energy_joules": sum(energy) if energy else None,
        "nodes_used": " ".join(sorted({rank["node"] for rank in window})),
    }


def _last_loss(record: Mapping[str, Any]) -> float | None:
    """The loss of the last step that every repetition has: a window may have more of its own."""
    steps, asked = record["steps"], record["settings"]["measured_steps"]
    losses = steps.get("loss", [])
    if len(losses) == steps["measured"]:
        return float(losses[asked - 1])
    return float(losses[-1]) if losses and steps["measured"] == asked else None


def _by_node(ranks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each node's window, from the start of its first rank to the end of its last one.

    All that metrics and rows ask of the ranks' windows, several times, and with fewer numbers.
    """
    nodes: dict[str, dict[str, Any]] = {}
    for rank in ranks:
        own = nodes.setdefault(rank["node"], {**rank})
        for key in ("start", "start_utc"):
            if rank[key] < own[key]:
                own[key] = rank[key]
        for key in ("end", "end_utc"):
            if rank[key] > own[key]:
                own[key] = rank[key]
    return list(nodes.values())


def _outputs(record: Mapping[str, Any]) -> Row:
    """What rank 0 answered to its first batch, where something was inferred."""
    answered = record.get("latency") or record.get("server")
    if not answered:
        return {}
    first = next(rank for rank in answered["ranks"] if rank["rank"] == 0)
    projection, norm = first["outputs"]
    return {"outputs_projection": projection, "outputs_norm": norm}


def _latencies(repetitions: Sequence[Repetition], rows: Sequence[Row]) -> list[Row]:
    """All latencies of each ok repetition in milliseconds, the smallest first."""
    if not scenarios.marked(rows[0]["scenario"]):
        return []
    all_seconds = scenarios.load(rows[0]["scenario"]).all_seconds
    found = []
    for repetition, row in zip(repetitions, rows, strict=True):
        if row["status"] == "ok":
            sorted_seconds = sorted(all_seconds(repetition.record))
            values = " ".join(f"{1000 * each:.7g}" for each in sorted_seconds)
            found.append({**row, "milliseconds": values})
    return found


def _curves(repetitions: Sequence[Repetition], rows: Sequence[Row], target: float) -> list[Row]:
    """The tests of each ok repetition, as people see their scores."""
    if not scenarios.curved(rows[0]["scenario"]):
        return []
    points = scenarios.load(rows[0]["scenario"]).points
    scale = workloads.of(rows[0]["workload"]).quality.score.scale
    return [
        {**row, **point, "target": scale * target}
        for repetition, row in zip(repetitions, rows, strict=True)
        if row["status"] == "ok"
        for point in points(repetition.record)
    ]


def _mean(gpus: Sequence[Mapping[str, Any]] | None, key: str) -> float | None:
    """The mean over GPUs, or None where none says it."""
    values = [gpu[key] for gpu in gpus or () if gpu.get(key) is not None]
    return statistics.fmean(values) if values else None


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None else part / whole


def _largest(ranks: Sequence[Mapping[str, Any]], key: str) -> int | None:
    """The most that any rank had, or None where no rank could say."""
    values = [rank[key] for rank in ranks if rank.get(key) is not None]
    return max(values, default=None)


def _parity_rows(repetitions: Sequence[Repetition], rows: Sequence[Row]) -> list[Row]:
    """Each setting that the processes of a case reported, with the number of those that did."""
    reported: dict[str, dict[str, int]] = {}
    first: Row = {}
    for repetition, row in zip(repetitions, rows, strict=True):
        if repetition.record is None or repetition.record["status"] != "ok":
            continue
        first = first or row
        for key, value in repetition.record["parity"].items():
            counts, text = reported.setdefault(key, {}), _spell(value)
            counts[text] = counts.get(text, 0) + 1
    columns_of_case = {key: first[key] for key in columns.PARITY if key in first}
    return [
        {**columns_of_case, "key": key, "value": value, "repetitions": count}
        for key, values in reported.items()
        for value, count in values.items()
    ]


def _spell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else str(value)
