"""A graph of TensorFlow 1 frozen, as it was deployed; public modules of several workloads infer so.

Python 3.7, TensorFlow 1.15's.
"""

import numpy as np
import tensorflow as tf

from dlperf.frameworks.tensorflow1 import training as framework


def frozen(run, inputs, output):
    """(a function from arrays to the output, trained values); variables become constants."""
    parameters = sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables())
    with tf.Session(config=framework.session_config(run)) as session:
        session.run(tf.global_variables_initializer())
        constants = tf.graph_util.convert_variables_to_constants(
            session, session.graph.as_graph_def(), [output.op.name]
        )
    with tf.Graph().as_default():
        names = [each.name for each in inputs]
        found = tf.import_graph_def(constants, return_elements=[*names, output.name])
        session = tf.Session(config=framework.session_config(run))
        return session.make_callable(found[-1], feed_list=found[:-1]), parameters
