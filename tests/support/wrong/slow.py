"""Implementations that are right in a certificate's few steps, and damage a training behind them.

Of its runs, only the long one and those of dropout have more than MARGIN steps. They are decorators
of a page's `training`, the same in all frameworks.
"""

from edits import Wrap

from wrong import TIMED, Mutation

MARGIN = 8


def behind(body: str) -> Wrap:
    """A page whose step is `body` behind MARGIN steps: of `take`, the right one; `count`, its
    number; `read()` and `write(arrays)` of the weights by name."""
    lines = "\n".join("            " + line for line in body.strip().splitlines())
    return Wrap(
        "training",
        "def damaged(training):\n"
        "    import dataclasses\n"
        "    import numpy as np\n"
        "    from dlperf.contract.work import as_array\n"
        "    def made(run):\n"
        "        work, numbers, kept = training(run), [0], [None]\n"
        "        take, write = work.step, work.weights.write\n"
        "        def read():\n"
        "            work.wait()\n"
        "            pairs = work.weights.read()\n"
        "            return {name: np.array(as_array(each)) for name, each in pairs}\n"
        "        def step():\n"
        "            numbers[0] += 1\n"
        "            count = numbers[0]\n"
        f"            if count <= {MARGIN}:\n"
        "                kept[0] = take()\n"
        "                return kept[0]\n" + lines + "\n"
        "            return kept[0]\n"
        "        return dataclasses.replace(work, step=step)\n"
        "    return made\n",
    )


def left_out(each: int) -> Wrap:
    return behind(f"if count % {each}:\n    kept[0] = take()")


def changed(change: str) -> Wrap:
    """Its weights become a function of `before` and `arrays`."""
    return behind(f"before = read()\nkept[0] = take()\narrays = read()\n{change}\nwrite(arrays)")


#: Changes of weights by another rate.
OTHER_RATE = "arrays = {{n: before[n] + (arrays[n] - before[n]) * {} for n in arrays}}"
#: Weights that are kept in bfloat16.
NARROW = """
bits = {n: each.astype(np.float32).view(np.uint32) for n, each in arrays.items()}
arrays = {n: (each + 0x8000 & 0xFFFF0000).astype(np.uint32) for n, each in bits.items()}
arrays = {n: each.view(np.float32) for n, each in arrays.items()}
"""


def slow(workload: str, framework: str, precision: str, name: str, edit: Wrap) -> Mutation:
    return Mutation(workload, framework, name, edit, precision=precision, long_run=True, **TIMED)


#: The moments begin anew in each step.
FORGETFUL = "kept[0] = take()\nwork.restart(read())"
SLOW = [
    slow("wide_deep", "pytorch", "amp", "half of each update", changed(OTHER_RATE.format(0.5))),
    slow("wide_deep", "mxnet", "amp", "each second step left out", left_out(2)),
    slow("wide_deep", "jax", "fp32", "each tenth step left out", left_out(10)),
    slow("wide_deep", "jax", "fp32", "weights in bfloat16", changed(NARROW)),
    slow("wide_deep", "mxnet", "fp32", "110 % of each update", changed(OTHER_RATE.format(1.1))),
    slow("gpt", "pytorch", "amp", "each tenth step left out", left_out(10)),
    slow("gpt", "mindspore", "fp32", "each tenth step left out", left_out(10)),
    slow("gpt", "jax", "fp32", "110 % of each update", changed(OTHER_RATE.format(1.1))),
    slow("gpt", "mxnet", "fp32", "weights in bfloat16", changed(NARROW)),
    slow("gpt", "paddlepaddle", "fp32", "half of each update", changed(OTHER_RATE.format(0.5))),
    slow("gpt", "tensorflow", "amp", "moments that begin anew", behind(FORGETFUL)),
    slow("gpt", "mxnet", "fp32", "moments that begin anew", behind(FORGETFUL)),
]
