"""TensorFlow 2: float16's loss scale, which this CPU's mixed precision never asks for; tables;
samples of a head."""

import dataclasses
import json

import in_framework
import pytest

SCALED = """
import tensorflow as tf
frameworks.load("tensorflow").start(run)
from dlperf.frameworks.tensorflow import training as framework
from dlperf.frameworks.tensorflow.adamw import AdamW
from dlperf.frameworks.tensorflow.lamb import Lamb
from dlperf.workloads.bert import facts
from dlperf.workloads.resnet50.tensorflow import SGD

def trained(gradients):
    variables = [tf.Variable([[1.0, -2.0]]), tf.Variable([3.0])]
    optimizer = {"bert": lambda: AdamW(facts, variables, 0.125, 1.0),
                 "electra": lambda: Lamb(variables, 0.125, (0.9, 0.999), 1e-6, 0.01, True, 1.0),
                 "resnet50": lambda: SGD(variables, 0.125)}[run.workload]()
    passing = {id(each) for each in getattr(optimizer, "changes", {}).values()}
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
    kept = [each for each in optimizer.variables if id(each) not in passing]
    state = [each.numpy().tolist() for each in variables + kept]
    return state, float(scale.scale), float(scale.good_steps), sorted(kinds)

inf = float("inf")
print(json.dumps([trained(each) for each in ([], [inf], [1.0, 0.5], [inf, 1.0, 0.5],
                                            [1.0, inf, 0.5])]))
"""


@pytest.mark.parametrize("compiler", ["none", "xla"])
@pytest.mark.parametrize("workload", ["resnet50", "bert", "electra"])
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


TABLE = """
import tensorflow as tf
frameworks.load("tensorflow").start(run)
from dlperf.frameworks.tensorflow import sparse
from dlperf.frameworks.tensorflow import training as framework

def trained(gradients):
    dense, table = tf.Variable([3.0]), tf.Variable(tf.ones([5, 2]))
    optimizer = sparse.Adam(run, [dense, table], 0.125, 0.9, 0.999, 1e-7, lazy=True)
    scale = framework.LossScale(4.0)

    def body(gradient):
        gradient = gradient * scale.scale
        rows = tf.IndexedSlices(tf.fill([3, 2], gradient), tf.constant([3, 1, 3]), table.shape)
        scale.apply(optimizer, [tf.fill([1], gradient), rows])

    step = framework.function(body, jit_compile=run.compiler == "xla" or None)
    for gradient in gradients:
        step(tf.constant(gradient))
    return [each.numpy().tolist() for each in (dense, *optimizer.variables, table)]

inf = float("inf")
print(json.dumps([trained(each) for each in ([], [inf], [1.0, 0.5], [inf, 1.0, 0.5],
                                            [1.0, inf, 0.5])]))
"""


@pytest.mark.parametrize("compiler", ["none", "xla"])
def test_a_step_that_overflows_leaves_tables_and_moments_as_they_were(compiler, environments):
    run = in_framework.rank("tensorflow", "wide_deep", compiler=compiler)
    found = json.loads(in_framework.printed(run, TABLE, environments / "tensorflow.cpu"))
    start, skipped, two, skipped_first, skipped_between = found
    assert skipped == start != two
    assert skipped_first == skipped_between == two
    rests = [before == after for before, after in zip(start[-1], two[-1], strict=True)]
    assert rests == [True, False, True, False, True]


SUMMED = """
import dataclasses
import tensorflow as tf
from dlperf.frameworks.tensorflow import sparse

ids, rows = tf.random.uniform([40], maxval=9, dtype=tf.int32), tf.random.normal([40, 3])
run = dataclasses.replace(run, compiler="none", device="cuda")
by_xla = dataclasses.replace(run, compiler="xla")
pairs = [sparse.summed(ids, rows), *(sparse.summing(each)(ids, rows) for each in (by_xla, run))]
assert [ids.dtype.name for ids, _ in pairs] == ["int32", "int32", "int64"]
print(json.dumps([ids.numpy().tolist()] + [[each.numpy().tolist() for each in p] for p in pairs]))
"""


def test_on_a_gpu_each_id_has_the_sum_of_its_rows_as_often_as_it_is_given(environments):
    run = in_framework.rank("tensorflow", "wide_deep")
    found = in_framework.printed(run, SUMMED, environments / "tensorflow.cpu")
    given, (ids, sums), *others = json.loads(found)
    of = dict(zip(ids, sums, strict=True))
    for repeated, each in others:
        assert sorted(ids) == sorted(set(given)) and repeated == sorted(given)
        for place, row in zip(repeated, each, strict=True):
            assert row == pytest.approx(of[place], abs=1e-5)


SAMPLED = """
import tensorflow as tf
frameworks.load("tensorflow").start(run)
from dlperf.frameworks.tensorflow import split_head
from dlperf.workloads.insightface.tensorflow import Head

xla = run.compiler == "xla"
head = Head(run)
start = tf.reshape(tf.sin(tf.range(51.0 * 128)), [51, 128])
head.weight.assign(start)
sgd = split_head.SGD(run, head.trainable_variables, 0.125, 0.5, 0.5)

@tf.function(jit_compile=xla)
def step(x, labels):
    with tf.GradientTape() as tape:
        loss = head(x, labels)
    sgd.apply(tape.gradient(loss, head.trainable_variables))
    return loss

# a twentieth of 51 rows are two, fewer than the batch names
labels = tf.constant([3, 3, 7, 50, 7, 3, 3, 7])
losses = [float(step(tf.reshape(tf.cos(tf.range(8.0 * 128)), [8, 128]), labels)) for _ in range(3)]
moved = tf.where(tf.reduce_any(head.weight != start, 1))[:, 0]
print(json.dumps([losses, moved.numpy().tolist(), head.weight.numpy()[[3, 7, 50]].tolist()]))
"""


def test_a_step_takes_all_classes_of_a_batch_and_moves_no_others_also_where_its_size_is_fixed(
    environments,
):
    dimensions = {"backbone": "y1", "loss": "arcface", "num_classes": 51, "head": "partial"}
    dimensions.update(sample_percent=5, image_size=32)

    def found(compiler):
        given = {"dimensions": dimensions, "batch_size": 8, "compiler": compiler}
        run = in_framework.rank("tensorflow", **given)
        run = dataclasses.replace(run, workload="insightface")
        return json.loads(in_framework.printed(run, SAMPLED, environments / "tensorflow.cpu"))

    losses, moved, rows = found("none")
    fixed_losses, fixed_moved, fixed_rows = found("xla")
    assert moved == fixed_moved == [3, 7, 50]
    assert fixed_losses == pytest.approx(losses, rel=1e-5)
    for row, fixed in zip(rows, fixed_rows, strict=True):
        assert fixed == pytest.approx(row, abs=1e-4)
