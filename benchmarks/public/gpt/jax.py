"""Transformers' FlaxGPT2LMHeadModel, trained as its `run_clm_flax.py` does, with Optax.

One jitted step with its state donated, `optax.adamw` with its mask, here after a clip by the global
norm. Its `gelu_new` is GPT-2's form by tanh, its head the word embedding, as ours.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from transformers import GPT2Config
from transformers.models.gpt2.modeling_flax_gpt2 import FlaxGPT2LMHeadModule

from dlperf.contract.work import Work, feed
from dlperf.workloads.gpt import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "transformers 4.57.6, FlaxGPT2LMHeadModel"
REQUIREMENTS = "transformers-jax.txt"


def training(run):
    sizes = run.dimensions
    config = GPT2Config(
        vocab_size=facts.VOCABULARY,
        n_positions=sizes["sequence_length"],
        n_embd=sizes["width"],
        n_layer=sizes["layers"],
        n_head=sizes["heads"],
        resid_pdrop=facts.DROPOUT,
        embd_pdrop=facts.DROPOUT,
        attn_pdrop=facts.ATTENTION_DROPOUT,
        layer_norm_epsilon=facts.LAYER_NORM_EPSILON,
    )
    network = FlaxGPT2LMHeadModule(config, jnp.bfloat16 if run.amp else jnp.float32)

    def forward(parameters, random, tokens, labels):
        (scores,) = network.apply(
            {"params": parameters},
            tokens,
            jnp.ones_like(tokens),  # its default: a mask of padding that hides nothing
            jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape),
            deterministic=False,
            return_dict=False,
            rngs={"dropout": random},
        )
        entropy = optax.softmax_cross_entropy_with_integer_labels
        return entropy(scores.astype(jnp.float32), labels).mean()

    adam = optax.adamw(
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        weight_decay=facts.WEIGHT_DECAY,
        mask=lambda tree: jax.tree.map(lambda p: p.ndim > 1, tree),
    )
    adam = optax.chain(optax.clip_by_global_norm(facts.CLIP_NORM), adam)

    def train(parameters, state, random, *batch):
        random, used = jax.random.split(random)
        value, gradients = jax.value_and_grad(forward)(parameters, used, *batch)
        updates, state = adam.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, random, value

    batches = open_batches(run)
    next_batch = feed(batches, lambda *batch: jax.device_put(batch))
    random = jax.random.key(run.seed)
    row = np.ones((1, sizes["sequence_length"]), np.int32)
    parameters = jax.jit(network.init)(random, row, row, row)["params"]
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
