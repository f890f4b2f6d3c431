"""Keras' own ResNet-50, trained by its SGD, in a tf.function of static shapes.

XLA is slower than that on a CPU. Keras' weight decay is decoupled from the momentum.
"""

import keras
import tensorflow as tf
from contestant import answering
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.resnet50 import facts

SOURCE = "keras 3.15.1, keras.applications.ResNet50 (v1, biases in the convolutions)"
REQUIREMENTS = []


def training(run):
    if run.amp:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    size = run.dimensions["image_size"]
    network = keras.applications.ResNet50(
        weights=None,
        input_shape=(size, size, 3),
        classes=facts.CLASSES,
        classifier_activation=None,
    )
    criterion = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=facts.LABEL_SMOOTHING
    )
    sgd = keras.optimizers.SGD(
        facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        weight_decay=facts.WEIGHT_DECAY,
    )
    trained = network.trainable_variables
    sgd.exclude_from_weight_decay([v for v in trained if len(v.shape) <= 1])
    sgd.build(trained)

    def train(images, labels):
        with tf.GradientTape() as tape:
            value = criterion(tf.one_hot(labels, facts.CLASSES), network(images, training=True))
        sgd.apply(tape.gradient(value, trained))
        return value

    step = tf.function(train, jit_compile=True if run.compiler == "xla" else None)
    step = step.get_concrete_function(
        tf.TensorSpec([run.batch_size, size, size, 3]), tf.TensorSpec([run.batch_size], tf.int32)
    )
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda images, labels: (tf.constant(images), tf.constant(labels)))
    return Work(
        step=lambda: step(*next_batch()),
        wait=lambda: None,
        loss=float,
        parameters=sum(v.shape.num_elements() for v in trained),
        batches=batches,
        parity={},
    )


def inference(run):
    """The network in a tf.function of static shapes, its variables frozen to constants."""
    size = run.dimensions["image_size"]
    network = keras.applications.ResNet50(
        weights=None,
        input_shape=(size, size, 3),
        classes=facts.CLASSES,
        classifier_activation=None,
    )

    def forward(images):
        return network(images, training=False)

    step = tf.function(forward, jit_compile=True if run.compiler == "xla" else None)
    step = step.get_concrete_function(tf.TensorSpec([run.batch_size, size, size, 3]))
    if run.compiler != "xla":
        step = convert_variables_to_constants_v2(step)

    def answer(images, labels):
        found = step(tf.constant(images))
        return (found if run.compiler == "xla" else found[0]).numpy()

    parameters = sum(v.shape.num_elements() for v in network.trainable_variables)
    return answering(run, "NHWC", parameters, answer)
