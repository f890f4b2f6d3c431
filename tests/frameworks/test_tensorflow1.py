"""TensorFlow 1: tables in mixed precision, which it has on GPUs alone."""

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
