"""A softmax over many classes whose weights ranks share out, in JAX: the pieces of a head.

Each replica has a block of the classes' rows (`Rows`). `gathered` brings the features of all
replicas to each, `cross_entropy` is that of scores of which each rank has its own classes' columns.
A row's gradient is that of the mean loss over the global batch, and is never averaged: training.py
leaves what is a shard alone.

Of a table of which a step takes some rows (`taken`), the gradient is of these rows alone. JAX gives
every parameter a gradient of its own shape, so it is that of another parameter, SAMPLE, of as many
rows as a step takes; `sgd` updates these rows, and the others rest. So no step makes, or reads, an
array of all rows.
"""

import functools
from typing import NamedTuple, Tuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from dlperf.contract.mesh import DATA
from dlperf.contract.run import Unsupported
from dlperf.contract.shards import ROWS, Shard
from dlperf.contract.work import Rows as SparseGradient
from dlperf.frameworks.jax import sparse, training

#: The parameter whose gradient is a sample's: the rows' numbers, and behind each its gradient.
SAMPLE = "sample"
#: Row numbers are exact in float32 below this.
MOST_ROWS = 1 << 24


class Rows(Shard):
    """A rank's block of the rows of a tensor; behind the last rank's there may be rows of nobody,
    which are 0, as all ranks have the same program."""

    def __init__(self, run, name, tensor):
        super().__init__(run, name, tensor)
        self.shape = (self.block, self.width)
        self.together = (run.ranks * self.block, self.width)


class Place(NamedTuple):
    """Where SAMPLE stands among the shards: a rank's shape of it; no trained value."""

    shape: Tuple[int, int]
    by: int = ROWS
    size: int = 0


class Weights(training.Weights):
    """With SAMPLE, where a step takes some rows: it is 0 and stays so."""

    def nested(self, arrays):
        tree = super().nested(arrays)
        if SAMPLE in self.shards:
            tree[SAMPLE] = np.zeros(self.shards[SAMPLE].shape, self.shapes[SAMPLE].dtype)
        return tree


def weights(run, shapes, name, tensor, count=0):
    """The Weights of a network of these shapes and of the classes' Tensor `name` beside it.

    count: how many rows of it a step of a rank takes; 0: all.
    """
    dtype, shape, shards = np.float64 if run.float64 else np.float32, tensor.shape, {}
    if tensor.axis is not None and run.distributed:
        shards[name] = Rows(run, name, tensor)
        shape = shards[name].together
    shapes = dict(shapes, **{name: jax.ShapeDtypeStruct(shape, dtype)})
    names = training.named(shapes)
    if count:
        if shape[0] // run.ranks >= MOST_ROWS:
            raise Unsupported("a rank has %d rows or more, to sample from" % MOST_ROWS)
        place = Place((count, 1 + tensor.shape[1]))
        shards[SAMPLE] = place
        shapes[SAMPLE] = jax.ShapeDtypeStruct((run.ranks * count, place.shape[1]), dtype)
    return Weights(run, names, shapes, shards)


def rank_of(run):
    """This rank's number, in a program that all of them run."""
    return jax.lax.axis_index(DATA) if run.distributed else 0


def gathered(run, features):
    """All replicas' features, those of rank 0 first. Their gradients are added up over ranks, and
    multiplied by how many there are, as training.py averages what comes of them."""
    return gather(features, run.ranks) if run.distributed else features


def gathered_labels(run, labels):
    """All replicas' labels in the same order."""
    return jax.lax.all_gather(labels, DATA, tiled=True) if run.distributed else labels


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def gather(features, ranks):
    """See `gathered`."""
    return jax.lax.all_gather(features, DATA, tiled=True)


def gather_backward(ranks, saved, gradient):
    return (jax.lax.psum_scatter(gradient, DATA, tiled=True) * ranks,)


gather.defvjp(lambda features, ranks: (gather(features, ranks), None), gather_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def cross_entropy(scores, places, ranks):
    """The mean over all rows of scores, of which each of so many ranks has some columns.

    scores: (batch, a rank's classes), -inf in what is none. places: (batch,), the column of a row's
    own class; below 0 where another rank has it. Ranks exchange three numbers a row, once.
    """
    return cross_entropy_forward(scores, places, ranks)[0]


def cross_entropy_forward(scores, places, ranks):
    target = jnp.where(is_own(scores, places), scores, 0).sum(1)
    largest = scores.max(1)
    total = jnp.exp(scores - largest[:, None]).sum(1)
    top = largest
    if ranks > 1:
        found = jnp.stack([largest, total, target])
        tops, totals, targets = jnp.moveaxis(jax.lax.all_gather(found, DATA), 1, 0)
        top = tops.max(0)
        total = (totals * jnp.exp(tops - top)).sum(0)
        target = targets.sum(0)
    return (top + jnp.log(total) - target).mean(), (scores, places, top, total)


def cross_entropy_backward(ranks, saved, gradient):
    scores, places, top, total = saved
    shares = jnp.exp(scores - top[:, None]) / total[:, None]
    less = shares - is_own(scores, places)
    return less * (gradient / len(less)), None


cross_entropy.defvjp(cross_entropy_forward, cross_entropy_backward)


def is_own(scores, places):
    """Which column is of a row's own class: (batch, classes)."""
    return jnp.arange(scores.shape[1]) == places[:, None]


@jax.custom_vjp
def taken(table, sample, rows):
    """Some rows of a table, sorted, each once; 0 for numbers beyond it. sample: SAMPLE."""
    return table.at[rows].get(mode="fill", fill_value=0, indices_are_sorted=True)


def taken_backward(rows, gradient):
    return None, jnp.concatenate([rows.astype(gradient.dtype)[:, None], gradient], 1), None


taken.defvjp(lambda table, sample, rows: (taken(table, sample, rows), rows), taken_backward)


def sampled(random, count, block, rows, most, places):
    """The numbers of `rows` of `count` rows, sorted: all that `places` name, and others at random.

    places: (batch,), below 0 for none. More than `rows` where places name more. `most` numbers are
    given, as shapes are fixed: behind those that are wanted stands `block`, beyond all rows.
    """
    numbers = jnp.arange(block)
    keys = jnp.where(numbers < count, jax.random.uniform(random, (block,)), -1)
    keys = keys.at[jnp.where(places >= 0, places, block)].set(2, mode="drop")
    rows = jnp.maximum(rows, (keys == 2).sum())
    _, chosen = jax.lax.top_k(keys, most)
    return jnp.sort(jnp.where(jnp.arange(len(chosen)) < rows, chosen, block))


class Momentum(NamedTuple):
    """The state of `sgd`."""

    velocities: dict


def sgd(learning_rate, momentum, decay, table=""):
    """Momentum and weight decay of all parameters; of `table`, of the rows that a step takes.

    v = momentum v + g + decay w; w -= rate v. table: the key of the one whose gradient is SAMPLE's;
    given Rows in its place, as they are. Its other rows rest: momentum, decay and all.
    """

    def init(parameters):
        kept = {name: each for name, each in parameters.items() if name != SAMPLE}
        return Momentum(jax.tree.map(jnp.zeros_like, kept))

    def of_one(gradient, velocity, parameter):
        """(the weight's update, its new velocity)"""
        if not sparse.is_rows(gradient):
            velocity = momentum * velocity + gradient + decay * parameter
            return -learning_rate * velocity, velocity
        ids, gradient = gradient
        read = dict(mode="fill", fill_value=0, indices_are_sorted=True)
        moved = momentum * velocity.at[ids].get(**read) + gradient
        moved += decay * parameter.at[ids].get(**read)
        write = dict(mode="drop", indices_are_sorted=True, unique_indices=True)
        return SparseGradient(ids, -learning_rate * moved), velocity.at[ids].set(moved, **write)

    def update(gradients, state, parameters):
        gradients, rest = dict(gradients), {}
        if table:
            sample = gradients.pop(SAMPLE)
            rest[SAMPLE] = jnp.zeros_like(sample)
            if sparse.is_rows(gradients[table]):
                given = sparse.summed(gradients[table], len(parameters[table]))
            else:
                given = sample[:, 0].astype(jnp.int32), sample[:, 1:]
            gradients[table] = SparseGradient(*given)
        kept = {name: parameters[name] for name in gradients}
        leaves, tree = jax.tree.flatten(gradients, sparse.is_rows)
        others = jax.tree.leaves(state.velocities), jax.tree.leaves(kept)
        updates, velocities = (
            jax.tree.unflatten(tree, each) for each in zip(*map(of_one, leaves, *others))
        )
        return dict(updates, **rest), Momentum(velocities)

    return optax.GradientTransformation(init, update)
