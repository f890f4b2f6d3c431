"""Google's own BERT for TensorFlow 1 (google-research/bert), its pre-training heads and optimiser.

Exact GELU in place of the approximation by tanh, and a constant rate; all else as it ships. Its
AdamW has no bias correction, and decays by name what ours decays by dimensions.
"""

import math

import numpy as np
import tensorflow as tf
from bert import modeling, optimization, run_pretraining
from contestant import answering
from deployed.tensorflow1 import frozen

from dlperf.contract.work import Work
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.bert import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "bert-tensorflow 1.0.4, modeling, run_pretraining's heads, AdamWeightDecayOptimizer"
REQUIREMENTS = ["bert-tensorflow==1.0.4"]


def gelu(x):
    return 0.5 * x * (1.0 + tf.erf(x / math.sqrt(2.0)))


def configuration():
    return modeling.BertConfig(
        vocab_size=facts.VOCABULARY,
        hidden_size=facts.WIDTH,
        num_hidden_layers=facts.LAYERS,
        num_attention_heads=facts.HEADS,
        intermediate_size=facts.INNER_WIDTH,
        hidden_act=gelu,
        hidden_dropout_prob=facts.DROPOUT,
        attention_probs_dropout_prob=facts.DROPOUT,
        max_position_embeddings=facts.POSITIONS,
        type_vocab_size=facts.SEGMENTS,
        initializer_range=facts.INITIAL_DEVIATION,
    )


def training(run):
    with tf.Graph().as_default():
        return built(run)


def built(run):
    batches = open_batches(run, "NHWC")
    inputs = [tf.Variable(each, trainable=False) for each in batches.next()]
    tokens, segments, mask, positions, labels, predicted, follows = inputs
    config = configuration()
    model = modeling.BertModel(config, True, tokens, mask, segments)
    language = run_pretraining.get_masked_lm_output(
        config,
        model.get_sequence_output(),
        model.get_embedding_table(),
        positions,
        labels,
        predicted,
    )[0]
    pairs = run_pretraining.get_next_sentence_output(config, model.get_pooled_output(), follows)[0]
    value = language + pairs
    adam = optimization.AdamWeightDecayOptimizer(
        learning_rate=facts.learning_rate(run.global_batch_size),
        weight_decay_rate=facts.WEIGHT_DECAY,
        beta_1=facts.BETA1,
        beta_2=facts.BETA2,
        epsilon=facts.EPSILON,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
    )
    variables = tf.trainable_variables()
    gradients = tf.gradients(value, variables)
    if run.dimensions["clip"]:
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm=facts.CLIP_NORM)
    train = adam.apply_gradients(zip(gradients, variables))  # noqa: B905 (Python 3.7)
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


def inference(run):
    """BertModel as a frozen graph, fed by placeholders."""
    shape = [run.batch_size, run.dimensions["sequence_length"]]
    with tf.Graph().as_default():
        inputs = [tf.placeholder(tf.int32, shape) for _ in range(3)]
        tokens, segments, mask = inputs
        model = modeling.BertModel(configuration(), False, tokens, mask, segments)
        call, parameters = frozen(run, inputs, model.get_sequence_output())
    return answering(run, "NHWC", parameters, lambda *batch: call(*batch[:3]))
