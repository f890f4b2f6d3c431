"""What share of a training step is the optimizer's?

    python benchmarks/optimizer_share.py [--workload electra] [--framework NAME ...]

A step of k micro-steps takes k micro-steps and one update. A process with one micro-step a step and
one with several, under the framework's interpreter and pinned to the same core, run blocks of steps
in turns: what is left of the first when the other's micro-steps are taken away is the optimizer,
its clip included. Nothing is timed inside a step. Micro-steps after the first also add their
gradients to those that are there, so the share may be underestimated. Where
benchmarks/without_optimizer/ has a step without the update, that one is timed too, in the same
process as the first. Printed, and written to results/benchmarks/optimizer_share.tsv.
"""

import argparse
import statistics
import tempfile

import common

from dlperf import frameworks, workloads
from dlperf.contract.layout import Layout

KEYS = ("workload", "framework", "dimensions", "batch_size", "accumulation")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=("bert", "electra"), default="electra")
    parser.add_argument("--framework", nargs="+", choices=frameworks.NAMES)
    parser.add_argument("--sequence-length", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--accumulation", type=int, default=4, help="of the longer steps")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int, default=1, help="steps of a block")
    asked = parser.parse_args()
    there = [name for name in frameworks.NAMES if workloads.implements(asked.workload, name)]
    for framework in asked.framework or there:
        row = compare(framework, asked)
        print(
            "{framework}: optimizer's share of a step {ratio_median} [{ratio_low}, {ratio_high}], "
            "by CPU time {cpu_ratio_median} [{cpu_ratio_low}, {cpu_ratio_high}], without an update "
            "{without_share}; {seconds} s a step".format(**row),
            flush=True,
        )
        path = common.write("optimizer_share", [row], KEYS)
    print("->", path)


def compare(framework, asked):
    interpreter, environ = common.environment(framework)
    page = common.ROOT / "scripts" / "dlperf" / "workloads" / asked.workload / f"{framework}.py"
    without = common.ROOT / "benchmarks" / "without_optimizer" / f"{framework}.py"
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    modules = {1: {"ours": page}, asked.accumulation: {"ours": page}}
    if without.exists():
        modules[1]["without"] = without
    processes, blocks = {}, {}
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(common.RESULTS / f"optimizer_share-{framework}.log", "w") as log,
    ):
        try:
            for accumulation, named in modules.items():
                run = common.one_core(
                    framework,
                    interpreter,
                    scratch,
                    workload=asked.workload,
                    batch_size=asked.batch_size,
                    dimensions={"sequence_length": asked.sequence_length},
                    layout=Layout(accumulation=accumulation),
                )
                contestants = common.Contestants(run, environ, named, False, [], scratch, log)
                processes[accumulation] = contestants
                blocks.update({(accumulation, name): [] for name in named})
            for pair in range(asked.pairs):
                for which in sorted(blocks, reverse=pair % 2):
                    accumulation, name = which
                    found = processes[accumulation].block(name, asked.steps)
                    blocks[which].append(found)
        finally:
            for process in processes.values():
                process.close()

    def shares(key):
        """1 - what all but the update takes, of which the longer step has more."""
        pairs = zip(blocks[1, "ours"], blocks[asked.accumulation, "ours"], strict=True)
        return [
            1 - (longer[key] - one[key]) / (asked.accumulation - 1) / one[key]
            for one, longer in pairs
        ]

    def without_share():
        pairs = zip(blocks[1, "ours"], blocks[1, "without"], strict=True)
        return 1 - statistics.median(
            bare["cpu_seconds"] / one["cpu_seconds"] for one, bare in pairs
        )

    return {
        "workload": asked.workload,
        "framework": framework,
        "dimensions": f"sequence_length={asked.sequence_length}",
        "batch_size": asked.batch_size,
        "accumulation": asked.accumulation,
        "steps": asked.steps,
        **common.summary(shares("seconds")),
        **common.cpu_summary(shares("cpu_seconds")),
        "without_share": round(without_share(), 4) if without.exists() else "",
        "seconds": round(
            statistics.median(each["seconds"] for each in blocks[1, "ours"]) / asked.steps, 4
        ),
    }


if __name__ == "__main__":
    main()
