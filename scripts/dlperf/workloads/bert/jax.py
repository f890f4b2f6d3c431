"""BERT-Base pre-training in JAX, with Flax (linen) and Optax.

As fast as it gets: one product for query, key and value; the decoder at predicted positions only.
Between its layers all tokens are rows of one matrix, which spares XLA copies for the weights'
gradients. Attention is Flax's, which XLA fuses: cuDNN's fused one has no dropout in JAX.
"""

import jax.numpy as jnp
import optax
from flax import linen as nn

from dlperf.data import text
from dlperf.frameworks.jax import inference as answers
from dlperf.frameworks.jax import training as framework
from dlperf.workloads.bert import facts

ATTENTION = "flax.linen.dot_product_attention, fused by XLA"


def norm(dtype, name):
    return nn.LayerNorm(epsilon=facts.LAYER_NORM_EPSILON, dtype=dtype, name=name)


def gelu(x):
    return nn.gelu(x, approximate=False)


def dense(outputs, dtype, name):
    return nn.Dense(outputs, dtype=dtype, name=name)


class Layer(nn.Module):
    dtype: jnp.dtype
    training: bool

    @nn.compact
    def __call__(self, x, mask):
        dropout = nn.Dropout(facts.DROPOUT, deterministic=not self.training)
        qkv = dense(3 * facts.WIDTH, self.dtype, "qkv")(x)
        query, key, value = (
            part.reshape(len(mask), -1, facts.HEADS, facts.HEAD_WIDTH)
            for part in jnp.split(qkv, 3, axis=-1)
        )
        mixed = nn.dot_product_attention(
            query,
            key,
            value,
            mask=mask,
            dropout_rate=facts.ATTENTION_DROPOUT,
            dropout_rng=self.make_rng("dropout") if self.training else None,
            broadcast_dropout=False,  # Flax's default drops the same shares of every head
            deterministic=not self.training,
            dtype=self.dtype,
        )
        mixed = dense(facts.WIDTH, self.dtype, "projection")(mixed.reshape(x.shape))
        x = norm(self.dtype, "norm1")(x + dropout(mixed))
        inner = gelu(dense(facts.INNER_WIDTH, self.dtype, "ffn1")(x))
        inner = dense(facts.WIDTH, self.dtype, "ffn2")(inner)
        return norm(self.dtype, "norm2")(x + dropout(inner))


class Bert(nn.Module):
    """The loss of a batch: masked words and sentence pairs. Without training, the encoder alone,
    or for tests what the masked words' softmax takes."""

    dtype: jnp.dtype  # of the computation; None: the parameters'
    training: bool = True
    tests: bool = False

    @nn.compact
    def __call__(self, tokens, segments, mask, positions, labels, predicted, follows):
        def embed(entries, name):
            return nn.Embed(entries, facts.WIDTH, dtype=self.dtype, name=name)

        words = embed(facts.VOCABULARY, "word_embedding")
        x = words(tokens) + embed(facts.SEGMENTS, "segment_embedding")(segments)
        x = x + embed(facts.POSITIONS, "position_embedding")(jnp.arange(tokens.shape[1]))
        x = norm(self.dtype, "embedding_norm")(x)
        x = nn.Dropout(facts.DROPOUT, deterministic=not self.training)(x)
        x = x.reshape(-1, facts.WIDTH)  # a token a row
        mask = (mask > 0)[:, None, None, :]
        for layer in range(facts.LAYERS):
            x = Layer(self.dtype, self.training, name="layer%d" % layer)(x, mask)

        x = x.reshape(tokens.shape + (facts.WIDTH,))
        if not (self.training or self.tests):
            return x
        hidden = jnp.take_along_axis(x, positions[:, :, None], axis=1)
        hidden = gelu(dense(facts.WIDTH, self.dtype, "mlm")(hidden))
        hidden = norm(self.dtype, "mlm_norm")(hidden)
        bias = self.param("mlm_bias", nn.initializers.zeros, (facts.VOCABULARY,))
        if self.tests:
            return words.attend(hidden) + bias
        pooled = jnp.tanh(dense(facts.WIDTH, self.dtype, "pooler")(x[:, 0]))
        each = cross_entropy(words.attend(hidden) + bias, labels)
        language = jnp.sum(each * predicted) / jnp.sum(predicted)
        pairs = dense(2, self.dtype, "nsp")(pooled)
        return language + cross_entropy(pairs, follows).mean()


def cross_entropy(logits, labels):
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def model(run, training=True):
    return Bert(framework.compute_dtype(run), training)


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    example = text.empty(1, run.dimensions["sequence_length"])
    shapes = framework.shapes_of(run, network, *example)["params"]
    named = framework.named(shapes).items()
    names = {name.replace("embedding.embedding", "embedding"): key for name, key in named}
    return framework.Weights(names, shapes)


def loss(run, network, parameters, random, *batch):
    """(the network's loss, the next step's random key)"""
    used, random = framework.split_key(run, random)
    return network.apply({"params": parameters}, *batch, rngs={"dropout": used}), random


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
        return optax.chain(clip(facts.CLIP_NORM), adam) if run.dimensions["clip"] else adam

    if facts.schedule(run):  # its state has the rate, which else is a constant of the program
        adamw = optax.inject_hyperparams(adamw)
    return adamw(facts.learning_rate(run.global_batch_size))


def clip(most):
    """Gradients times min(1, most / their norm), as a factor that XLA fuses into the update.

    optax.clip_by_global_norm divides each by the norm, which XLA writes out: on a CPU, it takes a
    fifth of the step.
    """

    def update(gradients, state, parameters=None):
        factor = jnp.minimum(1, most / optax.tree.norm(gradients))
        return optax.tree.scale(factor, gradients), state

    return optax.GradientTransformation(optax.init_empty_state, update)


def put(run, *batch):
    """A text.Batch with `predicted` in the model's type."""
    batch = text.Batch(*batch)
    return batch._replace(predicted=batch.predicted.astype("f8" if run.float64 else "f4"))


def shapes(run, count):
    """Of a batch of `count` sequences."""
    batch = text.empty(count, run.dimensions["sequence_length"])
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
            "clip": "global norm, fused by XLA" if run.dimensions["clip"] else "none",
        },
        schedule=facts.schedule(run),
        outputs=tested,
    )


def inference(run):
    own = weights(run, model(run))  # the whole model's; the encoder takes what it has a use for
    network = model(run, training=False)
    given = shapes(run, run.batch_size)
    parity = {"attention": ATTENTION}
    return answers.infer(run, network, outputs, own, put, given, parity=parity)


def outputs(run, network, parameters, carried, *batch):
    return network.apply({"params": parameters}, *batch)


def tested(run, network, parameters, carried, *batch):
    """Of a training to a quality: what the masked words' softmax takes."""
    network = network.clone(training=False, tests=True)
    return network.apply({"params": parameters}, *batch)
