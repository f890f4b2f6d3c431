"""Inference in TensorFlow 1.15: what all workloads do alike.

Once the weights are written, a graph of the outputs alone is made, in which they are constants: so
the session's optimisers fuse batch-norm into convolutions. Each batch is fed, also a synthetic one.
Every rank infers by itself.
"""

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from dlperf.contract.work import Inference, feed
from dlperf.frameworks.tensorflow1.process import session_config
from dlperf.frameworks.tensorflow1.training import forward_pass, graph, graph_facts, initialize
from dlperf.workloads.inputs import open_batches


def infer(run, network, outputs, weights, fields, layout="", parity=None):
    """The Inference of a network, in evaluation mode.

    outputs(run, network, *batch): a batch's outputs. network, weights, fields, layout: as of
    training.train.
    """
    with graph(run):
        _, found = forward_pass(run, network, outputs, fields)
        session = tf.Session(config=session_config(run))
        initialize(session)
        named = weights(run, network)
        named.connect(session)
        parameters = sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables())
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: batch)
    known = dict(
        inference="frozen graph, each batch fed", outputs_copied="in each step", **parity or {}
    )
    call = None

    def forward(batch):
        nonlocal call
        if call is None:  # the weights are there
            frozen, fed, fetched = freeze(run, session, found, fields)
            session.close()  # and with it a second copy of the weights
            known.update(graph_facts(run, frozen, fetched, fed))
            call = frozen.make_callable(fetched, feed_list=fed)
        return call(*batch)

    return Inference(
        step=lambda: forward(next_batch()),
        wait=lambda: None,  # a callable returns when the outputs are there
        outputs=lambda array: array,
        answer=lambda *batch: forward(batch),
        parameters=parameters,
        batches=batches,
        parity=known,
        weights=named,
    )


def freeze(run, session, found, fields):
    """(a session of the graph with constants for variables, what is fed to it, its output)."""
    config = session_config(run)
    if run.amp:
        config.graph_options.rewrite_options.auto_mixed_precision = RewriterConfig.ON
    with session.graph.as_default():
        constants = tf.graph_util.convert_variables_to_constants(
            session, session.graph.as_graph_def(), [found.op.name]
        )
    there = {node.name for node in constants.node}
    with tf.Graph().as_default():
        fed = [tf.placeholder(kind, shape, name) for name, shape, kind in fields]
        inputs = {each.op.name: each for each in fed if each.op.name in there}
        (fetched,) = tf.import_graph_def(constants, inputs, [found.name], name="frozen")
        return tf.Session(config=config), fed, fetched
