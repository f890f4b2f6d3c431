"""Google's own BERT for TensorFlow 1, whose layers are ELECTRA's, as ELECTRA's code puts them.

google-research/electra is no package; its model/modeling.py is BERT's with embeddings that two
encoders share, a projection behind them, and the exact GELU. Those are here, with the step of its
run_pretraining.py, both at our sizes. It has no LAMB: the optimizer is off in both.
"""

import math

import numpy as np
import tensorflow as tf
from bert import modeling, run_pretraining
from without_optimizer.tensorflow1 import kept

from dlperf.contract.work import Work
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.electra import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "bert-tensorflow 1.0.4, modeling and run_pretraining's head, in electra's way"
REQUIREMENTS = ["bert-tensorflow==1.0.4"]
WITHOUT_OPTIMIZER = True


def gelu(x):
    return 0.5 * x * (1.0 + tf.erf(x / math.sqrt(2.0)))


def configuration():
    return modeling.BertConfig(
        vocab_size=facts.VOCABULARY,
        hidden_size=facts.WIDTH,
        hidden_act=gelu,
        initializer_range=facts.INITIAL_DEVIATION,
    )


def embedded(tokens, segments):
    """(embeddings of tokens, the table of words), both encoders' own."""
    with tf.variable_scope("electra/embeddings", reuse=tf.AUTO_REUSE):
        x, table = modeling.embedding_lookup(
            tokens,
            facts.VOCABULARY,
            facts.WIDTH,
            facts.INITIAL_DEVIATION,
        )
        x = modeling.embedding_postprocessor(
            x,
            use_token_type=True,
            token_type_ids=segments,
            token_type_vocab_size=facts.SEGMENTS,
            initializer_range=facts.INITIAL_DEVIATION,
            max_position_embeddings=facts.POSITIONS,
            dropout_prob=facts.DROPOUT,
        )
        return x, table


def encoded(x, mask, name, width, heads, inner_width):
    with tf.variable_scope(name):
        if width != facts.WIDTH:
            x = tf.layers.dense(x, width, name="embeddings_project")
        with tf.variable_scope("encoder"):
            return modeling.transformer_model(
                x,
                modeling.create_attention_mask_from_input_mask(x, mask),
                width,
                facts.LAYERS,
                heads,
                inner_width,
                gelu,
                facts.DROPOUT,
                facts.ATTENTION_DROPOUT,
                facts.INITIAL_DEVIATION,
            )


def electra(tokens, segments, mask, positions, labels, chosen):
    """The loss of a batch."""
    x, table = embedded(tokens, segments)
    small = facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH
    x = encoded(x, mask, "generator", *small)
    head = configuration(), x, table, positions, labels, chosen
    generator, _, scores = run_pretraining.get_masked_lm_output(*head)

    noise = tf.random.uniform(modeling.get_shape_list(scores))
    noise = -tf.log(-tf.log(noise + facts.NOISE_EPSILON) + facts.NOISE_EPSILON)
    samples = tf.argmax(tf.stop_gradient(scores) + noise, -1, output_type=tf.int32)
    # places left over point at the first token, which is never hidden
    samples = tf.where(chosen > 0, tf.reshape(samples, labels.shape), labels)
    replaced = put(tokens, positions, samples)
    fake = tf.cast(tf.not_equal(replaced, put(tokens, positions, labels)), tf.float32)

    x, _ = embedded(replaced, segments)
    x = encoded(x, mask, "discriminator", facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
    with tf.variable_scope("discriminator_predictions"):
        normal = modeling.create_initializer(facts.INITIAL_DEVIATION)
        x = tf.layers.dense(x, facts.WIDTH, activation=gelu, kernel_initializer=normal)
        found = tf.squeeze(tf.layers.dense(x, 1), -1)
    there = tf.cast(mask, tf.float32)
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=fake, logits=found) * there
    discriminator = tf.reduce_sum(each) / tf.reduce_sum(there)
    return generator + facts.DISCRIMINATOR_WEIGHT * discriminator


def put(tokens, positions, words):
    """The tokens with these words (batch, places) at these positions."""
    rows = tf.range(int(tokens.shape[0]))[:, None] + tf.zeros_like(positions)
    return tf.tensor_scatter_nd_update(tokens, tf.stack([rows, positions], -1), words)


def training(run):
    with tf.Graph().as_default():
        return built(run)


def built(run):
    batches = open_batches(run)
    inputs = [tf.Variable(each, trainable=False) for each in batches.next()]
    value = electra(*inputs)
    variables = tf.trainable_variables()
    gradients = [tf.convert_to_tensor(each) for each in tf.gradients(value, variables)]
    train = kept(gradients)
    session = tf.Session(config=framework.session_config(run))
    session.run(tf.global_variables_initializer())
    return Work(
        step=session.make_callable([value, train]),
        wait=lambda: None,
        loss=lambda fetched: float(fetched[0]),
        parameters=sum(int(np.prod(v.shape.as_list())) for v in variables),
        batches=batches,
        parity={},
    )
