"""ELECTRA-Base fine-tuned on SQuAD in JAX, with Flax (linen) and Optax.

As fast as it gets: the encoder of frameworks/jax/transformer.py; a start's half of the end's head
once for all tokens.
"""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from dlperf.frameworks.jax import inference as answers
from dlperf.frameworks.jax import training as framework
from dlperf.frameworks.jax.clip import clip
from dlperf.frameworks.jax.transformer import (
    ATTENTION,
    Embeddings,
    Layer,
    cross_entropy,
    dense,
    names,
)
from dlperf.workloads.electra_squad import facts
from dlperf.workloads.electra_squad.input import Batch, empty


class Reader(nn.Module):
    """The loss of a batch, or without training the starts and ends of its answers."""

    dtype: jnp.dtype  # of the computation; None: the parameters'
    training: bool = True

    @nn.compact
    def __call__(self, tokens, segments, mask, allowed, first, last, impossible, windows):
        x = Embeddings(facts, self.dtype, self.training)(tokens, segments)
        mask = (mask > 0)[:, None, None, :]
        for layer in range(facts.LAYERS):
            own = (facts, facts.HEADS, facts.INNER_WIDTH, self.dtype, self.training)
            x = Layer(*own, name="layer%d" % layer)(x, mask)
        x = x.reshape(tokens.shape + (facts.WIDTH,))

        blocked = facts.BLOCKED * (1 - allowed)
        starts = self.without_bias(1, "start")(x)[:, :, 0] - blocked
        logarithms = nn.log_softmax(starts)
        if self.training:
            places = first[:, None]
        else:
            places = jnp.sort(jax.lax.top_k(logarithms, facts.BEAM)[1], 1)
        ends = self.ends(x, places) - blocked[:, None]
        score = self.impossible(x, starts)
        if self.training:
            pieces = cross_entropy(starts, first) + cross_entropy(ends[:, 0], last)
            answer = optax.sigmoid_binary_cross_entropy(score.astype(impossible.dtype), impossible)
            return jnp.mean(pieces / 2 + facts.ANSWERABLE_WEIGHT * answer)
        scores = jnp.concatenate([logarithms[:, None], nn.log_softmax(ends)], 1) * allowed[:, None]
        heads = jnp.concatenate([score[:, None], places], 1).astype(scores.dtype)
        return jnp.concatenate([heads[:, :, None], scores], 2)

    def without_bias(self, outputs, name):
        return nn.Dense(outputs, use_bias=False, dtype=self.dtype, name=name)

    def ends(self, x, places):
        """Scores of the ends that go with these starts: (batch, starts, tokens)."""
        chosen = jnp.take_along_axis(x, places[:, :, None], axis=1)
        own = dense(facts.WIDTH, self.dtype, "end_token")(x)
        hidden = own[:, None] + self.without_bias(facts.WIDTH, "end_start")(chosen)[:, :, None]
        epsilon = facts.LAYER_NORM_EPSILON
        norm = nn.LayerNorm(epsilon=epsilon, use_bias=False, dtype=self.dtype, name="end_norm")
        return self.without_bias(1, "end_output")(norm(jnp.tanh(hidden)))[:, :, :, 0]

    def impossible(self, x, starts):
        """The score of a window without an answer, from the start that is expected and [CLS]."""
        expected = jnp.einsum("bt,btw->bw", nn.softmax(starts).astype(x.dtype), x)
        hidden = jnp.concatenate([expected, x[:, 0]], -1)
        hidden = jnp.tanh(dense(facts.WIDTH, self.dtype, "answer")(hidden))
        return dense(1, self.dtype, "answer_output")(hidden)[:, 0]


def model(run, training=True):
    return Reader(framework.compute_dtype(run), training)


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    example = empty(1, run.dimensions["sequence_length"])
    shapes = framework.shapes_of(run, network, *example)["params"]
    return framework.Weights(run, names(framework.named(shapes)), shapes)


def loss(run, network, parameters, random, *batch):
    """(the network's loss, the next step's random key)"""
    used, random = framework.split_key(run, random)
    return network.apply({"params": parameters}, *batch, rngs={"dropout": used}), random


def slower_below():
    """Changes of each tensor times its share of the rate."""

    def update(changes, state, parameters=None):
        def scaled(path, change):
            return change * facts.rate_share(".".join(part.key for part in path))

        return jax.tree_util.tree_map_with_path(scaled, changes), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def optimizer(run, network):
    def adamw(learning_rate):
        adam = optax.adamw(
            learning_rate,
            facts.BETA1,
            facts.BETA2,
            facts.EPSILON,
            weight_decay=facts.WEIGHT_DECAY,
            mask=framework.decayed,
        )
        return optax.chain(clip(facts.CLIP_NORM), adam, slower_below())

    if facts.schedule(run):  # its state has the rate, which else is a constant of the program
        adamw = optax.inject_hyperparams(adamw)
    return adamw(facts.learning_rate(run.global_batch_size))


def put(run, *batch):
    """A Batch with floats in the model's type."""
    batch, dtype = Batch(*batch), "f8" if run.float64 else "f4"
    floats = {name: getattr(batch, name).astype(dtype) for name in ("allowed", "impossible")}
    return batch._replace(**floats)


def shapes(run, count):
    """Of a batch of `count` windows."""
    batch = empty(count, run.dimensions["sequence_length"])
    return [(each.shape, each.dtype) for each in put(run, *batch)]


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        put,
        carried=framework.first_key(run),
        shapes=shapes(run, run.batch_size * run.data_parallel),
        parity={
            "attention": ATTENTION,
            "optimizer": "optax.adamw, fused by XLA",
            "clip": "global norm, fused by XLA",
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    network = model(run)
    own, given = weights(run, network), shapes(run, run.batch_size)
    parity = {"attention": ATTENTION}
    return answers.infer(run, network, outputs, own, put, given, parity=parity)


def outputs(run, network, parameters, carried, *batch):
    return network.clone(training=False).apply({"params": parameters}, *batch)
