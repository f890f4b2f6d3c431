"""Where a round was measured: environments, data, machines, and when.

In: rows of measurements.tsv.gz and parity.tsv, env.json of the environments, manifests of the data.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas

from dlperf import plan, workloads
from dlperf.analysis.round import labels, names
from dlperf.analysis.round.disturbances import SPANS, overlapping
from dlperf.analysis.schema import columns, forms
from dlperf.analysis.schema.files import AnalysisError
from dlperf.analysis.schema.rows import Measurement, Parity, value_of
from dlperf.contract import strict_json
from dlperf.workloads import inputs

#: What is shown of a machine.
SHOWN = (
    *("cpu", "cores_allowed", "memory_bytes", "gpu", "gpu_driver", "os", "kernel", "governor"),
    *columns.READINGS,
)


def environment(shared: Path, framework: str, config: plan.Config) -> dict[str, Any]:
    path = shared / "environments" / f"{framework}.{config.device}" / "env.json"
    shown = Path("results") / path.relative_to(shared)  # the same from wherever it is read
    found: dict[str, Any] = {"status": "missing", "reason": f"{shown}: does not exist"}
    try:
        found = strict_json.parse(path.read_bytes())
    except FileNotFoundError:
        pass
    except ValueError as error:
        found = {"status": "missing", "reason": f"{shown}: is not JSON: {error}"}
    empty = dict.fromkeys(("python", "backend", "lock", "lock_sha256", "utc"), "")
    known = {**empty, "reason": "", "freeze": [], "size_bytes": None, "lock_applied": None, **found}
    return {**known, "framework": framework, "title": names.framework_title(framework)}


def version(parity: Sequence[Parity], framework: str) -> str:
    """What the framework's processes said that they are."""
    own = [row for row in parity if row["framework"] == framework]
    return ", ".join(dict.fromkeys(r["value"] for r in own if r["key"] == "framework_version"))


def data(shared: Path, config: plan.Config) -> list[dict[str, Any]]:
    """The manifest of each set of data that is there, with its folder, title and contents."""
    folders = {
        folder: workloads.data(case.workload)[case.data].title
        for case in plan.expand(config)
        for folder in inputs.folders(case)
    }
    found = []
    for folder, title in folders.items():
        path = shared / "data" / folder / "manifest.json"
        if path.exists():
            try:
                manifest = strict_json.read(path)
            except ValueError as error:
                raise AnalysisError(str(error)) from None
            about = {"folder": folder, "title": title, "contents": contents(manifest)}
            found.append({**manifest, **about})
    return found


def contents(manifest: Mapping[str, Any]) -> str:
    """What a set of data holds: '400 samples in 16 shards of tfrecord, 1 left out'."""
    if "tests" in manifest:
        return f"{manifest['samples']:,} samples to train on, {manifest['tests']:,} to test with"
    if "samples" in manifest:
        text = f"{manifest['samples']:,} samples in {manifest['shards']} shards of "
        text += manifest["format"]
        left = sum(manifest["skipped"].values())
        # "mended" is the earlier name
        repaired = sum(manifest.get("repaired", manifest.get("mended", {})).values())
        text += f", {left:,} left out" if left else ""
        text += f", {repaired:,} repaired" if repaired else ""
        return f"{text}; sha256 of the samples {manifest['samples_sha256']}"
    if "train_questions" in manifest:
        train, test = manifest["train_questions"], manifest["test_questions"]
        text = (
            f"{train:,} questions to train on, {manifest['train_unanswerable']:,} of them without"
        )
        text = f"{text} an answer; {test:,} to test with, {manifest['test_unanswerable']:,} without"
        left = len(manifest.get("left_out", ()))
        return f"{text}; {left:,} left out" if left else text
    if "identities" in manifest:
        return f"{manifest['images']:,} images of {manifest['identities']:,} identities"
    if "images" in manifest:
        return f"{manifest['images']:,} images in {manifest['classes']} class folders"
    text = f"{manifest['tokens']:,} tokens"
    if "documents" in manifest:
        text += f" in {manifest['documents']:,} documents"
    if "vocabulary_learned" in manifest:
        learned = f"{manifest['vocabulary_learned']:,} of 30,522 entries"
        return f"{text}, {learned} of the vocabulary learned from them"
    if "vocabulary_size" in manifest:
        return f"{text}, of a vocabulary of {manifest['vocabulary_size']:,}"
    return text


def hosts(rows: Iterable[Measurement]) -> list[dict[str, Any]]:
    """Each machine with the extremes of what was read from it before and in the repetitions."""
    hosts: dict[str, list[Measurement]] = {}
    for row in rows:
        if row["hostname"]:
            hosts.setdefault(row["hostname"], []).append(row)
    found = []
    for name, own in hosts.items():

        def span(key: str, scale: float, unit: str, own: list[Measurement] = own) -> str:
            there = [value_of(row, key) for row in own]
            values = [each * scale for each in there if each is not None]
            if not values:
                return ""
            low, high = f"{min(values):.4g}", f"{max(values):.4g}"
            return f"{low}{unit}" if low == high else f"{low} – {high}{unit}"

        cores = dict.fromkeys(
            f"{row['cores_allowed'] or row['cores']} of {labels.plural(row['cores'], 'core')}"
            for row in own
            if row["cores"]
        )
        read = {
            key: labels.listed(list(dict.fromkeys(row[key] for row in own if row[key])))
            for key in ("cpu", "gpu", "gpu_driver", "os", "kernel", "governor")
        }
        read["cores_allowed"] = labels.listed(list(cores))
        read["memory_bytes"] = forms.size(max((row["memory_bytes"] or 0 for row in own), default=0))
        read |= {key: span(key, *shown) for key, shown in columns.READINGS.items()}
        facts = {columns.column(key).title: read[key] for key in SHOWN if read[key]}
        found.append({"name": name, "count": len(own), "facts": facts})
    return found


def period(rows: Iterable[Measurement]) -> tuple[str, str]:
    """(first start, last end) of the round's runs: '2026-11-21 05:00:00'."""
    starts = [row["start_utc"] for row in rows if row["start_utc"]]
    ends = [row["end_utc"] for row in rows if row["end_utc"]]
    if not starts or not ends:
        return "", ""
    return min(starts)[:19].replace("T", " "), max(ends)[:19].replace("T", " ")


def apart(rows: Sequence[Measurement]) -> str:
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
    shared = overlapping(pandas.DataFrame(rows, columns=list(SPANS)))
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
