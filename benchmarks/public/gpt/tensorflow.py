"""KerasHub's GPT2CausalLM, its backbone with the word embedding as its head, by Keras' AdamW.

One tf.function, as a public `fit` compiles it. Its GELU is GPT-2's form by tanh, as ours.
"""

import keras
import keras_hub
import tensorflow as tf

from dlperf.contract.work import Work, feed
from dlperf.workloads.gpt import facts
from dlperf.workloads.gpt.input import empty
from dlperf.workloads.inputs import open_batches

SOURCE = "keras-hub 0.32.0, GPT2CausalLM; keras 3.15.1, AdamW"
REQUIREMENTS = "keras-hub.txt"


def training(run):
    if run.amp:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    sizes = run.dimensions
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=facts.VOCABULARY,
        num_layers=sizes["layers"],
        num_heads=sizes["heads"],
        hidden_dim=sizes["width"],
        intermediate_dim=4 * sizes["width"],
        dropout=facts.DROPOUT,
        max_sequence_length=sizes["sequence_length"],
    )
    network = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    trained = network.trainable_variables
    adam = keras.optimizers.AdamW(
        facts.learning_rate(run.global_batch_size),
        weight_decay=facts.WEIGHT_DECAY,
        beta_1=facts.BETA1,
        beta_2=facts.BETA2,
        epsilon=facts.EPSILON,
        global_clipnorm=facts.CLIP_NORM,
    )
    adam.exclude_from_weight_decay([v for v in trained if len(v.shape) <= 1])
    adam.build(trained)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def train(tokens, labels):
        inputs = {"token_ids": tokens, "padding_mask": tf.ones_like(tokens)}
        with tf.GradientTape() as tape:
            value = criterion(labels, network(inputs, training=True))
        adam.apply(tape.gradient(value, trained))
        return value

    arrays = empty(run.batch_size, sizes["sequence_length"])
    specs = [tf.TensorSpec(array.shape, array.dtype) for array in arrays]
    step = tf.function(train, jit_compile=True if run.compiler == "xla" else None)
    step = step.get_concrete_function(*specs)
    batches = open_batches(run)
    next_batch = feed(batches, lambda *batch: [tf.constant(array) for array in batch])
    return Work(
        step=lambda: step(*next_batch()),
        wait=lambda: None,
        loss=float,
        parameters=sum(v.shape.num_elements() for v in trained),
        batches=batches,
        parity={},
    )
