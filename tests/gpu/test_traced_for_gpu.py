"""TensorFlow 2's training steps, traced without a GPU, and each operation's kernel looked up.

What no card is needed for: that a GPU has a kernel for each operation in its types, or XLA compiles
it; which numbers the host reads; types and layouts of products. Times, memory, and what XLA makes
of a step are not in it.
"""

import dataclasses
import json
from collections.abc import Callable

import pytest
import tf_checks
import tf_steps
from gpu_needs import needed
from gpu_packages import TENSORFLOW
from gpu_steps import Step
from test_compiled_for_gpu import short

WORKLOADS = ("resnet50", "bert", "wide_deep", "electra", "electra_squad", "gpt", "insightface")


def brief(workload, precision="amp", compiler="none", control="", layout=None, **dimensions):
    """A short network on few samples: what operations a step has does not depend on how many."""
    own = short(workload, precision, layout=layout, control=control, **dimensions)
    return dataclasses.replace(own, compiler=compiler, batch_size=4)


STEPS = [
    *(
        brief(workload, precision, compiler)
        for workload in WORKLOADS
        for precision, compiler in (
            *(("amp", "none"), ("amp", "xla")),
            *(("amp_fp16", "none"), ("fp32", "none")),
        )
    ),
    brief("wide_deep", adam="dense"),
    *(brief("insightface", compiler=compiler, head="partial") for compiler in ("none", "xla")),
    brief("resnet50", layout={"accumulation": 2}),
]


@pytest.fixture(scope="session")
def traced(request) -> Callable[[Step], tf_steps.Traced]:
    """A step's operations. Where packages cannot be had: a failure where CI=true, else skipped."""
    python = needed(request, TENSORFLOW.python)
    there: dict[str, tf_steps.Traced] = {}

    def traced_once(step: Step) -> tf_steps.Traced:
        name = json.dumps(dataclasses.asdict(step), sort_keys=True)
        if name not in there:
            there[name] = tf_steps.traced(step, python)
        return there[name]

    return traced_once


@pytest.mark.full
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_gpu_has_a_kernel_for_each_operation_of_a_step(step, traced):
    assert tf_checks.problems(traced(step)) == {}


#: Wrong steps, and the check that must refuse each, which the same step without it passes.
CONTROLS = [
    ("kernels", brief("resnet50", control="no kernel")),
    ("kernels", brief("bert", compiler="xla", control="told")),
    ("host", brief("resnet50", control="host branch")),
    ("host", brief("bert", control="host loop")),
    ("host", brief("bert", control="told")),
    ("host", brief("resnet50", control="counted rows")),
    ("types", brief("bert", control="wide products")),
    ("types", brief("resnet50", "amp_fp16", control="wide products")),
    ("layout", brief("resnet50", control="channels first")),
    ("transposes", brief("resnet50", control="channels first")),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "step"), CONTROLS, ids=lambda each: getattr(each, "control", each)
)
def test_a_wrong_step_is_refused(kind, step, traced):
    honest = dataclasses.replace(step, control="")
    assert kind not in tf_checks.problems(traced(honest))
    assert kind in tf_checks.problems(traced(step))


@pytest.mark.full
def test_what_xla_compiles_may_branch_without_the_host(traced):
    step = brief("resnet50", compiler="xla", control="host branch")
    assert tf_checks.problems(traced(step)) == {}
