"""Why a cell of others and one of this round are no estimates of one quantity, and what else
differs between them.

In: a `Pair`. Out: every reason against a verdict, and every difference that is none, in plain
words.
"""

import re
from collections.abc import Iterator

from dlperf import workloads
from dlperf.analysis.compare import conditions, estimators
from dlperf.analysis.compare.pairs import Pair, metric_key
from dlperf.analysis.compare.published_values import MEMORY
from dlperf.analysis.publications.published import data_as_read
from dlperf.analysis.round import flags, labels
from dlperf.analysis.schema import columns, forms
from dlperf.analysis.schema.rows import value_of
from dlperf.analysis.statistics import LEAST

#: Mixed precision, and what it computes in where it is published: plain "amp" is float16 in all
#: publications here, whatever the card.
PUBLISHED_HALF = {"amp": "fp16", "amp_fp16": "fp16", "amp_bf16": "bf16"}
TYPES = {"fp16": "float16", "bf16": "bfloat16", "tf32": "TF32", "fp32": "float32"}
#: Words of a driver's name of a card that publications leave out: maker, line, form.
UNSAID = {"nvidia", "tesla", "geforce", "quadro", "gpu", "pcie", "sxm2", "sxm3", "sxm4", "sxm5"}

#: Compilers that are a framework's own graph.
OWN_GRAPHS = ("graph", "static")


def reasons(pair: Pair) -> Iterator[str]:
    """Why a cell of theirs cannot be held against ours: every reason, in plain words."""
    yield from _without_figure(pair)
    yield from pair.there.unlike.get(metric_key(pair.other), ())
    yield from other_work(pair)
    yield from _other_device(pair)
    yield from _other_settings(pair)
    yield from _other_estimate(pair)
    yield from _other_memory(pair)
    yield from _unproved(pair)
    yield from _too_few(pair)


def _without_figure(pair: Pair) -> Iterator[str]:
    for cell, where in ((pair.own, "here"), (pair.other, "there")):
        if cell["status"] != "ok":
            why = f": {cell['reason']}" if cell["reason"] else ""
            yield f"no figure {where}: {forms.STATUS[cell['status']]}{why}"
    if not pair.is_of_one_metric:
        if not pair.there.unlike.get(metric_key(pair.other)):
            yield f"not measured here: {pair.other['metric'].replace('_', ' ')}"
        return
    if pair.own["unit"] != pair.other["unit"]:
        yield f"another unit: {pair.own['unit']} here, {pair.other['unit'] or 'none'} there"
    sides = (pair.here, pair.own, "our"), (pair.there, pair.other, "their")
    for side, cell, whose in sides:
        if any(value <= 0 for value in side.values(cell)):
            yield f"{whose} figure is not above 0"


def other_work(pair: Pair) -> Iterator[str]:
    """What was computed otherwise: batch, data, sizes, compiler, precision."""
    own, other = pair.own, pair.other
    if own["batch_size"] != other["batch_size"]:
        theirs = other["batch_size"] or "not known"
        yield f"another batch per device: {own['batch_size']} here, {theirs} there"
    if own["activation_checkpointing"] != other["activation_checkpointing"]:  # of a publication
        ours = "are" if own["activation_checkpointing"] else "are not"
        yield f"activations {ours} computed again here, which is not known of there"
    data = other["data"]
    if pair.published:
        data = data_as_read(other.get("implementation") or "", data)
    if not data:
        yield f"other data, as far as is known: {own['data']} here, not known there"
    elif own["data"] != data:
        yield f"other data: {own['data']} here, {data} there"
    for name, each in workloads.of(own["workload"]).dimensions.items():
        if not each.is_choice and value_of(own, name) != value_of(other, name):
            ours, theirs = value_of(own, name), value_of(other, name)
            theirs = f"{theirs:,}" if isinstance(theirs, int) else theirs
            what = f"another {name.replace('_', ' ')}"
            if name in pair.unsaid:
                yield f"{what}, as far as is known: {ours:,} here, not said there (usual: {theirs})"
            else:
                yield f"{what}: {ours:,} here, {theirs} there"
    if own["compiler"] != other["compiler"] and not is_unsaid_graph(pair):
        if "compiler" in pair.unsaid:
            yield f"another compiler, as far as is known: {own['compiler']} here, none named there"
        else:
            yield f"another compiler: {own['compiler']} here, {other['compiler']} there"
    yield from _other_precision(pair)


def is_unsaid_graph(pair: Pair) -> bool:
    """Whether ours runs as its framework's own graph, and a publication names no compiler: those
    name XLA, but not a graph that nearly all programs of their day in that framework ran as."""
    return "compiler" in pair.unsaid and pair.own["compiler"] in OWN_GRAPHS


def _other_precision(pair: Pair) -> Iterator[str]:
    if pair.own["status"] != "ok":
        return  # what did not run has computed in nothing
    here = pair.own.get("peak_precision") or ""
    there = pair.other.get("peak_precision") or ""
    if pair.published and pair.own["precision"] in PUBLISHED_HALF:
        there = PUBLISHED_HALF[pair.other["precision"]]
        if not here:
            yield "which type mixed precision computes in here is not known"
    elif pair.published and pair.own["precision"] == "fp32" and _has_tf32(pair):
        here, there = "tf32", "fp32"
    if here and there and here != there:
        words = [TYPES.get(each, each) for each in (here, there)]
        yield f"another precision: computes in {words[0]} here, {words[1]} there"


def _has_tf32(pair: Pair) -> bool:
    """Whether a process reported that it multiplies float32 in TF32."""
    facts = pair.here.facts.get(conditions.key(pair.own), {})
    return any("tf32" in what and value == "yes" for what, value in facts.items())


def _other_device(pair: Pair) -> Iterator[str]:
    what = "card" if pair.own["device"] == "cuda" else "CPU"
    column = "gpu" if pair.own["device"] == "cuda" else "cpu"
    here = pair.here.said(pair.own, column)
    if pair.own["status"] != "ok":
        return  # of what did not run nobody knows where
    if not here:
        yield f"the {what} here is not known"
    elif len(here) > 1:
        yield f"several {what}s here: {labels.listed(here)}"
    if not pair.published:
        there = pair.there.said(pair.other, column)
        if here != there:
            theirs = labels.listed(there) or "not known"
            yield f"another {what}: {labels.listed(here)} here, {theirs} there"
        return
    theirs = pair.other["hardware"]
    if not theirs:
        yield f"another {what}, as far as is known: {labels.listed(here)} here, not known there"
    elif not all(same_card(each, theirs) for each in here):
        known = "another card, as far as names tell" if what == "card" else "another device"
        yield f"{known}: {labels.listed(here)} here, {theirs} there"
    elif what == "CPU":
        yield "on how many cores of it a device ran there is not known"


def same_card(measured: str, published: str) -> bool:
    """Whether a publication's name of a card is the one that a driver gives, but for UNSAID words.

    'V100-SXM2-16GB' is 'Tesla V100-SXM2-16GB', 'A100-40GB' is 'NVIDIA A100-SXM4-40GB'. 'A100' is
    neither card of 40 GB nor of 80, and 'RTX 3080' no 'RTX 3080 Ti'.
    """
    own, theirs = (set(re.findall(r"[a-z0-9.]+", text.lower())) for text in (measured, published))
    return bool(theirs) and theirs <= own and own - theirs <= UNSAID


def _other_settings(pair: Pair) -> Iterator[str]:
    """What rounds say of how they measured; publications do not."""
    if pair.published:
        return
    for name in columns.SETTINGS:
        here, there = pair.own.get(name), pair.other.get(name)
        if here != there:
            yield f"measured otherwise: {name.replace('_', ' ')} {here} here, {there} there"
    if (pair.own.get("searched") or "") != (pair.other.get("searched") or ""):
        yield "the largest size that fits on one side, a size that was asked for on the other"
    here, there = (
        side.said(cell, "data_manifest_sha256")
        for side, cell in ((pair.here, pair.own), (pair.there, pair.other))
    )
    if here != there and pair.own["status"] == pair.other["status"] == "ok":
        yield "other data of the same kind: their manifests differ"


def _other_estimate(pair: Pair) -> Iterator[str]:
    if pair.published and pair.other["status"] == "ok" and pair.is_of_one_metric:
        how = (pair.other.get("estimator") or "").lower()
        yield from estimators.other_estimate(pair.own["metric"], how)


def _other_memory(pair: Pair) -> Iterator[str]:
    """Of a GPU: `memory` here is all that a process holds, where its framework says that."""
    if not pair.published or (pair.own["metric"], pair.other["metric"]) != (MEMORY, MEMORY):
        return
    how = (pair.other.get("estimator") or "").lower()
    theirs = estimators.counted_memory(how)
    total = [row.get("device_total_peak_bytes") for row in pair.here.of(pair.own)]
    ours = "holds" if all(total) else "allocated"
    if len(theirs) != 1:
        yield "whether their memory is what a process holds, or what it allocated, is not said"
    elif theirs != {ours}:
        yield f"other memory: what a process {ours} here, what it {theirs.pop()} there"


def _unproved(pair: Pair) -> Iterator[str]:
    """Equal work that is not certified, or in doubt; of a publication's nobody knows."""
    sides = [(pair.own, "here")] + ([] if pair.published else [(pair.other, "there")])
    for cell, where in sides:
        if cell["status"] != "ok":
            continue
        if not flags.comparable({"certificate": "", **cell}):
            said = cell.get("certificate") or "missing"
            said = f"spot check {cell['check']}" if said == "passed" else said
            yield f"equal work is not certified {where}: {said}"
        for flag in flags.excluding(cell):
            yield f"{flags.flag(flag)} ({where})"


def _too_few(pair: Pair) -> Iterator[str]:
    for side, cell, where in ((pair.here, pair.own, "here"), (pair.there, pair.other, "there")):
        count = len(side.values(cell))
        alone = where == "there" and pair.published and count == 1
        if cell["status"] == "ok" and count < LEAST and not alone:
            yield f"too few repetitions {where}: {count}, and {LEAST} are needed"


def differences(pair: Pair) -> Iterator[str]:
    """What else differs, and is no reason: versions, driver, settings; names of a publication."""
    if pair.published:
        if pair.other["estimator"]:
            yield f"estimator there: {pair.other['estimator']}"
        here = labels.listed(pair.here.said(pair.own, "gpu"))
        if here and pair.other["hardware"] and pair.other["hardware"] not in here:
            yield f"card: {pair.other['hardware']} there, {here} here"
        if is_unsaid_graph(pair):
            yield f"compiler: {pair.own['compiler']} here, none named there"
        for name in workloads.of(pair.own["workload"]).dimensions:
            if name in pair.unsaid and value_of(pair.own, name) == value_of(pair.other, name):
                yield f"{name.replace('_', ' ')}: {value_of(pair.own, name)} here, not said there"
        return
    before, now = (
        side.facts.get(conditions.key(cell), {})
        for side, cell in ((pair.there, pair.other), (pair.here, pair.own))
    )
    yield from map(str, conditions.differences(before, now))
