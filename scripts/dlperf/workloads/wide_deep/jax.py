"""Wide & Deep in JAX, with Flax (linen).

As fast as it gets: the rows of both tables are looked up before the loss is differentiated, so that
Adam updates, in place, those that a batch looks up. With `adam: dense`, tables are parameters like
others, and so are their gradients; with `tables: sharded`, each rank has a part of them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from dlperf.contract.shards import Shard
from dlperf.frameworks.jax import inference as answers
from dlperf.frameworks.jax import sparse
from dlperf.frameworks.jax import training as framework
from dlperf.workloads.wide_deep import facts
from dlperf.workloads.wide_deep.input import Batch, empty

TABLES = ("wide_embedding", "deep_embedding")


class WideDeep(nn.Module):
    """Logits, from the rows of both tables."""

    dtype: jnp.dtype  # of the computation; None: the parameters'
    layers: int

    @nn.compact
    def __call__(self, numbers, crosses, fields, training=True):
        x = jnp.concatenate([fields.reshape(len(fields), -1), numbers], 1)
        for layer in range(self.layers):
            x = nn.relu(nn.Dense(facts.UNITS, dtype=self.dtype, name="hidden%d" % layer)(x))
            x = nn.Dropout(facts.DROPOUT, deterministic=not training)(x)
        x = nn.Dense(1, dtype=self.dtype, name="output")(x)[:, 0]
        return x.astype(crosses.dtype) + crosses.sum((1, 2))


def model(run):
    return WideDeep(framework.compute_dtype(run), run.dimensions["layers"])


def weights(run, network):
    """The parameters by the names of facts.parameters: those of the network, and the tables."""
    rows = [
        np.empty((1, count, width), np.float32)
        for count, width in ((facts.CROSSES, 1), (facts.FIELDS, run.dimensions["width"]))
    ]
    numbers = np.empty((1, facts.NUMBERS), np.float32)
    shapes = framework.shapes_of(run, network, numbers, *rows)["params"]
    dtype, shards = np.float64 if run.float64 else np.float32, {}
    for name in TABLES:
        known = facts.parameters(run.dimensions)[name]
        shape = known.shape
        if facts.sharded(run.dimensions):
            shards[name] = Shard(run, name, known)
            shape = shards[name].together
        shapes[name] = jax.ShapeDtypeStruct(shape, dtype)
    return framework.Weights(run, framework.named(shapes), shapes, shards)


def lookups(batch):
    """The ids of each table; `batch`: as of Batch."""
    return dict(zip(TABLES, (batch[1], batch[2])))


def loss(run, network, parameters, random, *batch):
    """(the mean loss of a batch, the next step's random key)

    parameters: where tables are sparse, they are the rows that this batch looks up.
    """
    numbers, _, _, labels = batch
    rows = [parameters[name] for name in TABLES]
    if not facts.sparse(run.dimensions):
        rows = looked_up(parameters, batch)
    used, random = framework.split_key(run, random)
    logits = network.apply(dense(parameters), numbers, *rows, rngs={"dropout": used})
    return optax.sigmoid_binary_cross_entropy(logits, labels).mean(), random


def looked_up(tables, batch):
    return [tables[name][ids] for name, ids in lookups(batch).items()]


def dense(parameters):
    """Those of the network."""
    return {"params": {name: each for name, each in parameters.items() if name not in TABLES}}


def outputs(run, network, parameters, carried, *batch):
    rows = looked_up(parameters, batch)
    return network.apply(dense(parameters), batch[0], *rows, training=False)


def optimizer(run, network):
    def at(rate):
        return sparse.adam(rate, facts.BETA1, facts.BETA2, facts.EPSILON)

    if facts.schedule(run):
        return sparse.scheduled(at)
    return at(facts.learning_rate(run.global_batch_size))


def put(run, *batch):
    """A Batch in the types of `shapes`."""
    types = [dtype for _, dtype in shapes(run, len(batch[0]))]
    return Batch(*map(np.asarray, batch, types))


def shapes(run, count):
    """Of a batch of `count` samples: real numbers are in the model's type."""
    real = np.dtype("f8" if run.float64 else "f4")
    batch = empty(count)
    return [(each.shape, real if each.dtype.kind == "f" else each.dtype) for each in batch]


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
        lookups=lookups if facts.sparse(run.dimensions) else None,
        parity={
            "optimizer": "Adam, fused by XLA; of the tables " + run.dimensions["adam"],
            **facts.travel(run, "all-to-all"),
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    network = model(run)
    given = shapes(run, run.batch_size)
    return answers.infer(run, network, outputs, weights(run, network), put, given)
