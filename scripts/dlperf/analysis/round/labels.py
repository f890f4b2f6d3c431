"""Words for readers: what a cell's keys are called in tables, figures and the report.

In: rows of cells.tsv. Out: short phrases, the same everywhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dlperf import scenarios, workloads
from dlperf.analysis.round import names
from dlperf.analysis.schema import forms
from dlperf.analysis.statistics.medians import order_coverage, order_rank
from dlperf.contract.dimension import Dimension
from dlperf.contract.layout import NAMES as LAYOUT
from dlperf.scenarios import quality
from dlperf.workloads.cases import base_case, case_of_row, layout_of_row

#: Sizes that say nothing of most cases: where a reader is told of them.
TOLD_WHERE = {
    **dict.fromkeys(quality.SIZES, lambda row: scenarios.curved(row["scenario"])),
    "sample_percent": lambda row: row["head"] == "partial",
}


def difference(tier: Mapping[str, Any]) -> str:
    """What a tier measured: '0.31, at most 0.2 (fc.bias)', or why it has no number."""
    if tier["measured"] is None:
        return tier["reason"]
    step = f"step {tier['worst_step']}" if tier["worst_step"] else ""
    where = ", ".join(filter(None, (tier["worst_tensor"], step, tier["reason"])))
    numbers = f"{tier['measured']:.2g}, at most {tier['tolerance']:g}"
    return f"{numbers} ({where})" if where else numbers


def data(row: Mapping[str, Any]) -> str:
    """What the workload's data of this kind are."""
    kind = workloads.data(row["workload"]).get(row["data"])
    return kind.title if kind else row["data"]


def batch(row: Mapping[str, Any]) -> str:
    """'8', or 'max' where it is the largest that fits, or a publication calls it so."""
    if row.get("searched") == "batch_size":
        return "max"
    return row.get("batch_label") or str(row["batch_size"])


def layout(row: Mapping[str, Any]) -> str:
    """'tp2 pp2', 'accumulation 8', nothing for the standard one. Publications say it elsewhere.

    Cells of one workload that differ in it alone differ in this text.
    """
    if "estimator" in row or any(row.get(name) is None for name in LAYOUT):
        return ""
    own = layout_of_row(row)
    words = [
        ways(row),
        "activation checkpointing" if own.activation_checkpointing else "",
        f"accumulation {own.accumulation:,}" if own.accumulation > 1 else "",
    ]
    return ", ".join(filter(None, words))


def ways(row: Mapping[str, Any]) -> str:
    """'tp2 pp2 zero1': what a model is split by; nothing where a row does not say it."""
    if any(row.get(name) is None for name in LAYOUT):
        return ""
    return " ".join(
        layout_of_row(row).spelled("tensor_parallel", "pipeline_parallel", "zero_stage")
    )


def micro_steps(rows: Sequence[Mapping[str, Any]]) -> str:
    """Of a publication's table: 'micro-steps an update: 768 on 1n1d, 96 on 1n8d'."""
    counts = {short_topology(row): row["accumulation"] for row in rows}
    said = ", ".join(f"{count:,} on {topology}" for topology, count in counts.items())
    return f"micro-steps an update: {said}" if set(counts.values()) != {1} else ""


def batch_of_table(row: Mapping[str, Any]) -> str:
    """'batch 8 per device', or 'batch 16 of all devices together': what a table's cells share."""
    if total := row.get("together"):
        return f"batch {total:,} of all devices together"
    return f"batch {batch(row)} per device"


def rate(row: Mapping[str, Any]) -> str:
    """'50 requests/s per device', of a server."""
    return f"{row['arrival_rate']:,} requests/s per device" if row.get("arrival_rate") else ""


def workload(row: Mapping[str, Any]) -> str:
    """The workload's title; its name where only a publication knows it."""
    name = str(row["workload"])
    return workloads.of(name).title if name in workloads.NAMES else name


def scenario(row: Mapping[str, Any]) -> str:
    name = str(row["scenario"])
    return scenarios.load(name).TITLE if name in scenarios.NAMES else name


def sizes(row: Mapping[str, Any]) -> list[str]:
    """The workload's own dimensions: '64×64 px images — reduced from the standard 224×224'."""
    own, found = workloads.of(row["workload"]), list[str]()
    for name, each in own.dimensions.items():
        value, standard = row[name], each.standard
        if name == row.get("searched"):
            found.append(f"{name.replace('_', ' ')}: the largest that fits")
            continue
        if not is_told(name, each, row):
            continue
        if each.is_choice:
            text = each.words[value]
        elif each.key == "px":
            text, usual = f"{value}×{value} px {own.unit}", f"{standard}×{standard}"
        else:
            text, usual = f"{name.replace('_', ' ')} {value:,}", f"{standard:,}"
        if value != standard and standard and not each.is_choice:
            text += f" — {'reduced' if value < standard else 'raised'} from the standard {usual}"
        found.append(text)
    return found


def is_told(name: str, each: Dimension, row: Mapping[str, Any]) -> bool:
    """Whether a dimension says something of this row's case. A size of 0 is as another one is."""
    if each.is_choice:
        return each.applies(row["scenario"])
    return row[name] != 0 and TOLD_WHERE.get(name, lambda row: True)(row)


def short_sizes(row: Mapping[str, Any]) -> str:
    """The same for a figure's title: '64 px (standard: 224)'."""
    own, found = workloads.of(row["workload"]), list[str]()
    for name, each in own.dimensions.items():
        standard = each.standard
        if name == row.get("searched"):
            found.append(f"largest {name.replace('_', ' ')}")
            continue
        if not is_told(name, each, row):
            continue
        if each.is_choice:
            if row[name] != standard:
                found.append(each.words[row[name]])
            continue
        usual = f" (standard: {standard:,})" if standard not in (0, row[name]) else ""
        text = f"{row[name]} px" if each.key == "px" else f"{name.replace('_', ' ')} {row[name]:,}"
        found.append(text + usual)
    return ", ".join(found)


def unit(row: Mapping[str, Any]) -> str:
    """'images/s', or the unit of the row's metric."""
    if row.get("metric"):
        return str(row["unit"])
    return f"{workloads.of(row['workload']).unit}/s"


def unit_of_samples(row: Mapping[str, Any]) -> str:
    """'images'."""
    return str(workloads.of(row["workload"]).unit)


def device(row: Mapping[str, Any]) -> str:
    """What one device is."""
    gpu = f"a device is one {row.get('hardware') or 'GPU'}"
    if row["cores_per_device"] is None:
        return gpu
    cores = plural(row["cores_per_device"], "core")
    if row["device"] == "cpu":
        return f"a device is one CPU process pinned to {cores}"
    return f"{gpu}, with {cores} for its process and loader"


def series(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The series_key of these cells: frameworks as they come, each with its compilers."""
    found = dict.fromkeys(map(series_key, rows))
    together = list(dict.fromkeys((key[0], *key[2:]) for key in found))
    return sorted(found, key=lambda key: together.index((key[0], *key[2:])))


def series_key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """(framework, compiler): a column of a table, a line of a figure.

    Imported cells have the implementation too, with its batch where that is not the table's.
    """
    key = row["framework"], row["compiler"]
    if not row.get("implementation"):
        return key
    other = row["batch_label"] and row["batch_label"] != str(row["batch_size"])
    return *key, row["implementation"] + (f", b{row['batch_size']}" if other else "")


def implementation(row: Mapping[str, Any]) -> str:
    """'JAX [xla]'."""
    return names.series_title(*series_key(row))


def cell(row: Mapping[str, Any]) -> str:
    """'JAX [xla], fp32 b8 1n2d'."""
    return f"{implementation(row)}, {where(row)}"


def where(row: Mapping[str, Any]) -> str:
    """'fp32 b8 1n2d', 'fp32 bmax (512) 1n2d, tp2', of a server 'fp32 b1 r50 1n2d'."""
    rate = f" r{row['arrival_rate']}" if row.get("arrival_rate") else ""
    text = f"{row['precision']} b{row['batch_size']}{rate}"
    if row.get("searched"):
        key = "b" if row["searched"] == "batch_size" else f"{text} {row['searched']} "
        text = f"{row['precision']} " if key == "b" else ""
        text += f"{key}max ({row[row['searched']]:,})"
    return f"{text} {short_place(row)}"


def topology(row: Mapping[str, Any]) -> str:
    """'1 node × 2 devices'; with their batch where that of all together is said elsewhere."""
    found = f"{plural(row['nodes'], 'node')} × {plural(row['devices_per_node'], 'device')}"
    return f"{found}, batch {row['batch_size']:,} per device" if row.get("together") else found


def short_topology(row: Mapping[str, Any]) -> str:
    """'1n2d', or '1n2d, b8'."""
    found = f"{row['nodes']}n{row['devices_per_node']}d"
    return f"{found}, b{row['batch_size']}" if row.get("together") else found


def place(row: Mapping[str, Any]) -> str:
    """'1 node × 2 devices, tp2': a table's row, a panel of a figure; its cells are compared."""
    return ", ".join(filter(None, (topology(row), layout(row))))


def short_place(row: Mapping[str, Any]) -> str:
    """'1n2d', or '1n2d, tp2'."""
    return ", ".join(filter(None, (short_topology(row), layout(row))))


def by_place(row: Mapping[str, Any]) -> tuple[int, int, int, str]:
    """What cells of one place have in common; places in the order of their numbers of devices."""
    return devices(row), row["nodes"], row["devices_per_node"], layout(row)


def devices(row: Mapping[str, Any]) -> int:
    return row["nodes"] * row["devices_per_node"]


def is_scaled(row: Mapping[str, Any]) -> bool:
    """Whether a cell has more devices than the one that its efficiency is over: a model that two
    devices share is its own base there."""
    case = case_of_row(row)
    return case.devices > base_case(case).devices


def interval(n: int) -> str:
    """What the interval of the median of n values is: '[min, max] of 3, coverage 75 %'."""
    k = order_rank(n)
    ends = "[min, max]" if k == 1 else f"[x{k}, x{n + 1 - k}] of the sorted values"
    return f"{ends} of {n}, coverage {forms.percent(order_coverage(n, k))}"


def plural(count: int, word: str) -> str:
    if count == 1:
        return f"1 {word}"
    return f"{count} {word[:-1]}ies" if word.endswith("y") else f"{count} {word}s"


def listed(items: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
