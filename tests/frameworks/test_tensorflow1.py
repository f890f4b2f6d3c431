"""TensorFlow 1 in mixed precision, which it has on GPUs alone: tables, and LAMB."""

import json

import in_framework
import pytest

SCALED = """
import tensorflow as tf
from dlperf.frameworks.tensorflow1 import sparse
from dlperf.frameworks.tensorflow1 import training as framework

with framework.graph(run):
    table, scale = sparse.table("table", 5, 2, lazy=True), framework.LossScale(4.0)
    given = tf.placeholder(tf.float32, [3, 2])
    rows = tf.gather(table, tf.constant([3, 1, 3]))
    (gradient,) = tf.gradients(tf.reduce_sum(rows * given), table)
    assert isinstance(gradient, tf.IndexedSlices)
    _, finite = scale.update([gradient, tf.zeros([1])])
    kinds = sorted({each.type for each in tf.get_default_graph().get_operations()})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        inf = float("inf")
        found = [bool(session.run(finite, {given: [[1.0, each]] * 3})) for each in (2.0, inf)]
print(json.dumps([kinds, found]))
"""


@pytest.fixture(scope="module")
def scaled(environments):
    run = in_framework.rank("tensorflow1", "wide_deep")
    return json.loads(in_framework.printed(run, SCALED, environments / "tensorflow1.cpu"))


def test_the_loss_scale_sees_an_overflow_in_slices_without_making_them_dense(scaled):
    kinds, finite = scaled
    assert finite == [True, False]
    assert not [each for each in kinds if "SegmentSum" in each or "ScatterNd" in each]


def test_a_lookup_is_one_that_the_rewrite_for_mixed_precision_leaves_alone(scaled):
    kinds, _ = scaled
    assert "ResourceGather" in kinds
    assert not {"Gather", "GatherV2"} & set(kinds)


LAMB = """
import tensorflow as tf
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.frameworks.tensorflow1.lamb import Lamb

def trained(gradients):
    with framework.graph(run), tf.Session() as session:
        given, names = tf.placeholder(tf.float32, []), ("first", "second")
        variables = [tf.get_variable(n, initializer=tf.constant([[1.0, -2.0]])) for n in names]
        variables.append(tf.get_variable("bias", initializer=tf.constant([3.0])))
        optimizer = Lamb(tf.float32, 0.125, (0.9, 0.999), 1e-6, 0.01, True, 1.0)
        value = tf.add_n([given * tf.reduce_sum(variable) for variable in variables])
        update, _ = framework.updates(run, optimizer, value)
        kept = variables + [optimizer.get_slot(v, n) for v in variables for n in ("m", "v")]
        kept.append(optimizer._get_non_slot_variable("steps", tf.get_default_graph()))
        session.run(tf.global_variables_initializer())
        for each in gradients:
            session.run(update, {given: each})
        return [each.tolist() for each in session.run(kept)]

inf = float("inf")
orders = ([], [inf], [1.0, 0.5], [inf, 1.0, 0.5], [1.0, inf, 0.5])
print(json.dumps([trained(each) for each in orders]))
"""


def test_a_step_of_lamb_that_overflows_leaves_all_as_it_was(environments):
    run = in_framework.rank("tensorflow1", "electra", precision="amp_fp16")
    found = json.loads(in_framework.printed(run, LAMB, environments / "tensorflow1.cpu"))
    start, skipped, two, skipped_first, skipped_between = found
    assert skipped == start != two
    assert skipped_first == skipped_between == two
