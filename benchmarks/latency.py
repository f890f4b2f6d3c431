"""What does the scenario `infer` add to a batch's latency? The same answers in a bare loop.

    python benchmarks/latency.py [--framework pytorch jax] [--pairs 15] [--batches 40]

In one process a framework, one Inference, built once, answers batches of one image: bare (one
batch, again and again, between two readings of the clock) and as `dlperf.scenarios.infer` does it,
with batches in turn and a fingerprint of each answer between them. Printed, and written to
results/benchmarks/latency.tsv: median latency in the scenario / bare, the median of the pairs with
its interval. On a quiet machine it must lie within 1 +- 0.02; exits 1 where it does not.
"""

import bare

ALLOWED = 0.02
TEXT = (
    "{framework}, batch {batch_size}: scenario / bare {ratio_median} [{ratio_low}, {ratio_high}] "
    "({coverage:.1%}, {pairs} pairs of 2 x {batches} batches), bare {bare_milliseconds} ms"
)


def main():
    parser = bare.parser(__doc__, ["pytorch", "jax"], batch_size=1)
    parser.add_argument("--batches", type=int, default=40, help="of a window (default: 40)")
    asked = parser.parse_args()
    rows = [compare(framework, asked) for framework in asked.framework]
    bare.end("latency", rows, ("framework", "batch_size"), TEXT, ALLOWED)


def compare(framework, asked):
    row, ratios, seconds = bare.compare(
        "latency",
        framework,
        asked,
        "answers.py",
        [str(asked.pairs)],
        scenario="infer",
        measured_steps=asked.batches,
    )
    return {
        **row,
        "batches": asked.batches,
        **ratios,
        "bare_milliseconds": round(1000 * seconds, 3),
    }


if __name__ == "__main__":
    main()
