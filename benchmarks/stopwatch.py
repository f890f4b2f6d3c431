"""What does the stopwatch itself cost? The same loop bare and under it, in turns.

    python benchmarks/stopwatch.py [--framework pytorch mxnet] [--pairs 15] [--steps 10]

In one process a framework, one Work, built and warmed up once, runs windows of steps, two of each
kind in a pair, ordered so that a steady drift cancels out: bare (a loop of `step()`, `wait()`, two
readings of the clock) and under `dlperf.measure.rank.window`, with its barriers, marks, loss
handles and a supervisor that polls this process as the real one does; such a window is timed by
the supervisor, from its barrier to the rank's message, as a repetition's is. Printed, and written
to results/benchmarks/stopwatch.tsv: time under the stopwatch / bare time, the median of the pairs
with its interval. On a quiet machine it must lie within 1 +- 0.005; exits 1 where it does not.
"""

import time

import bare

from dlperf.measure import tree
from dlperf.measure.door import TOKEN, listener, new_token
from dlperf.measure.meeting import Meeting
from dlperf.measure.stopwatch import POLL_SECONDS

ALLOWED = 0.005
TEXT = (
    "{framework}: stopwatch / bare {ratio_median} [{ratio_low}, {ratio_high}] "
    "({coverage:.1%}, {pairs} pairs of 2 x {steps} steps), bare step {bare_seconds} s"
)


def main():
    parser = bare.parser(__doc__, ["pytorch", "mxnet"], batch_size=8)
    parser.add_argument("--steps", type=int, default=10, help="steps of a window (default: 10)")
    asked = parser.parse_args()
    rows = [compare(framework, asked) for framework in asked.framework]
    bare.end("stopwatch", rows, ("framework",), TEXT, ALLOWED)


def compare(framework, asked):
    token = new_token()
    processes = []

    def look(rank=0, name=""):
        reading = tree.read(processes[0].pid)
        return [reading.user, reading.computed]

    def supervised(process):
        """Wait for a process as the stopwatch does: by polling it."""
        processes.append(process)
        try:
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
        finally:
            process.kill()
        return process.wait()

    def with_ours(pairs):
        """The pairs with the windows that were under the stopwatch, two in each."""
        ours = [each.noted["ended"][0].seconds - each.times["window"].seconds for each in meetings]
        for index, pair in enumerate(pairs):
            pair["stopwatch"] = sum(ours[2 * index : 2 * index + 2])
        return pairs

    meetings = [
        Meeting(1, listener("127.0.0.1"), token, lambda barrier: look(), on_note=look)
        for _ in range(2 * asked.pairs)
    ]
    try:
        row, ratios, seconds = bare.compare(
            "stopwatch",
            framework,
            asked,
            "windows.py",
            [meeting.address for meeting in meetings],
            environ={TOKEN: token},
            wait=supervised,
            complete=with_ours,
            warmup_steps=3,
            measured_steps=asked.steps,
        )
    finally:
        for meeting in meetings:
            meeting.close()
    return {
        **row,
        "steps": asked.steps,
        **ratios,
        "bare_seconds": round(seconds / (2 * asked.steps), 4),
    }


if __name__ == "__main__":
    main()
