"""Tables of which a step touches some rows, in JAX: their gradients, and Adam of those rows.

A table's rows are looked up before the loss is differentiated, so that its gradient is `Rows`: the
ids of a batch, duplicates and all, and a row of numbers for each. A step takes no time for rows
that it does not touch: XLA writes into tables and moments in place, as their memory is donated.
"""

import functools
import math
from typing import Any, Dict, NamedTuple

import jax
import jax.numpy as jnp
import optax

from dlperf.contract.mesh import DATA
from dlperf.contract.shards import COLUMNS
from dlperf.contract.work import Rows


def value_and_gradient(forward, lookups, shards):
    """As jax.value_and_grad(forward, has_aux=True), with Rows as the gradients of tables.

    lookups(batch): the ids of each table by its key in the parameters. forward(parameters, carried,
    batch) finds the rows of those ids where the table would be. shards: key -> the Shard of a table
    that ranks share out; its Rows are the mean over ranks, of the rank's own part.
    """
    gradient = jax.value_and_grad(forward, has_aux=True)

    def found(parameters, carried, batch):
        rows, asked = {}, {}
        for key, ids in lookups(batch).items():
            if key in shards:
                rows[key], asked[key] = lookup(shards[key], parameters[key], ids)
            else:
                rows[key], asked[key] = parameters[key][ids], ids.reshape(-1)
        value, gradients = gradient(dict(parameters, **rows), carried, batch)
        for key, ids in asked.items():
            own = gradients[key].reshape(-1, rows[key].shape[-1])
            if key in shards:
                gradients[key] = given_back(shards[key], ids, own)
            else:
                gradients[key] = Rows(ids, own)
        return value, gradients

    return found


def lookup(shard, part, ids):
    """(the rows of a rank's ids, of which each rank has a part; the ids of all, in this part)"""
    everyone = jax.lax.all_gather(ids.reshape(-1), DATA, tiled=True)
    if shard.by != COLUMNS:  # not shard.first: all ranks have the same program
        everyone = everyone - jax.lax.axis_index(DATA) * shard.block
        mine = (everyone >= 0) & (everyone < shard.block)
        everyone = jnp.where(mine, everyone, shard.block)
    rows = to_and_fro(part[everyone].reshape(shard.ranks, ids.size, -1))
    rows = jnp.moveaxis(rows, 0, 1) if shard.by == COLUMNS else rows.sum(0)
    return rows.reshape(ids.shape + (shard.width,)), everyone


def given_back(shard, everyone, gradient):
    """The gradient of a rank's part, from that (n, width) of its own rows."""
    if shard.by == COLUMNS:
        parts = jnp.moveaxis(gradient.reshape(len(gradient), shard.ranks, -1), 1, 0)
    else:
        parts = jnp.broadcast_to(gradient, (shard.ranks,) + gradient.shape)
    rows = to_and_fro(parts).reshape(len(everyone), -1) / shard.ranks  # losses are means
    if shard.by != COLUMNS:
        rows = jnp.where((everyone < shard.block)[:, None], rows, 0)
    return Rows(everyone, rows)


def to_and_fro(parts):
    """Part r goes to rank r, from which part r of the result comes."""
    return jax.lax.all_to_all(parts, DATA, 0, 0, tiled=True)


def gathered(run, rows):
    """The gradient's mean over ranks: the ids and rows of all, one behind the other."""
    whole = functools.partial(jax.lax.all_gather, axis_name=DATA, tiled=True)
    return Rows(whole(rows.ids), whole(rows.values) / run.ranks)


def is_rows(leaf):
    return isinstance(leaf, Rows)


def adam(learning_rate, beta1, beta2, epsilon):
    """Adam whose epsilon is beside the root of the second moment as it is (facts.EPSILON).

    Kingma and Ba 2015, end of section 2; optax has it beside the root of the corrected one. Where a
    gradient is Rows, those rows are updated, by the sum of what each place gave; the others rest,
    moments and all. Steps are counted for all together.
    """

    def init(parameters):
        zeros = functools.partial(jax.tree.map, jnp.zeros_like)
        return jnp.zeros([], jnp.int32), zeros(parameters), zeros(parameters)

    def update(gradients, state, parameters=None):
        steps, first, second = state
        steps = steps + 1
        # 1 - beta^steps; of powers near 1, a difference in float32 has an error of 1e-5
        correction1, correction2 = (
            -jnp.expm1(steps * jnp.asarray(math.log(beta), float)) for beta in (beta1, beta2)
        )
        rate = learning_rate * jnp.sqrt(correction2) / correction1

        def of_one(g, m, v):
            """(the weight's update, its new moments)"""
            ids = slice(None)
            if is_rows(g):
                ids, g = summed(g, len(m))
            scale = rate.astype(m.dtype)
            new_m = beta1 * m[ids] + (1 - beta1) * g
            new_v = beta2 * v[ids] + (1 - beta2) * jnp.square(g)
            change = -scale * new_m / (jnp.sqrt(new_v) + epsilon)
            if isinstance(ids, slice):
                return change, new_m, new_v
            write = dict(mode="drop", indices_are_sorted=True, unique_indices=True)
            return Rows(ids, change), m.at[ids].set(new_m, **write), v.at[ids].set(new_v, **write)

        leaves, tree = jax.tree.flatten(gradients, is_rows)
        moments = jax.tree.leaves(first), jax.tree.leaves(second)
        updates, first, second = (
            jax.tree.unflatten(tree, each) for each in zip(*map(of_one, leaves, *moments))
        )
        return updates, (steps, first, second)

    return optax.GradientTransformation(init, update)


class Scheduled(NamedTuple):
    """The state of an optimizer whose rate is set from outside."""

    hyperparams: Dict[str, Any]
    inner: Any


def scheduled(at):
    """An optimizer with its `learning_rate` in its state; at(rate) gives it at a rate.

    As optax.inject_hyperparams, which gives a rate the type of the gradients' first array: of Rows
    these are ids.
    """

    def init(parameters):
        return Scheduled({"learning_rate": jnp.zeros([], float)}, at(0.0).init(parameters))

    def update(gradients, state, parameters=None):
        optimizer = at(state.hyperparams["learning_rate"])
        updates, inner = optimizer.update(gradients, state.inner, parameters)
        return updates, Scheduled(state.hyperparams, inner)

    return optax.GradientTransformation(init, update)


def summed(rows, entries):
    """(ids, for each the sum of all its rows): each id once, then ids beyond the table's entries.

    As many as were given: a program's shapes do not depend on what is in a batch.
    """
    count = len(rows.ids)
    ids, place = jnp.unique(rows.ids, return_inverse=True, size=count, fill_value=entries)
    return ids, jax.ops.segment_sum(rows.values, place, count)


def apply_updates(parameters, updates):
    """optax.apply_updates, where updates may be Rows of distinct ids in order."""

    def apply(update, parameter):
        if not is_rows(update):
            return optax.apply_updates(parameter, update)
        return parameter.at[update.ids].add(
            update.values, mode="drop", indices_are_sorted=True, unique_indices=True
        )

    return jax.tree.map(apply, updates, parameters, is_leaf=is_rows)
