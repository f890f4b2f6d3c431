"""KerasHub's own BERT with its head for masked words, by Keras' AdamW, in a tf.function.

XLA is slower than that on a CPU. KerasHub has no head for sentence pairs (here a dense layer on its
pooled output), and its GELU is the approximate one but in that head.
"""

import keras
import keras_hub
import tensorflow as tf
from contestant import answering
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from dlperf.contract.work import Work, feed
from dlperf.workloads.bert import facts
from dlperf.workloads.bert.input import empty
from dlperf.workloads.inputs import open_batches

SOURCE = "keras-hub 0.32.0, BertBackbone and MaskedLMHead; keras 3.15.1, AdamW"
REQUIREMENTS = "keras-hub.txt"


def backbone():
    return keras_hub.models.BertBackbone(
        vocabulary_size=facts.VOCABULARY,
        num_layers=facts.LAYERS,
        num_heads=facts.HEADS,
        hidden_dim=facts.WIDTH,
        intermediate_dim=facts.INNER_WIDTH,
        dropout=facts.DROPOUT,
        max_sequence_length=facts.POSITIONS,
    )


def bert():
    """Tokens, segments, mask, positions -> logits of words and of sentence pairs."""
    encoder = backbone()
    positions = keras.Input((None,), dtype="int32")
    head = keras_hub.layers.MaskedLMHead(
        token_embedding=encoder.token_embedding,
        intermediate_activation="gelu",
        layer_norm_epsilon=facts.LAYER_NORM_EPSILON,
    )
    words = head(encoder.output["sequence_output"], positions)
    pairs = keras.layers.Dense(2)(encoder.output["pooled_output"])
    inputs = [encoder.input[name] for name in ("token_ids", "segment_ids", "padding_mask")]
    return keras.Model([*inputs, positions], [words, pairs])


def training(run):
    if run.amp:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    network = bert()
    trained = network.trainable_variables
    adam = keras.optimizers.AdamW(
        facts.learning_rate(run.global_batch_size),
        weight_decay=facts.WEIGHT_DECAY,
        beta_1=facts.BETA1,
        beta_2=facts.BETA2,
        epsilon=facts.EPSILON,
        global_clipnorm=facts.CLIP_NORM if run.dimensions["clip"] else None,
    )
    adam.exclude_from_weight_decay([v for v in trained if len(v.shape) <= 1])
    adam.build(trained)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def train(tokens, segments, mask, positions, labels, predicted, follows):
        with tf.GradientTape() as tape:
            words, pairs = network([tokens, segments, mask, positions], training=True)
            language = tf.reduce_sum(predicted * criterion(labels, words))
            value = language / tf.reduce_sum(predicted) + tf.reduce_mean(criterion(follows, pairs))
        adam.apply(tape.gradient(value, trained))
        return value

    arrays = empty(run.batch_size, run.dimensions["sequence_length"])
    specs = [tf.TensorSpec(array.shape, array.dtype) for array in arrays]
    step = tf.function(train, jit_compile=True if run.compiler == "xla" else None)
    step = step.get_concrete_function(*specs)
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: [tf.constant(array) for array in batch])
    return Work(
        step=lambda: step(*next_batch()),
        wait=lambda: None,
        loss=float,
        parameters=sum(v.shape.num_elements() for v in trained),
        batches=batches,
        parity={},
    )


def inference(run):
    """The backbone in a tf.function of static shapes, its variables frozen to constants."""
    network = backbone()
    names = "token_ids", "segment_ids", "padding_mask"

    def forward(*batch):
        found = network(dict(zip(names, batch, strict=True)), training=False)
        return found["sequence_output"]

    shape = run.batch_size, run.dimensions["sequence_length"]
    step = tf.function(forward, jit_compile=True if run.compiler == "xla" else None)
    step = step.get_concrete_function(*(tf.TensorSpec(shape, tf.int32) for _ in names))
    if run.compiler != "xla":
        step = convert_variables_to_constants_v2(step)

    def answer(*batch):
        found = step(*(tf.constant(array) for array in batch[: len(names)]))
        return (found if run.compiler == "xla" else found[0]).numpy()

    parameters = sum(v.shape.num_elements() for v in network.trainable_variables)
    return answering(run, "NHWC", parameters, answer)
