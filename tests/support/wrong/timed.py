"""Implementations that are certified, and do other work where they are timed.

A certificate is of another process, at other sizes and of fewer steps, so an implementation can
tell it from a timed run, and these do: by the size, by how many steps were taken, by a restart.
tests/certificates/test_spot_checks.py makes the spot check of each: it fails. They are decorators
of a page's `training`, which are the same in all frameworks.
"""

from typing import NamedTuple

from edits import Wrap
from spot import Spot

from dlperf import frameworks


class False_(NamedTuple):
    """What an implementation does other than the certified one."""

    name: str
    spot: Spot
    edit: Wrap


def decorated(body: str) -> Wrap:
    """A page whose training is made by `body`, of `training`, `run` and `is_large`."""
    lines = "\n".join("        " + line for line in body.strip().splitlines())
    return Wrap(
        "training",
        "def falsely(training):\n"
        "    import dataclasses\n"
        "    def made(run):\n"
        "        is_large = run.batch_size > 1 and run.scenario == 'train'\n" + lines + "\n"
        "    return made\n",
    )


def of(workload: str, framework: str, **changes) -> Spot:
    return Spot(workload, framework, frameworks.of(framework).default_compiler["cpu"], **changes)


def with_step(step: str) -> str:
    """A body whose work has another step, a function of `take`, the right one, and `count`."""
    return f"""
work, count, kept = training(run), [0], [None]
take = work.step
def step():
    count[0] += 1
{step}
    return kept[0]
def restart(arrays, begin=work.restart):
    begin(arrays)
    restarts.append(count[0])
restarts = []
return dataclasses.replace(work, step=step, restart=restart)
"""


def constant(name: str, value: str) -> str:
    """A body with another constant of the facts above a size."""
    return f"""
if is_large:
    facts.{name} = {value}
return training(run)
"""


#: It says that it computes in float32.
NARROW = """
if not is_large:
    return training(run)
work = training(dataclasses.replace(run, precision='amp'))
return dataclasses.replace(work, parity=dict(work.parity, compute_dtype='float32'))
"""
LEFT_OUT = """
    if count[0] % 3 or kept[0] is None:
        kept[0] = take()
"""
#: Steps are left out from the second one behind a restart, the third one of which is no short
#: window any more.
AFTER_TWO = """
    begun = restarts[-1] if restarts else 0
    if count[0] - begun <= 2 or count[0] % 2:
        kept[0] = take()
"""
#: All of the window's work in its first steps.
ONCE = """
    if count[0] < 4:
        kept[0] = take()
"""
HALF = """
return training(dataclasses.replace(run, batch_size=run.batch_size // 2) if is_large else run)
"""
#: In the first window behind the warm-up, which in a repetition is the timed one, from its third
#: step on.
FIRST = """
    begun = restarts[-1] if restarts else 0
    if len(restarts) != 1 or count[0] - begun <= 2:
        kept[0] = take()
"""
FALSE = [
    False_("bfloat16 above a size", of("gpt", "pytorch"), decorated(NARROW)),
    False_("bfloat16 above a size", of("gpt", "jax"), decorated(NARROW)),
    False_("bfloat16 above a size", of("wide_deep", "tensorflow"), decorated(NARROW)),
    False_("each third step is left out", of("gpt", "pytorch"), decorated(with_step(LEFT_OUT))),
    False_("each third step is left out", of("wide_deep", "mxnet"), decorated(with_step(LEFT_OUT))),
    False_(
        "each second step, from the third on", of("gpt", "jax"), decorated(with_step(AFTER_TWO))
    ),
    False_("no step behind the third", of("wide_deep", "pytorch"), decorated(with_step(ONCE))),
    False_(
        "another rate above a size",
        of("wide_deep", "pytorch"),
        decorated(constant("learning_rate", "lambda size: 0.97e-3")),
    ),
    False_(
        "no dropout above a size", of("wide_deep", "pytorch"), decorated(constant("DROPOUT", "0.0"))
    ),
    False_(
        "less dropout above a size", of("gpt", "pytorch"), decorated(constant("DROPOUT", "0.05"))
    ),
    False_("half of the batch above a size", of("wide_deep", "tensorflow"), decorated(HALF)),
    False_(
        "no smoothing above a size",
        of("resnet50", "mxnet"),
        decorated(constant("LABEL_SMOOTHING", "0.0")),
    ),
    False_("honest behind the first restart", of("gpt", "pytorch"), decorated(with_step(FIRST))),
]
