"""Transformers' FlaxBertForPreTraining, trained as its `run_mlm_flax.py` does, with Optax.

One jitted step with its state donated, `optax.adamw` after `optax.clip_by_global_norm`. The model
gives logits at every position, as published; the loss is taken of the predicted ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from contestant import answering
from transformers import BertConfig
from transformers.models.bert.modeling_flax_bert import FlaxBertForPreTrainingModule, FlaxBertModule

from dlperf.contract.work import Work, feed
from dlperf.workloads.bert import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "transformers 4.57.6, FlaxBertForPreTraining"
REQUIREMENTS = "transformers-jax.txt"


def training(run):
    config = BertConfig(layer_norm_eps=facts.LAYER_NORM_EPSILON)  # BERT-Base is its default
    network = FlaxBertForPreTrainingModule(config, jnp.bfloat16 if run.amp else jnp.float32)

    def forward(parameters, random, batch):
        tokens, segments, mask, positions, labels, predicted, follows = batch
        words, pairs = network.apply(
            {"params": parameters},
            tokens,
            mask,
            segments,
            jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape),
            None,  # no head is masked
            deterministic=False,
            return_dict=False,
            rngs={"dropout": random},
        )
        words = jnp.take_along_axis(words, positions[:, :, None], axis=1)
        language = cross_entropy(words, labels) * predicted
        return language.sum() / predicted.sum() + cross_entropy(pairs, follows).mean()

    adam = optax.adamw(
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        weight_decay=facts.WEIGHT_DECAY,
        mask=lambda tree: jax.tree.map(lambda p: p.ndim > 1, tree),
    )
    if run.dimensions["clip"]:
        adam = optax.chain(optax.clip_by_global_norm(facts.CLIP_NORM), adam)

    def train(parameters, state, random, *batch):
        random, used = jax.random.split(random)
        value, gradients = jax.value_and_grad(forward)(parameters, used, batch)
        updates, state = adam.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, random, value

    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: jax.device_put(batch))
    random = jax.random.key(run.seed)
    row = np.ones((1, run.dimensions["sequence_length"]), np.int32)
    parameters = jax.jit(network.init)(random, row, row, row, row, None)["params"]
    state = jax.jit(adam.init)(parameters)
    program = jax.jit(train, donate_argnums=(0, 1, 2))

    def step():
        nonlocal parameters, state, random
        parameters, state, random, value = program(parameters, state, random, *next_batch())
        return value

    return Work(
        step=step,
        wait=lambda: jax.block_until_ready(parameters),
        loss=float,
        parameters=sum(p.size for p in jax.tree.leaves(parameters)),
        batches=batches,
        parity={},
    )


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels)


def inference(run):
    """FlaxBertModel in evaluation mode, jitted, the weights as arguments."""
    config = BertConfig(layer_norm_eps=facts.LAYER_NORM_EPSILON)  # BERT-Base is its default
    network = FlaxBertModule(config, add_pooling_layer=False)
    row = np.ones((1, run.dimensions["sequence_length"]), np.int32)
    random = jax.random.key(run.seed)
    parameters = jax.jit(network.init)(random, row, row, row, row, None)["params"]

    def forward(parameters, tokens, segments, mask):
        places = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
        given = tokens, mask, segments, places, None
        return network.apply({"params": parameters}, *given, deterministic=True)[0]

    program = jax.jit(forward)

    def answer(tokens, segments, mask, *_):
        return np.asarray(program(parameters, *jax.device_put((tokens, segments, mask))))

    return answering(run, "NHWC", sum(p.size for p in jax.tree.leaves(parameters)), answer)
