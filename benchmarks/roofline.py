"""How far is a measured step from what its arithmetic and its memory traffic allow?

    python -m dlperf.measure.probe --device cuda --out node.json     # what the card reaches
    python benchmarks/roofline.py rep1.json … --node node.json

In: records of ResNet-50 or BERT-Base with status ok, and the calibration of the node that they ran
on, or its TFLOP/s and GB/s by `--tflops` and `--gigabytes`. The formulas, and what each column
counts, are in scripts/dlperf/analysis/round/roofline.py and contract/traffic.py. Printed in
milliseconds a step, and the measured step as a multiple of each, and written to
results/benchmarks/roofline.tsv. No test: it never fails for a slow step.
"""

import argparse
import json
import sys
from pathlib import Path

import common

from dlperf.analysis.round import roofline
from dlperf.analysis.round.calibration import limits, multiplied, nodes
from dlperf.analysis.schema.files import AnalysisError
from dlperf.contract.traffic import COUNTS
from dlperf.scenarios import train
from dlperf.workloads.cases import case_of

WHAT = {
    "arithmetic": "arithmetic",
    "least": "least traffic",
    "fused": "fused kernels",
    "eager": "separate kernels",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="+", type=Path)
    parser.add_argument("--node", type=Path, help="calibration, of dlperf.measure.probe")
    parser.add_argument("--tflops", type=float, help="of products, in place of the calibration's")
    parser.add_argument("--gigabytes", type=float, help="a second of memory, likewise")
    asked = parser.parse_args()
    if not asked.node and not (asked.tflops and asked.gigabytes):
        parser.error("--node, or both --tflops and --gigabytes, say what the device reaches")
    try:
        known = [*limits.reached(nodes.read(asked.node))] if asked.node else []
    except AnalysisError as error:
        sys.exit(f"error: {error}")
    rows = [found for path in asked.records if (found := row(path, known, asked))]
    if not rows:
        sys.exit("error: no record is of a step that can be counted")
    for each in rows:
        print(
            "{case}: {tflops:g} TFLOP/s, {gigabytes:g} GB/s; measured {measured_ms} ms".format(
                **each
            )
        )
        for name, title in WHAT.items():
            print(f"  {title}: {each[f'{name}_ms']} ms, measured / this {each[f'over_{name}']}")
    print("->", common.write("roofline", rows, ("case",)))


def row(path, known, asked):
    """A record beside its limits; None, with a message, where there is nothing to compare."""
    try:
        record = json.loads(path.read_text())
        identity, settings, parity = (record[key] for key in ("identity", "settings", "parity"))
        status = record["status"]
        case = case_of(identity)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"error: {path}: not a record ({error!r})")
    if status != "ok":
        print(f"{path}: left out: {status}", file=sys.stderr)
        return None
    step = roofline.of_case(case)
    if step is None:
        print(f"{path}: left out: {case.folder} is not counted", file=sys.stderr)
        return None
    precision = multiplied.peak_precision(parity, case.precision, settings["device"])
    names, devices = sorted({each["node"] for each in known}), case.devices_per_node
    tflops = asked.tflops or limits.measured_peak(names, devices, precision, known)
    gigabytes = asked.gigabytes or limits.memory(names, devices, known)
    if not (tflops and gigabytes):
        lacking = "memory" if tflops else f"products in {precision or 'an unknown precision'}"
        sys.exit(f"error: {asked.node}: has no speed of {lacking}")
    measured = train.step_time(record, case)
    found = {name: 1e3 * each for name, each in step.seconds(tflops, gigabytes).items()}
    return {
        "case": case.folder,
        "multiplied_in": precision,
        "tflops": round(tflops, 3),
        "gigabytes": round(gigabytes, 2),
        "gflop_a_step": round(step.flops / 1e9, 1),
        **{f"{count}_gb_a_step": round(step.bytes(count) / 1e9, 3) for count in COUNTS},
        "measured_ms": round(measured, 2),
        **{f"{name}_ms": round(each, 2) for name, each in found.items()},
        **{f"over_{name}": round(measured / each, 2) for name, each in found.items()},
    }


if __name__ == "__main__":
    main()
