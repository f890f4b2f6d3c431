"""JAX's training steps, compiled for an H100 on a machine without one.

What no card is needed for: that each step compiles, what types and layouts its products have, what
the host does in it, kernels, copies, exchanges, bytes and memory. What a card alone shows, such as
the kernels that its libraries choose and all times, is not in it. Networks are as short as a claim
allows; those of bytes and memory have all layers.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import xla_checks
import xla_steps
from gpu_needs import needed
from gpu_packages import JAX
from gpu_steps import Step

#: Of each workload a network that compiles in seconds, with each kind of layer.
SHORT = {
    "resnet50": {"layers": 2},
    "bert": {"layers": 1},
    "wide_deep": {"dimensions": {"layers": 2}},
    "electra": {"layers": 1},
    "electra_squad": {"layers": 1},
    "gpt": {"dimensions": {"layers": 2}},
    "insightface": {"dimensions": {"backbone": "y1"}},
}


def short(workload, precision="amp", devices=1, layout=None, control="", **dimensions):
    own = SHORT[workload]
    return Step(
        workload,
        precision,
        devices,
        layout or {},
        dimensions={**own.get("dimensions", {}), **dimensions},
        layers=own.get("layers", 0),
        control=control,
    )


PIPELINE = {"pipeline_parallel": 2, "accumulation": 4}
STEPS = [
    *(
        short(workload, precision, devices)
        for precision in ("amp", "tf32", "fp32")
        for workload in SHORT
        for devices in (1, 8)
    ),
    short("wide_deep", "fp32", adam="dense"),
    short("wide_deep", "fp32", 8, tables="sharded"),
    short("insightface", devices=8, head="model"),
    short("insightface", devices=8, head="partial"),
    short("resnet50", layout={"accumulation": 3}),
    short("gpt", layout={"activation_checkpointing": True}),
    short("gpt", devices=2, layout={"tensor_parallel": 2}),
    short("gpt", devices=2, layout=PIPELINE),
    short("gpt", devices=8, layout={"tensor_parallel": 2, **PIPELINE}),
]


#: What the steps of this version break: findings of docs/gpu-results.md. By (workload, layout), and
#: of whole networks.
KNOWN = {
    ("gpt", "pp2acc4"): {"host", "waiting"},
}
KNOWN_OF_WHOLE = {"resnet50": set(), "bert": {"bytes", "memory"}}


def known(step: Step) -> set[str]:
    return KNOWN.get((step.workload, step.replicas), set())


@pytest.fixture(scope="session")
def compiler(request) -> Path:
    """Where packages cannot be had: a failure where CI=true, else the tests are skipped."""
    return needed(request, JAX.python)


@pytest.fixture(scope="session")
def compiled(compiler) -> Callable[[xla_steps.Step], xla_steps.Compiled]:
    """A step's program, of which a session compiles each once."""
    there: dict[str, xla_steps.Compiled] = {}

    def compiled_once(step: xla_steps.Step) -> xla_steps.Compiled:
        name = json.dumps(dataclasses.asdict(step), sort_keys=True)
        if name not in there:
            there[name] = xla_steps.compiled(step, compiler)
        return there[name]

    return compiled_once


@pytest.mark.full
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_compiles_and_keeps_to_its_limits(step, compiled):
    found = xla_checks.problems(compiled(step))
    assert set(found) == known(step), found


#: Wrong steps, and the check that must refuse each, which the same step without it passes.
CONTROLS = [
    ("host", short("resnet50", control="host loop")),
    ("host", short("bert", control="host loop")),
    ("types", short("resnet50", control="wide products")),
    ("types", short("bert", control="wide dense")),
    ("layout", short("resnet50", control="channels first")),
    ("copies", short("bert", control="turned rows")),
    ("tf32", short("resnet50", "fp32", control="tf32")),
    ("tf32", short("bert", "fp32", control="tf32")),
    ("exact", short("resnet50", "tf32", control="exact products")),
    ("kernels", short("bert", control="no fusion")),
    ("exchanges", short("bert", devices=8, control="one by one")),
    ("waiting", short("bert", devices=8, control="no overlap")),
]


def test_mixed_precision_is_in_bfloat16_of_nhwc_images_and_a_step_that_is_not_is_refused(compiled):
    """The cheapest of all that follow, with its control."""
    assert xla_checks.problems(compiled(short("resnet50"))) == {}
    wrong = xla_checks.problems(compiled(short("resnet50", control="wide products")))
    assert set(wrong) == {"types"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "step"), CONTROLS, ids=lambda each: getattr(each, "control", each)
)
def test_a_wrong_step_is_refused(kind, step, compiled):
    honest = dataclasses.replace(step, control="")
    assert kind not in set(xla_checks.problems(compiled(honest))) - known(honest)
    assert kind in xla_checks.problems(compiled(step))


@pytest.mark.full
def test_a_step_that_calls_python_does_not_compile_without_a_card(compiled):
    with pytest.raises(xla_steps.CompileError, match="emit_python_callback"):
        compiled(short("wide_deep", control="host callback"))


@pytest.mark.full
@pytest.mark.parametrize(("workload", "gigabytes"), [("resnet50", 100), ("bert", 37)])
def test_a_whole_step_does_the_workloads_own_work(workload, gigabytes, compiled):
    """As many FLOPs as the formula says; bytes and memory by the workload's count of kernels."""
    made = compiled(Step(workload))
    assert made.flops and made.limits
    assert set(xla_checks.problems(made)) == KNOWN_OF_WHOLE[workload]
    assert made.program.bytes < gigabytes * 1e9


@pytest.mark.full
def test_ranks_and_micro_steps_cost_no_waiting_and_no_memory(compiled):
    """The whole ResNet-50: 25 million gradients in few exchanges, one micro-step's arrays."""
    assert xla_checks.problems(compiled(Step("resnet50", devices=8))) == {}
    two = Step("resnet50", layout={"accumulation": 2})
    assert xla_checks.problems(compiled(two)) == {}
    at_once = dataclasses.replace(two, control="no barrier")
    assert set(xla_checks.problems(compiled(at_once))) == {"memory"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "control"),
    [("work", "frozen"), ("bytes", "no fusion"), ("memory", "wide products")],
)
def test_a_whole_step_of_other_work_or_with_more_to_move_and_keep_is_refused(
    kind, control, compiled
):
    assert kind in xla_checks.problems(compiled(Step("resnet50", control=control)))
