"""What does the stopwatch itself cost? The same loop bare and under it, in turns.

    python benchmarks/stopwatch.py [--framework pytorch mxnet] [--pairs 15] [--steps 10]

In one process a framework, one Work, built and warmed up once, runs windows of steps, two of each
kind in a pair, ordered so that a steady drift cancels out: bare (a loop of `step()`, `wait()`, two
readings of the clock) and under `dlperf.measure.rank.window`, with its barriers, marks, loss
handles and a supervisor that polls this process as the real one does. Only the stopwatch's code
differs. Printed, and written to results/benchmarks/stopwatch.tsv: time under the stopwatch / bare
time, the median of the pairs with its interval. On a quiet machine it must lie within 1 +- 0.005;
exits 1 where it does not.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time

import common

from dlperf.measure.door import TOKEN, listener, new_token
from dlperf.measure.meeting import Meeting
from dlperf.measure.stopwatch import POLL_SECONDS

ALLOWED = 0.005


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--framework", nargs="+", default=["pytorch", "mxnet"])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10, help="steps of a window (default: 10)")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    asked = parser.parse_args()
    rows = [compare(framework, asked) for framework in asked.framework]
    for row in rows:
        print(
            "{framework}: stopwatch / bare {ratio_median} [{ratio_low}, {ratio_high}] "
            "({coverage:.1%}, {pairs} pairs of 2 x {steps} steps), bare step {bare_seconds} s"
            "".format(**row)
        )
    print("->", common.write("stopwatch", rows, ("framework",)))
    beyond = [row["framework"] for row in rows if abs(row["ratio_median"] - 1) > ALLOWED]
    if beyond:
        sys.exit(f"error: beyond 1 +- {ALLOWED}: {', '.join(beyond)}; was the machine quiet?")


def compare(framework, asked):
    interpreter, environ = common.environment(framework)
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    token = new_token()
    meetings = [Meeting(1, listener("127.0.0.1"), token) for _ in range(2 * asked.pairs)]
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(common.RESULTS / f"stopwatch-{framework}.log", "w") as log,
    ):
        run = common.one_core(
            framework,
            interpreter,
            scratch,
            batch_size=asked.batch_size,
            dimensions={"image_size": asked.image_size},
            warmup_steps=3,
            measured_steps=asked.steps,
        )
        spec = f"{scratch}/run.json"
        run.save(spec)
        process = common.start(
            [interpreter, str(common.ROOT / "benchmarks" / "windows.py"), spec]
            + [meeting.address for meeting in meetings],
            run,
            {**environ, TOKEN: token},
            [common.ROOT / "scripts"],
            log,
            stdin=subprocess.DEVNULL,
            stdout=log,
        )
        try:
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
            for meeting in meetings:
                meeting.close()
        if process.returncode:
            sys.exit(f"error: {framework} ended with {process.returncode}; see {log.name}")
        with open(run.result) as stream:
            pairs = json.load(stream)
    bare = sorted(pair["bare"] for pair in pairs)[len(pairs) // 2]
    return {
        "framework": framework,
        "compiler": run.compiler,
        "image_size": asked.image_size,
        "batch_size": asked.batch_size,
        "steps": asked.steps,
        **common.summary([pair["stopwatch"] / pair["bare"] for pair in pairs]),
        "bare_seconds": round(bare / (2 * asked.steps), 4),
    }


if __name__ == "__main__":
    main()
