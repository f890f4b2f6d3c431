"""Does a step of Wide & Deep with lazy Adam take longer where its tables have more rows?

    python benchmarks/vocabulary.py [--framework NAME ...]

A process with few rows and one with twenty times as many, under the framework's interpreter and
pinned to the same core, run blocks of steps in turns, the order swapped in each pair. Printed, and
written to results/benchmarks/vocabulary.tsv: time with many rows / time with few, at most 1.15.
"""

import argparse
import statistics
import sys
import tempfile

import common

from dlperf import frameworks, workloads

WORKLOAD = "wide_deep"
MOST = 1.15  # a batch touches as many rows of a large table: what grows are misses of caches
KEYS = ("framework", "layers", "batch_size", "few_rows", "many_rows")


def main():
    there = [name for name in frameworks.NAMES if workloads.implements(WORKLOAD, name)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", nargs="+", choices=there, default=there)
    parser.add_argument("--rows", type=int, nargs=2, default=(260_000, 5_200_000))
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--steps", type=int, default=10, help="steps of a block")
    asked = parser.parse_args()
    slow = []
    for framework in asked.framework:
        row = compare(framework, asked)
        print(
            f"{framework}: {row['many_seconds']} s a step with {row['many_rows']:,} rows / "
            f"{row['few_seconds']} s with {row['few_rows']:,}: {row['ratio_median']} "
            f"({row['ratio_low']} to {row['ratio_high']}), by CPU time {row['cpu_ratio_median']}",
            flush=True,
        )
        path = common.write("vocabulary", [row], KEYS)
        slow += [framework] if row["ratio_median"] > MOST else []
    print("->", path)
    if slow:
        sys.exit(
            f"error: more than {MOST} times as long: {', '.join(slow)}; was the machine quiet?"
        )


def compare(framework, asked):
    interpreter, environ = common.environment(framework)
    page = common.ROOT / "scripts" / "dlperf" / "workloads" / WORKLOAD / f"{framework}.py"
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    processes, blocks = {}, {rows: [] for rows in asked.rows}
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(common.RESULTS / f"vocabulary-{framework}.log", "w") as log,
    ):
        try:
            for rows in asked.rows:
                run = common.one_core(
                    framework,
                    interpreter,
                    scratch,
                    workload=WORKLOAD,
                    batch_size=asked.batch_size,
                    dimensions={
                        "vocabulary": rows,
                        "width": 16,
                        "layers": asked.layers,
                        "adam": "lazy",
                    },
                )
                processes[rows] = common.Contestants(
                    run, environ, {"ours": page}, False, [], scratch, log
                )
            for pair in range(asked.pairs):
                for rows in sorted(asked.rows, reverse=pair % 2):
                    blocks[rows].append(processes[rows].block("ours", asked.steps))
        finally:
            for process in processes.values():
                process.close()
    few, many = (blocks[rows] for rows in asked.rows)

    def ratios(key):
        return [large[key] / small[key] for large, small in zip(many, few, strict=True)]

    def seconds(own):
        return round(statistics.median(each["seconds"] for each in own) / asked.steps, 4)

    return {
        "framework": framework,
        "layers": asked.layers,
        "batch_size": asked.batch_size,
        "few_rows": asked.rows[0],
        "many_rows": asked.rows[1],
        "steps": asked.steps,
        **common.summary(ratios("seconds")),
        "cpu_ratio_median": round(statistics.median(ratios("cpu_seconds")), 4),
        "few_seconds": seconds(few),
        "many_seconds": seconds(many),
    }


if __name__ == "__main__":
    main()
