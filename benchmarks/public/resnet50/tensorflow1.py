"""TF-Slim's ResNet-50, which TensorFlow 1.15 ships, trained by the framework's own SGD.

Slim's L2 term of the loss is the coupled weight decay. A stage's last 3x3 strides, not the next
stage's first, so that it computes a little less than v1.5 does.
"""

import numpy as np
import tensorflow as tf
from contestant import answering
from deployed.tensorflow1 import frozen
from tensorflow.contrib import slim
from tensorflow.contrib.slim.nets import resnet_v1

from dlperf.contract.work import Work
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.resnet50 import facts

SOURCE = "tensorflow 1.15.5, contrib.slim.nets.resnet_v1_50 (stride in a stage's last 3x3)"
REQUIREMENTS = []


def training(run):
    with tf.Graph().as_default():
        return built(run)


def built(run):
    batches = open_batches(run, "NHWC")
    images, labels = [tf.Variable(each, trainable=False) for each in batches.next()]
    scope = resnet_v1.resnet_arg_scope(
        weight_decay=facts.WEIGHT_DECAY,
        batch_norm_decay=facts.BATCH_NORM_MOMENTUM,
        batch_norm_epsilon=facts.BATCH_NORM_EPSILON,
    )
    with slim.arg_scope(scope):
        logits, _ = resnet_v1.resnet_v1_50(images, facts.CLASSES, is_training=True)
    logits = tf.squeeze(logits, [1, 2])
    value = tf.losses.softmax_cross_entropy(
        tf.one_hot(labels, facts.CLASSES), logits, label_smoothing=facts.LABEL_SMOOTHING
    )
    sgd = tf.train.MomentumOptimizer(facts.learning_rate(run.global_batch_size), facts.MOMENTUM)
    train = slim.learning.create_train_op(tf.losses.get_total_loss(), sgd, global_step=None)
    session = tf.Session(config=framework.session_config(run))
    session.run(tf.global_variables_initializer())
    return Work(
        step=session.make_callable([value, train]),
        wait=lambda: None,
        loss=lambda fetched: float(fetched[0]),
        parameters=sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables()),
        batches=batches,
        parity={},
    )


def inference(run):
    """The network as a frozen graph, fed by placeholders."""
    size = run.dimensions["image_size"]
    with tf.Graph().as_default():
        images = tf.placeholder(tf.float32, [run.batch_size, size, size, 3])
        scope = resnet_v1.resnet_arg_scope(batch_norm_epsilon=facts.BATCH_NORM_EPSILON)
        with slim.arg_scope(scope):
            logits, _ = resnet_v1.resnet_v1_50(images, facts.CLASSES, is_training=False)
        call, parameters = frozen(run, [images], tf.squeeze(logits, [1, 2]))
    return answering(run, "NHWC", parameters, lambda images, labels: call(images))
