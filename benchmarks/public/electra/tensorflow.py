"""KerasHub's ElectraBackbone as generator and as discriminator, in a tf.function.

KerasHub has no pre-training of ELECTRA. Here are its head for masked words, a head of Keras' dense
layers, and the step of google-research/electra, which shares the embeddings and decodes hidden
positions only, at our sizes. Its GELU is the approximate one but in the heads. Keras' LAMB decays
outside of its ratio: the optimizer is off in both.
"""

import keras
import keras_hub
import tensorflow as tf
from without_optimizer.tensorflow import Nothing

from dlperf.contract.work import Work, feed
from dlperf.workloads.electra import facts
from dlperf.workloads.electra.input import empty
from dlperf.workloads.inputs import open_batches

SOURCE = "keras-hub 0.32.0, ElectraBackbone and MaskedLMHead; keras 3.15.1"
REQUIREMENTS = "keras-hub.txt"
WITHOUT_OPTIMIZER = True
NAMES = "token_ids", "segment_ids", "padding_mask"


def backbone(width, heads, inner_width):
    return keras_hub.models.ElectraBackbone(
        vocab_size=facts.VOCABULARY,
        num_layers=facts.LAYERS,
        num_heads=heads,
        hidden_dim=width,
        embedding_dim=facts.WIDTH,
        intermediate_dim=inner_width,
        dropout=facts.DROPOUT,
        max_sequence_length=facts.POSITIONS,
        num_segments=facts.SEGMENTS,
    )


def electra():
    """(model of tokens, segments, mask, positions: scores of words; of the first three: fakes)."""
    small = backbone(facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
    large = backbone(facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
    tokens, segments, mask = inputs = [small.input[name] for name in NAMES]
    positions = keras.Input((None,), dtype="int32")
    head = keras_hub.layers.MaskedLMHead(
        token_embedding=small.token_embedding,
        intermediate_activation="gelu",
        layer_norm_epsilon=facts.LAYER_NORM_EPSILON,
    )
    words = head(small.output["sequence_output"], positions)

    x = small.embeddings_dropout.output  # the same layers for both
    for layer in large.transformer_layers:
        x = layer(x, padding_mask=mask)
    found = keras.layers.Dense(1)(keras.layers.Dense(facts.WIDTH, activation="gelu")(x))
    return keras.Model([*inputs, positions], words), keras.Model(inputs, found[:, :, 0])


def training(run):
    if run.amp:
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    generator, discriminator = electra()
    both = generator.trainable_variables + discriminator.trainable_variables
    trained = list({id(variable): variable for variable in both}.values())
    nothing = Nothing(trained)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)

    def forward(tokens, segments, mask, positions, labels, chosen):
        words = generator([tokens, segments, mask, positions], training=True)
        words = tf.cast(words, tf.float32)
        language = tf.reduce_sum(chosen * criterion(labels, words)) / tf.reduce_sum(chosen)

        inner = -tf.math.log(tf.random.uniform(tf.shape(words)) + facts.NOISE_EPSILON)
        noise = -tf.math.log(inner + facts.NOISE_EPSILON)
        samples = tf.argmax(tf.stop_gradient(words) + noise, -1, tf.int32)
        # places left over point at the first token, which is never hidden
        samples = tf.where(chosen > 0, samples, labels)
        rows = tf.range(run.batch_size)[:, None] + tf.zeros_like(positions)
        places = tf.stack([rows, positions], -1)
        filled = tf.tensor_scatter_nd_update(tokens, places, samples)
        fake = filled != tf.tensor_scatter_nd_update(tokens, places, labels)
        found = discriminator([filled, segments, mask], training=True)
        fake, found, there = (tf.cast(each, tf.float32) for each in (fake, found, mask))
        each = keras.ops.binary_crossentropy(fake, found, from_logits=True) * there
        share = tf.reduce_sum(each) / tf.reduce_sum(there)
        return language + facts.DISCRIMINATOR_WEIGHT * share

    def train(*batch):
        with tf.GradientTape() as tape:
            value = forward(*batch)
        nothing.apply(map(tf.convert_to_tensor, tape.gradient(value, trained)))
        return value

    arrays = empty(run.batch_size, run.dimensions["sequence_length"])
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
