"""A training in JAX whose batches change their shape while it runs, on one set of weights.

As training.train, whose program is compiled ahead and takes one shape: here is a program for each
shape, all compiled ahead, which hand weights, the optimizer's state and random keys on to each
other where they are. The batch says which one runs.
"""

import functools

import jax
import numpy as np

from dlperf import workloads
from dlperf.contract.work import Work, feed, restartable, scheduled
from dlperf.frameworks import half
from dlperf.frameworks.jax import parallel, training
from dlperf.workloads.inputs import open_batches


def train(run, network, loss, optimizer, weights, put, carried, shapes, parity, schedule, outputs):
    """(the Work of training `network`, what makes its optimizer count its steps anew).

    As training.train, for the quality scenario of a model that is not split; shapes: a list of such
    lists as it takes, the first phase's first.
    """
    parallel.refuse(run)
    exchange = training.Exchange(run)
    moments = jax.eval_shape(optimizer.init, weights.shapes)
    # as long as they are not written, parameters are shapes
    parameters, spread = exchange.spread(weights.shapes, weights.specs)
    moments, spread_moments = exchange.spread(moments, weights.specs)

    def start_of_state():
        return jax.tree.map(exchange.zeros, moments)

    state, carried = start_of_state(), exchange.put(carried, exchange.same)
    batches = open_batches(run)
    next_batch = feed(
        batches,
        lambda *batch: exchange.put(tuple(put(run, *batch)), exchange.own),
        jax.block_until_ready,
    )
    step_of_rank = functools.partial(
        training.update, run, network, loss, optimizer, None, weights, None
    )
    program = exchange.over_ranks(step_of_rank, spread, spread_moments)
    program = jax.jit(program, donate_argnums=(0, 1, 2))
    compiled = {}
    for each in shapes:
        batch = tuple(exchange.batch_shape(*array) for array in each)
        given = (parameters, state, carried, (batch,) * run.accumulation)
        compiled[shape_of(batch)] = program.lower(*given).compile()
    training.meet(run, "compiled")

    def step():
        nonlocal parameters, state, carried
        taken = tuple(next_batch() for _ in range(run.accumulation))
        own = compiled[shape_of(taken[0])]
        parameters, state, carried, value = own(parameters, state, carried, taken)
        return value

    def write(made):
        nonlocal parameters
        parameters = None  # there need not be room for both
        parameters = exchange.put(made(), spread)

    def forget():
        nonlocal state
        state = None
        state = start_of_state()

    def count_anew():
        nonlocal state

        def anew(path, leaf):
            if path[-1] != jax.tree_util.GetAttrKey("count"):
                return leaf
            return exchange.put(np.zeros(leaf.shape, leaf.dtype), exchange.same)

        state = jax.tree_util.tree_map_with_path(anew, state)

    weights.connect(lambda: parameters, write, lambda: carried)
    first, *_ = compiled.values()
    work = Work(
        step=step,
        wait=lambda: jax.block_until_ready(parameters),
        loss=lambda value: value.addressable_data(0).item(),
        parameters=weights.count(),
        batches=batches,
        parity=dict(
            training.read_back(run, first),
            loss_scaling="none",
            compute_dtype=half(run) if run.amp else "float64" if run.float64 else "float32",
            random_bits=training.generator(run),
            **parity,
        ),
        weights=weights,
    )
    work = restartable(work, forget, workloads.running_at_start(run))
    test = jax.jit(training.forward_pass(run, network, outputs))  # the first one compiles it

    def set_rate(rate):
        there = state.hyperparams["learning_rate"]
        state.hyperparams["learning_rate"] = exchange.put(
            np.asarray(rate, there.dtype), exchange.same
        )

    def evaluate(*batch):
        # by itself: of what ranks have in common, its own copy
        own = jax.tree.map(lambda leaf: leaf.addressable_data(0), (parameters, carried))
        return np.asarray(test(*own, *put(run, *batch)))

    return scheduled(work, schedule, set_rate, evaluate), count_anew


def shape_of(batch):
    return tuple(each.shape for each in batch)
