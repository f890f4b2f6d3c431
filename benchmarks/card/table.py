"""The table of benchmarks/first_gpu.py: a row an Entry, and what in a record cannot be true.

A record that cannot be true is `suspect: reason`, never `ok`: more TFLOP/s than the card can do, or
losses that are no numbers or never change.
"""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from dlperf import scenarios
from dlperf.analysis.round.calibration.multiplied import peak_precision
from dlperf.scenarios import quality, train
from dlperf.workloads.cases import case_of

PEAKS = Path(__file__).resolve().parent.parent.parent / "config/peaks.yaml"
HEAD = ("case", "status", "throughput", "step, latency or score", "MFU stated / measured")
HEAD += ("memory", "energy", "in")
LONGEST_STATUS = 300


class Entry(NamedTuple):
    """What a row says: a record, or in words what there is to say."""

    title: str
    status: str = ""
    record: Any = None

    def row(self, peaks):
        if self.record is None:
            return said(self.title, self.status)
        try:
            return row(self.title, self.record, peaks)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            return said(self.title, f"suspect: its record gives no figures: {reason}")


def row(title, record, peaks):
    """What a record says, as a row of the table. peaks: {precision: TFLOP/s} as measured."""
    case, parity = case_of(record["identity"]), record["parity"]
    achieved, shares = of_peaks(record, case, peaks)
    memory, energy = train.memory(record, case), train.energy(record, case)
    speed = quality.throughput if case.scenario == "quality" else train.throughput
    reasons = list(suspicions(record, case, achieved, shares))
    return (
        title,
        "suspect: " + "; ".join(reasons) if reasons else "ok",
        f"{speed(record, case):.1f} {record['unit']}/s",
        shown(record, case),
        " / ".join("–" if share is None else f"{share:.1%}" for share in shares),
        "–" if memory is None else f"{memory:.2f} GiB",
        "–" if energy is None else f"{energy:.3f} J",
        str(parity.get("compute_dtype", "–")),
    )


def of_peaks(record, case, peaks):
    """TFLOP/s, and their shares of the stated and of the measured peak; None where unknown."""
    if case.scenario not in ("train", "infer"):
        # a server answers as many as come, and a training to a quality is tested on the way
        return None, [None, None]
    precision = peak_precision(record["parity"], case.precision, record["settings"]["device"])
    gpus = record["host"].get("gpus_before") or [{}]
    stated = stated_peaks(str(gpus[0].get("name") or "")).get(precision)
    achieved = train.tflops(record, case)
    known = (stated, peaks.get(precision))
    return achieved, [achieved / peak if achieved and peak else None for peak in known]


def suspicions(record, case, achieved, shares):
    """Why a record that says it is ok cannot be true."""
    for what, share in zip(("stated", "measured"), shares, strict=True):
        if share is not None and share > 1:
            yield f"{share:.1%} of the {what} peak, more than the card can do"
    if achieved is not None and not 0 < achieved < math.inf:
        yield f"{achieved} TFLOP/s"
    losses = record.get("steps", {}).get("loss") or []
    if case.scenario in ("train", "quality"):
        if not losses:
            yield "no losses"
        elif not all(isinstance(each, (int, float)) and math.isfinite(each) for each in losses):
            yield "a loss is not a finite number"
        elif len(losses) > 1 and len(set(losses)) == 1:
            yield f"the loss is {losses[0]:g} in all {len(losses)} steps"


def shown(record, case):
    """A step's time; of other scenarios what their tables show, but for throughput."""
    if case.scenario == "train":
        return f"{train.step_time(record, case):.2f} ms"
    found = []
    for name in scenarios.shown(case.scenario):
        metric = scenarios.metrics(case.scenario)[name].of(case.workload)
        value = metric.value(record, case) if name != "throughput" else None
        if value is not None:
            title, unit = metric.title, metric.unit_of(record["unit"])
            found.append(f"{title[:1].lower()}{title[1:]} {value:.2f} {unit}")
    return "; ".join(found) or "–"


def said(title, status):
    """A row of what has no numbers."""
    return (title, " ".join(status.split())[:LONGEST_STATUS], *["–"] * (len(HEAD) - 2))


def apart(path, other):
    """How far apart two files of changes are, in shares of the second's norms: no verdict.

    In mixed precision two runs of the same program may differ a lot in some tensors of ResNet-50.
    """
    import numpy as np  # the table alone needs only the standard library

    with np.load(path) as ours, np.load(other) as theirs:
        if set(ours.files) != set(theirs.files):
            return "not the same tensors"
        found = {}
        for name in ours.files:
            norm = float(np.linalg.norm(theirs[name]))
            distance = float(np.linalg.norm(ours[name] - theirs[name]))
            found[name] = distance / norm if norm else (0.0 if distance == 0 else math.inf)
    worst = max(found, key=found.__getitem__)
    middle = sorted(found.values())[len(found) // 2]
    return f"weights' changes apart by {middle:.2%} at the median, {found[worst]:.2%} in {worst}"


def markdown(about, rows):
    """The table, below a line about the machine."""
    lines = [about, "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def stated_peaks(name, path=PEAKS):
    """{precision: dense TFLOP/s} of a card by NVML's name; without YAML, as only NumPy is there."""
    name = name.replace("NVIDIA ", "").replace("Tesla ", "")
    for entry in re.split(r"\n  (?=\S)", path.read_text()):
        names = re.search(r"names: \[(.*)\]", entry)
        peaks = re.search(r"dense_tflops: \{(.*)\}", entry)
        if names and peaks and name in names.group(1).split(", "):
            return {key: float(value) for key, value in re.findall(r"(\w+): ([\d.]+)", peaks[1])}
    return {}
