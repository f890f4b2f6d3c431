"""Transformers' FlaxElectraForMaskedLM and FlaxElectraForPreTraining, jitted as one step.

Transformers has no loop for both: this is that of electra_pytorch (see pytorch.py), which shares
the embeddings, takes the generator's words at all positions and picks the hidden ones. Sizes are
ours. The optimizer is off in both: Optax's own LAMB is another one.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from transformers import ElectraConfig
from transformers.models.electra.modeling_flax_electra import (
    FlaxElectraForMaskedLMModule,
    FlaxElectraForPreTrainingModule,
)

from dlperf.contract.work import Work, feed
from dlperf.workloads.electra import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "transformers 4.57.6, FlaxElectraForMaskedLM and FlaxElectraForPreTraining"
REQUIREMENTS = "transformers-jax.txt"
WITHOUT_OPTIMIZER = True


def configuration(width, heads, inner_width):
    return ElectraConfig(
        vocab_size=facts.VOCABULARY,
        embedding_size=facts.WIDTH,
        hidden_size=width,
        num_hidden_layers=facts.LAYERS,
        num_attention_heads=heads,
        intermediate_size=inner_width,
        hidden_dropout_prob=facts.DROPOUT,
        attention_probs_dropout_prob=facts.DROPOUT,
        layer_norm_eps=facts.LAYER_NORM_EPSILON,
    )


def training(run):
    dtype = jnp.bfloat16 if run.amp else jnp.float32
    small = facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH
    generator = FlaxElectraForMaskedLMModule(configuration(*small), dtype)
    large = facts.WIDTH, facts.HEADS, facts.INNER_WIDTH
    discriminator = FlaxElectraForPreTrainingModule(configuration(*large), dtype)

    def call(network, parameters, random, tokens, segments, mask):
        places = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
        found = network.apply(
            {"params": parameters},
            tokens,
            mask,
            segments,
            places,
            None,  # no head is masked
            deterministic=False,
            return_dict=False,
            rngs={"dropout": random},
        )
        return found[0].astype(jnp.float32)

    def forward(parameters, random, batch):
        tokens, segments, mask, positions, labels, chosen = batch
        first, second, third = jax.random.split(random, 3)
        words = call(generator, parameters["generator"], first, tokens, segments, mask)
        words = jnp.take_along_axis(words, positions[:, :, None], axis=1)
        each = optax.softmax_cross_entropy_with_integer_labels(words, labels)
        language = jnp.sum(each * chosen) / jnp.sum(chosen)

        uniform = jax.random.uniform(second, words.shape)
        noise = -jnp.log(-jnp.log(uniform + facts.NOISE_EPSILON) + facts.NOISE_EPSILON)
        samples = jnp.argmax(jax.lax.stop_gradient(words) + noise, -1).astype(tokens.dtype)
        # places left over point at the first token, which is never hidden
        samples = jnp.where(chosen > 0, samples, labels)
        rows = jnp.arange(len(tokens))[:, None]
        replaced = tokens.at[rows, positions].set(samples)
        fake = replaced != tokens.at[rows, positions].set(labels)
        found = call(discriminator, shared(parameters), third, replaced, segments, mask)
        each = optax.sigmoid_binary_cross_entropy(found, fake)
        return language + facts.DISCRIMINATOR_WEIGHT * jnp.sum(each * mask) / jnp.sum(mask)

    @jax.jit
    def train(parameters, random, *batch):
        random, used = jax.random.split(random)
        return random, jax.value_and_grad(forward)(parameters, used, batch)

    def first(network, seed):
        row = np.ones((1, run.dimensions["sequence_length"]), np.int32)
        random = jax.random.key(seed)
        return jax.jit(network.init)(random, row, row, row, row, None)["params"]

    parameters = {
        "generator": first(generator, run.seed),
        "discriminator": first(discriminator, run.seed + 1),
    }
    del parameters["discriminator"]["electra"]["embeddings"]
    batches = open_batches(run)
    next_batch = feed(batches, lambda *batch: jax.device_put(batch))
    random, gradients = jax.random.key(run.seed), None

    def step():
        nonlocal random, gradients
        random, (value, gradients) = train(parameters, random, *next_batch())
        return value

    return Work(
        step=step,
        wait=lambda: jax.block_until_ready(gradients),
        loss=float,
        parameters=sum(p.size for p in jax.tree.leaves(parameters)),
        batches=batches,
        parity={},
    )


def shared(parameters):
    """The discriminator's own, with the generator's embeddings."""
    own = parameters["discriminator"]
    embeddings = parameters["generator"]["electra"]["embeddings"]
    return dict(own, electra=dict(own["electra"], embeddings=embeddings))
