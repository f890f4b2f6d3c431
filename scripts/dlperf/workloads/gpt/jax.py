"""GPT pre-training in JAX, with Flax (linen) and Optax.

As fast as it gets: the decoder of frameworks/jax/transformer.py, a clip that XLA fuses into the
update. A rank has the layers of its stage, and its part of what frameworks/jax/parallel.py divides.
"""

import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from dlperf.frameworks.jax import inference as answers
from dlperf.frameworks.jax import parallel
from dlperf.frameworks.jax import training as framework
from dlperf.frameworks.jax.clip import clip
from dlperf.frameworks.jax.transformer import ATTENTION, DecoderLayer, names, norm
from dlperf.workloads.gpt import facts
from dlperf.workloads.gpt.input import Batch


class GPT(nn.Module):
    """The loss of a batch; without training, scores of the token that follows each sequence.

    Of a model that is split by layers it has a stage's, and the embeddings and the last norm on
    every rank: parallel.Split. Between layers all tokens are rows of one matrix.
    """

    dtype: jnp.dtype  # of the computation; None: the parameters'
    width: int
    layers: int
    heads: int
    tokens: int
    ranks: int  # of the tensor group
    checkpointing: bool
    training: bool

    def setup(self):
        self.word_embedding = nn.Embed(facts.VOCABULARY // self.ranks, self.width)
        self.position_embedding = nn.Embed(self.tokens, self.width)
        self.dropout = nn.Dropout(facts.DROPOUT, deterministic=not self.training)
        kind = nn.remat(DecoderLayer) if self.checkpointing else DecoderLayer
        own = (facts, self.heads, self.tokens, self.dtype, self.training, self.ranks)
        for layer in range(self.layers):
            setattr(self, "layer%d" % layer, kind(*own))
        self.norm = norm(facts, self.dtype, None)

    def embed(self, tokens):
        """(batch, tokens) -> (batch x tokens, width)

        In the parameters' own type, in which gradients of rows are summed.
        """
        x = parallel.looked_up(self.word_embedding.embedding, tokens, self.ranks)
        x = self.dropout(x + self.position_embedding.embedding[: tokens.shape[1]])
        return x.reshape(-1, self.width).astype(self.dtype or x.dtype)

    def decode(self, x):
        """What this stage's layers make of it."""
        for layer in range(self.layers):
            x = getattr(self, "layer%d" % layer)(x)
        return x

    def scores(self, x):
        """(n, width) -> (n, vocabulary / ranks)"""
        x, table = nn.dtypes.promote_dtype(
            self.norm(x), self.word_embedding.embedding, dtype=self.dtype
        )
        return parallel.enter(x, self.ranks) @ table.T

    def loss(self, x, labels):
        """The mean cross-entropy of all next tokens."""
        return parallel.cross_entropy(self.scores(x), labels.reshape(-1), self.ranks).mean()

    def __call__(self, tokens, labels):
        x = self.decode(self.embed(tokens))
        if self.training:
            return self.loss(x, labels)
        return self.scores(x.reshape(*tokens.shape, -1)[:, -1])


def model(run, training=True):
    sizes = run.dimensions
    return GPT(
        dtype=framework.compute_dtype(run),
        width=sizes["width"],
        layers=len(layers(run)),
        heads=sizes["heads"],
        tokens=sizes["sequence_length"],
        ranks=run.mesh.tensor,
        checkpointing=run.layout.activation_checkpointing,
        training=training,
    )


def layers(run):
    """The numbers of the layers of this rank's stage."""
    return facts.layers_of_stage(run.dimensions, run.coordinates.pipeline, run.mesh.pipeline)


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    example = np.zeros((1, run.dimensions["sequence_length"]), np.int32)
    shapes = framework.shapes_of(run, network, example, example)["params"]
    named = names(framework.named(shapes))
    split = parallel.split(run, named, shapes, layers(run)[0])
    if split:
        named, shapes = split.names, parallel.together(run, shapes, split.specs)
    return framework.Weights(run, named, shapes, split=split)


def loss(run, network, parameters, random, *batch):
    """(the network's loss, the next step's random key)"""
    used, random = framework.split_key(run, random)
    return network.apply({"params": parameters}, *batch, rngs={"dropout": used}), random


def stages(network):
    """The network as a pipeline runs it."""

    def first(parameters, key, tokens):
        rngs = {"dropout": key}
        return network.apply({"params": parameters}, tokens, rngs=rngs, method="embed")

    def decode(parameters, key, x):
        return network.apply({"params": parameters}, x, rngs={"dropout": key}, method="decode")

    def last(parameters, x, labels):
        return network.apply({"params": parameters}, x, labels, method="loss")

    return parallel.Stages(first, decode, last, ends=("word_embedding", "norm"))


def optimizer(run, network):
    adamw = optax.adamw(
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        weight_decay=facts.WEIGHT_DECAY,
        mask=framework.decayed,
    )
    norm_of_all = parallel.norm(run, weights(run, network))
    return optax.chain(clip(facts.CLIP_NORM, norm_of_all), adamw)


def put(run, *batch):
    return Batch(*batch)


def shapes(run, count):
    """Of a batch of `count` sequences."""
    return 2 * [((count, run.dimensions["sequence_length"]), np.int32)]


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
        stages=stages(network),
        parity={
            "attention": ATTENTION + ", causal",
            "optimizer": "optax.adamw, fused by XLA",
            "clip": "global norm, fused by XLA",
        },
    )


def inference(run):
    network = model(run, training=False)
    own, given = weights(run, network), shapes(run, run.batch_size)
    parity = {"attention": ATTENTION + ", causal"}
    return answers.infer(run, network, outputs, own, put, given, parity=parity)


def outputs(run, network, parameters, carried, *batch):
    return network.apply({"params": parameters}, *batch)
