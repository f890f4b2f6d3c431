"""Inference in JAX: what all workloads do alike.

One program for the forward pass, compiled ahead; weights and statistics are its arguments and stay
on the device. Every rank infers by itself, on its own device.
"""

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from dlperf.contract.work import Inference, Queued, feed
from dlperf.frameworks.jax.training import forward_pass, read_back
from dlperf.workloads.inputs import open_batches


def infer(run, network, outputs, weights, put, shapes, carried=None, layout="", parity=None):
    """The Inference of `network`, in evaluation mode.

    outputs(run, network, parameters, carried, *batch): a batch's outputs. carried: what they take
    beside the weights (statistics), as it starts. shapes: of a rank's batch, [(shape, type)]. put,
    layout: as of training.train.
    """
    here = SingleDeviceSharding(jax.local_devices()[0])
    parameters, carried = None, jax.device_put(carried, here)
    queued = Queued(np.asarray)

    def shape(leaf):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here)

    batch = [jax.ShapeDtypeStruct(*each, sharding=here) for each in shapes]
    given = jax.tree.map(shape, (weights.shapes, carried))
    compiled = jax.jit(forward_pass(run, network, outputs)).lower(*given, *batch).compile()
    batches = open_batches(run, layout)

    def to_device(*batch):
        return jax.device_put(tuple(put(run, *batch)), here)

    next_batch = feed(batches, to_device, jax.block_until_ready)

    def step():
        found = compiled(parameters, carried, *next_batch())
        found.copy_to_host_async()
        return queued.add(found)

    def write(made):
        nonlocal parameters
        parameters = jax.device_put(made(), here)

    def write_carried(tree):
        nonlocal carried
        carried = jax.device_put(tree, here)

    weights.connect(lambda: parameters, write, lambda: carried, write_carried)
    return Inference(
        step=step,
        wait=queued.wait,
        outputs=queued.outputs,
        answer=lambda *batch: np.asarray(compiled(parameters, carried, *to_device(*batch))),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(weights.shapes)),
        batches=batches,
        parity=dict(
            read_back(run, compiled),
            inference="jit, compiled ahead, weights as arguments",
            outputs_copied="while it computes",
            compute_dtype="bfloat16" if run.amp else "float32",
            **parity or {},
        ),
        weights=weights,
    )
