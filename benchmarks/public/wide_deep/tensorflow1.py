"""TensorFlow's own Wide & Deep, the canned estimator, by contrib's lazy Adam.

DNNLinearCombinedClassifier builds the graph, as it does in `train`; a plain session runs its
training operation. Its own optimisers, FTRL and AdaGrad, take another rule; LazyAdamOptimizer, that
TensorFlow ships for such tables, takes ours.
"""

import numpy as np
import tensorflow as tf
from tensorflow.contrib.opt import LazyAdamOptimizer

from dlperf.contract.work import Work
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.wide_deep import facts

SOURCE = "tensorflow 1.15.5, DNNLinearCombinedClassifier; contrib's LazyAdamOptimizer"
REQUIREMENTS = []


def training(run):
    with tf.Graph().as_default():
        return built(run)


def built(run):
    rows, width = run.dimensions["vocabulary"], run.dimensions["width"]
    batches = open_batches(run)
    numbers, wide, deep, labels = [
        tf.Variable(each, trainable=False, name="batch") for each in batches.next()
    ]
    ids, names = tf.feature_column.categorical_column_with_identity, {}
    for index in range(facts.CROSSES):
        names[f"cross{index}"] = wide[:, index : index + 1] % (rows // facts.CROSSES)
    for index in range(facts.FIELDS):
        names[f"field{index}"] = deep[:, index : index + 1] % (rows // facts.FIELDS)
    names["numbers"] = numbers
    crosses = [ids(f"cross{index}", rows // facts.CROSSES) for index in range(facts.CROSSES)]
    fields = [ids(f"field{index}", rows // facts.FIELDS) for index in range(facts.FIELDS)]

    def adam():
        rate = facts.learning_rate(run.global_batch_size)
        return LazyAdamOptimizer(rate, facts.BETA1, facts.BETA2, facts.EPSILON)

    estimator = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=crosses,
        linear_optimizer=adam(),
        dnn_feature_columns=[tf.feature_column.embedding_column(each, width) for each in fields]
        + [tf.feature_column.numeric_column("numbers", (facts.NUMBERS,))],
        dnn_optimizer=adam(),
        dnn_hidden_units=run.dimensions["layers"] * [facts.UNITS],
        dnn_dropout=facts.DROPOUT,
        loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
    )
    tf.train.get_or_create_global_step()
    made = estimator.model_fn(names, labels[:, None], tf.estimator.ModeKeys.TRAIN, estimator.config)
    session = tf.Session(config=framework.session_config(run))
    session.run(tf.global_variables_initializer())
    return Work(
        step=session.make_callable([made.loss, made.train_op]),
        wait=lambda: None,
        loss=lambda fetched: float(fetched[0]),
        parameters=sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables()),
        batches=batches,
        parity={},
    )
