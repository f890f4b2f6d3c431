"""TensorFlow 2: float16's loss scale, which this CPU's mixed precision never asks for."""

import json

import in_framework
import pytest

SCALED = """
import tensorflow as tf
frameworks.load("tensorflow").start(run)
from dlperf.frameworks.tensorflow import training as framework
from dlperf.workloads.bert.tensorflow import AdamW
from dlperf.workloads.resnet50.tensorflow import SGD

def trained(gradients):
    variables = [tf.Variable([[1.0, -2.0]]), tf.Variable([3.0])]
    optimizer = {"bert": lambda: AdamW(variables, 0.125, 1.0),
                 "resnet50": lambda: SGD(variables, 0.125)}[run.workload]()
    scale = framework.LossScale(4.0)
    body = lambda gradient: scale.apply(
        optimizer, [tf.fill(v.shape, gradient) * scale.scale for v in variables])
    step = framework.function(body, jit_compile=run.compiler == "xla" or None)
    step = step.get_concrete_function(tf.TensorSpec([]))
    nodes = step.graph.as_graph_def()
    kinds = {node.op for node in nodes.node}
    kinds |= {node.op for each in nodes.library.function for node in each.node_def}
    for gradient in gradients:
        step(tf.constant(gradient))
    state = [each.numpy().tolist() for each in variables + list(optimizer.variables)]
    return state, float(scale.scale), float(scale.good_steps), sorted(kinds)

inf = float("inf")
print(json.dumps([trained(each) for each in ([], [inf], [1.0, 0.5], [inf, 1.0, 0.5],
                                            [1.0, inf, 0.5])]))
"""


@pytest.mark.parametrize("compiler", ["none", "xla"])
@pytest.mark.parametrize("workload", ["resnet50", "bert"])
def test_a_step_that_overflows_leaves_all_as_it_was(workload, compiler, environments):
    run = in_framework.rank("tensorflow", workload, compiler=compiler)
    found = json.loads(in_framework.printed(run, SCALED, environments / "tensorflow.cpu"))
    start, skipped, two, skipped_first, skipped_between = (state for state, *_ in found)
    assert skipped == start != two
    assert skipped_first == skipped_between == two
    assert [scale for _, scale, *_ in found] == [4.0, 2.0, 4.0, 2.0, 2.0]
    assert [good for _, _, good, _ in found] == [0, 0, 2, 2, 1]


def test_no_branch_asks_the_host_whether_gradients_overflowed(environments):
    run = in_framework.rank("tensorflow")
    found = json.loads(in_framework.printed(run, SCALED, environments / "tensorflow.cpu"))
    kinds = set(found[0][-1])
    assert "ResourceApplyMomentum" in kinds
    assert not kinds & {"If", "StatelessIf", "Switch", "Case", "StatelessCase", "PyFunc"}
