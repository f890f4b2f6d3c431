"""What does the scenario `infer` add to a batch's latency? The same answers in a bare loop.

    python benchmarks/latency.py [--framework pytorch jax] [--pairs 15] [--batches 40]

In one process a framework, one Inference, built once, answers batches of one image: bare (one
batch, again and again, between two readings of the clock) and as `dlperf.scenarios.infer` does it,
with batches in turn and a fingerprint of each answer between them. Printed, and written to
results/benchmarks/latency.tsv: median latency in the scenario / bare, the median of the pairs with
its interval. On a quiet machine it must lie within 1 +- 0.02; exits 1 where it does not.
"""

import argparse
import json
import subprocess
import sys
import tempfile

import common

ALLOWED = 0.02


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", nargs="+", default=["pytorch", "jax"])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--batches", type=int, default=40, help="of a window (default: 40)")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--image-size", type=int, default=64)
    asked = parser.parse_args()
    rows = [compare(framework, asked) for framework in asked.framework]
    for row in rows:
        print(
            "{framework}, batch {batch_size}: scenario / bare {ratio_median} [{ratio_low}, "
            "{ratio_high}] ({coverage:.1%}, {pairs} pairs of 2 x {batches} batches), bare "
            "{bare_milliseconds} ms".format(**row)
        )
    print("->", common.write("latency", rows, ("framework", "batch_size")))
    beyond = [row["framework"] for row in rows if abs(row["ratio_median"] - 1) > ALLOWED]
    if beyond:
        sys.exit(f"error: beyond 1 +- {ALLOWED}: {', '.join(beyond)}; was the machine quiet?")


def compare(framework, asked):
    interpreter, environ = common.environment(framework)
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(common.RESULTS / f"latency-{framework}.log", "w") as log,
    ):
        run = common.one_core(
            framework,
            interpreter,
            scratch,
            scenario="infer",
            batch_size=asked.batch_size,
            dimensions={"image_size": asked.image_size},
            measured_steps=asked.batches,
        )
        spec = f"{scratch}/run.json"
        run.save(spec)
        program = str(common.ROOT / "benchmarks" / "answers.py")
        command = [interpreter, program, spec, str(asked.pairs)]
        paths = [common.ROOT / "scripts"]
        process = common.start(
            command, run, environ, paths, log, stdin=subprocess.DEVNULL, stdout=log
        )
        if process.wait():
            sys.exit(f"error: {framework} ended with {process.returncode}; see {log.name}")
        with open(run.result) as stream:
            pairs = json.load(stream)
    bare = sorted(pair["bare"] for pair in pairs)[len(pairs) // 2]
    return {
        "framework": framework,
        "compiler": run.compiler,
        "image_size": asked.image_size,
        "batch_size": asked.batch_size,
        "batches": asked.batches,
        **common.summary([pair["scenario"] / pair["bare"] for pair in pairs]),
        "bare_milliseconds": round(1000 * bare, 3),
    }


if __name__ == "__main__":
    main()
