"""Layers in JAX, with Flax (linen): of an encoder (BERT, Devlin et al. 2018), with its embeddings,
and of a decoder (GPT-2, Radford et al. 2019).

As fast as it gets: one product for query, key and value. Between its layers all tokens are rows of
one matrix, which spares XLA copies for the weights' gradients. Attention is Flax's, which XLA
fuses: cuDNN's fused one has no dropout in JAX. `facts` below are those of a workload: epsilon and
dropout are read when a model is traced.
"""

from types import ModuleType

import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from dlperf.frameworks.jax import inference as answers
from dlperf.frameworks.jax import training as framework
from dlperf.frameworks.jax.clip import clip
from dlperf.frameworks.jax.parallel import RowDense, apart, enter

ATTENTION = "flax.linen.dot_product_attention, fused by XLA"
ADAMW = "optax.adamw, fused by XLA"
CLIP = "global norm, fused by XLA"


def norm(facts, dtype, name):
    return nn.LayerNorm(epsilon=facts.LAYER_NORM_EPSILON, dtype=dtype, name=name)


def gelu(x):
    return nn.gelu(x, approximate=False)


def dense(outputs, dtype, name):
    return nn.Dense(outputs, dtype=dtype, name=name)


class Layer(nn.Module):
    """Attention, then two dense layers; each normalises after its sum."""

    facts: ModuleType
    heads: int
    inner_width: int
    dtype: jnp.dtype
    training: bool

    @nn.compact
    def __call__(self, x, mask):
        """x (batch x tokens, width); mask (batch, 1, 1, tokens), true where there is a token."""
        facts, width = self.facts, x.shape[1]
        dropout = nn.Dropout(facts.DROPOUT, deterministic=not self.training)
        qkv = dense(3 * width, self.dtype, "qkv")(x)
        query, key, value = (
            part.reshape(len(mask), -1, self.heads, width // self.heads)
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
        mixed = dense(width, self.dtype, "projection")(mixed.reshape(x.shape))
        x = norm(facts, self.dtype, "norm1")(x + dropout(mixed))
        inner = gelu(dense(self.inner_width, self.dtype, "ffn1")(x))
        inner = dense(width, self.dtype, "ffn2")(inner)
        return norm(facts, self.dtype, "norm2")(x + dropout(inner))


class DecoderLayer(nn.Module):
    """Causal attention, then two dense layers; each normalises its input.

    ranks: of the tensor group, which divides heads and the inner layer. Of a rank's own query, key
    and value each stands in one piece.
    """

    facts: ModuleType
    heads: int
    tokens: int  # of a sequence
    dtype: jnp.dtype
    training: bool
    ranks: int = 1

    @nn.compact
    def __call__(self, x):
        """x (batch x tokens, width)"""
        facts, width = self.facts, x.shape[1]
        dropout = nn.Dropout(facts.DROPOUT, deterministic=not self.training)
        normed = enter(norm(facts, self.dtype, "norm1")(x), self.ranks)
        qkv = dense(3 * width // self.ranks, self.dtype, "qkv")(normed)
        query, key, value = (
            part.reshape(-1, self.tokens, self.heads // self.ranks, width // self.heads)
            for part in jnp.split(qkv, 3, axis=-1)
        )
        mixed = nn.dot_product_attention(
            query,
            key,
            value,
            mask=jnp.tril(jnp.ones((1, 1, self.tokens, self.tokens), bool)),
            dropout_rate=facts.ATTENTION_DROPOUT,
            dropout_rng=apart(self.make_rng("dropout"), self.ranks) if self.training else None,
            broadcast_dropout=False,
            deterministic=not self.training,
            dtype=self.dtype,
        )
        mixed = mixed.reshape(len(x), width // self.ranks)
        x = x + dropout(RowDense(width, self.dtype, self.ranks, name="projection")(mixed))
        normed = enter(norm(facts, self.dtype, "norm2")(x), self.ranks)
        inner = dense(4 * width // self.ranks, self.dtype, "ffn1")(normed)
        inner = nn.gelu(inner, approximate=True)
        return x + dropout(RowDense(width, self.dtype, self.ranks, name="ffn2")(inner))


class Embeddings:
    """The three tables, and what stands behind their sum; made inside a module, whose they are.

    Rows are taken in the parameters' own type, and gradients summed in it: in bfloat16 a sum of
    thousands is off by per cents, and on a GPU its atomic additions wait for each other. Only the
    words' rows are looked up; the other tables' gradients are plain sums.
    """

    def __init__(self, facts, dtype, training):
        def table(entries, name):
            return nn.Embed(entries, facts.WIDTH, name=name)

        self.words = table(facts.VOCABULARY, "word_embedding")
        self.segments = table(facts.SEGMENTS, "segment_embedding")
        self.positions = table(facts.POSITIONS, "position_embedding")
        self.dtype = dtype
        self.norm = norm(facts, dtype, "embedding_norm")
        self.dropout = nn.Dropout(facts.DROPOUT, deterministic=not training)

    def __call__(self, tokens, segments):
        """(batch, tokens) -> (batch x tokens, width)"""
        first, second = self.segments.embedding
        x = self.words(tokens) + jnp.where(segments[..., None] > 0, second, first)
        x = x + self.positions.embedding[: tokens.shape[1]]
        x = self.dropout(self.norm(x))
        return x.reshape(-1, x.shape[-1])

    def scores(self, hidden, padding=0):
        """Products with the words' rows, then zeros: (..., width) -> (..., vocabulary + padding)"""
        table = jnp.pad(self.words.embedding, ((0, padding), (0, 0)))
        hidden, table = nn.dtypes.promote_dtype(hidden, table, dtype=self.dtype)
        return hidden @ table.T


def cross_entropy(logits, labels):
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def names(named):
    """training.named, with tables by their layer's name."""
    return {name.replace("embedding.embedding", "embedding"): key for name, key in named.items()}


def weights(run, network, empty):
    """The parameters by the names of facts.parameters. empty(batch size, sequence length): arrays
    of a batch."""
    example = empty(1, run.dimensions["sequence_length"])
    shapes = framework.shapes_of(run, network, *example)["params"]
    return framework.Weights(run, names(framework.named(shapes)), shapes)


def loss(run, network, parameters, random, *batch):
    """(the network's loss, the next step's random key)"""
    used, random = framework.split_key(run, random)
    return network.apply({"params": parameters}, *batch, rngs={"dropout": used}), random


def adamw(run, facts, clip_norm, *behind):
    """AdamW behind a clip, if there is one; behind: transformations of its changes."""

    def made(learning_rate):
        adam = optax.adamw(
            learning_rate,
            facts.BETA1,
            facts.BETA2,
            facts.EPSILON,
            weight_decay=facts.WEIGHT_DECAY,
            mask=framework.decayed,
        )
        before = [clip(clip_norm)] if clip_norm else []
        return optax.chain(*before, adam, *behind) if before or behind else adam

    if facts.schedule(run):  # its state has the rate, which else is a constant of the program
        made = optax.inject_hyperparams(made)
    return made(facts.learning_rate(run.global_batch_size))


def put(run, *batch):
    """The arrays of a batch, those that are no integers in the model's type."""
    dtype = np.float64 if run.float64 else np.float32
    return tuple(each.astype(dtype) if each.dtype == np.float32 else each for each in batch)


def shapes(run, empty, count):
    """Of a batch of `count` sequences."""
    batch = empty(count, run.dimensions["sequence_length"])
    return [(each.shape, each.dtype) for each in put(run, *batch)]


def train(run, network, loss, optimizer, weights, empty, parity, **more):
    """training.train; parity: what records say beside the attention."""
    return framework.train(
        run,
        network,
        loss,
        optimizer,
        weights,
        put,
        carried=framework.first_key(run),
        shapes=shapes(run, empty, run.batch_size * run.data_parallel),
        parity=dict({"attention": ATTENTION}, **parity),
        **more,
    )


def infer(run, network, outputs, weights, empty):
    given, parity = shapes(run, empty, run.batch_size), {"attention": ATTENTION}
    return answers.infer(run, network, outputs, weights, put, given, parity=parity)
