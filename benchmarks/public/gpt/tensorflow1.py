"""OpenAI's GPT-2 for TensorFlow 1 (openai/gpt-2, model.py), as gpt-2-simple ships and trains it.

The model as it ships has no dropout, which makes it less work than ours. Its training has Adam
without decay, and no clip: here gradients are clipped by their global norm, as TensorFlow does it.
gpt-2-simple is for TensorFlow 2, in its compatible mode; its model runs in TensorFlow 1 too, and is
imported without the rest.
"""

import importlib.util
import sys

import numpy as np
import tensorflow as tf

from dlperf.contract.work import Work
from dlperf.frameworks.tensorflow1 import training as framework
from dlperf.workloads.gpt import facts
from dlperf.workloads.inputs import open_batches

# gpt_2_simple without its __init__, which imports downloads and tokenizers
NAME = "gpt_2_simple"
sys.modules[NAME] = importlib.util.module_from_spec(importlib.util.find_spec(NAME))

from gpt_2_simple.src import model as gpt2  # noqa: E402

SOURCE = "gpt-2-simple 0.8.1, openai/gpt-2's model; tf.train.AdamOptimizer"
REQUIREMENTS = ["gpt-2-simple==0.8.1"]


def training(run):
    with tf.Graph().as_default():
        return built(run)


def built(run):
    sizes, batches = run.dimensions, open_batches(run)
    tokens, labels = [tf.Variable(each, trainable=False) for each in batches.next()]
    shape = gpt2.HParams(
        n_vocab=facts.VOCABULARY,
        n_ctx=sizes["sequence_length"],
        n_embd=sizes["width"],
        n_head=sizes["heads"],
        n_layer=sizes["layers"],
    )
    scores = gpt2.model(hparams=shape, X=tokens)["logits"]
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    value = tf.reduce_mean(entropy(labels=labels, logits=scores))
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(value, variables), facts.CLIP_NORM)
    adam = tf.train.AdamOptimizer(
        facts.learning_rate(run.global_batch_size), facts.BETA1, facts.BETA2, facts.EPSILON
    )
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
