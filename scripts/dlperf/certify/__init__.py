"""Certificates of equal work: does an implementation compute what the reference computes?

    reference.py   neutral weights, and what plain float64 formulas make of them (under the Python
                   that has PyTorch)
    rank.py        the implementation's own training steps on the same weights and batches, under
                   its framework's interpreter
    judge.py       differences -> tiers, passed or not, with their tolerances
    __main__.py    the command
    released.py    certificates that come with the code

Nothing special is run: the step is that of `training(run)`, which the stopwatch times.
"""

SCHEMA = "dlperf.certificate/2"
#: Free-running steps in float64, by parts of the global batch: ranks, or micro-steps. Of several
#: parts the first step shows how gradients are averaged, and the second that it goes on from the
#: same weights.
STEPS = {1: 5, 2: 2, 4: 2}
#: In the quality scenario: shares of the learning rate, a step each. Neighbours differ: so a
#: momentum that keeps the rate in it shows.
SHARES = (1.0, 0.25, 2.0, 0.5, 1.0)
#: Steps that move no weight, whose losses show the random numbers of dropout.
SCATTERED = 64
#: Of dropout at its own rates by the reference's formulas, on each batch: what chance makes.
DRAWS = 48
#: Of a run that would show slow damage.
LONG_STEPS = 30
#: Variables of glibc, for all that is not timed: memory that is freed is kept. A step of BERT-Base
#: takes and frees gigabytes, and getting them from the kernel anew is up to half of the time.
#: One arena: in those of other threads the thresholds have no effect.
KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**36),
    "MALLOC_TOP_PAD_": str(2**26),
}
