"""A model split over ranks in JAX: by tensors and by layers.

All ranks run one program over a mesh of them (shard_map), in which arrays are a rank's own parts.
What Megatron-LM does between the parts of a tensor group (Shoeybi et al. 2019, section 3) stands
here as functions that a model calls: `enter`, `leave`, a divided table, a divided cross-entropy.
The pipeline is GPipe's (Huang et al. 2019): all forward passes, then all backward passes.
"""

import math
from typing import Any, Callable, Dict, NamedTuple, Tuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import Mesh, PartitionSpec

from dlperf import workloads
from dlperf.contract import tensor
from dlperf.contract.mesh import DATA, PIPELINE, TENSOR
from dlperf.contract.ownership import Part
from dlperf.contract.run import Unsupported

#: The axes of the mesh, the outermost first: ranks are numbered so (contract/mesh.py).
AXES = PIPELINE, DATA, TENSOR


def refuse(run):
    """Raise Unsupported for a layout that is not to be had."""
    if run.layout.zero_stage:
        raise Unsupported("JAX's replicas do not share the optimizer's state here: no ZeRO")


def device_mesh(run):
    """All ranks' devices, with the axes of contract/mesh.py."""
    grid = run.mesh
    devices = np.array(jax.devices()).reshape(grid.pipeline, grid.data, grid.tensor)
    return Mesh(devices, AXES)


# Inside a model: `ranks` is the size of the tensor group, 1 where nothing is divided.


@jax.custom_vjp
def _enter(x):
    return x


@jax.custom_vjp
def _leave(x):
    return jax.lax.psum(x, TENSOR)


_enter.defvjp(lambda x: (x, None), lambda _, gradient: (jax.lax.psum(gradient, TENSOR),))
_leave.defvjp(lambda x: (jax.lax.psum(x, TENSOR), None), lambda _, gradient: (gradient,))


def enter(x, ranks):
    """What each rank has, before its own part of a product; its gradient is the sum over ranks."""
    return x if ranks == 1 else _enter(x)


def leave(x, ranks):
    """The sum over ranks of their parts of a product; each rank has its gradient."""
    return x if ranks == 1 else _leave(x)


class RowDense(nn.Module):
    """A dense layer whose inputs are divided: (…, inputs / ranks) -> (…, outputs) on each rank."""

    outputs: int
    dtype: jnp.dtype
    ranks: int

    @nn.compact
    def __call__(self, x):
        zeros = nn.initializers.zeros  # all weights are written
        kernel = self.param("kernel", zeros, (x.shape[-1], self.outputs))
        bias = self.param("bias", zeros, (self.outputs,))
        x, kernel, bias = nn.dtypes.promote_dtype(x, kernel, bias, dtype=self.dtype)
        return leave(x @ kernel, self.ranks) + bias


def own_entries(ids, count):
    """(ids among a rank's own `count` entries, whether each is): of others, the id is 0."""
    ids = ids - jax.lax.axis_index(TENSOR) * count
    is_own = (ids >= 0) & (ids < count)
    return jnp.where(is_own, ids, 0), is_own


def looked_up(table, ids, ranks):
    """The rows of these ids, of a table (entries / ranks, width)."""
    if ranks == 1:
        return table[ids]
    ids, is_own = own_entries(ids, len(table))
    return leave(jnp.where(is_own[..., None], table[ids], 0), ranks)


def cross_entropy(scores, labels, ranks):
    """That of each label (n,) by the scores (n, entries / ranks), in float32 or a wider type."""
    scores = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
    if ranks == 1:
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels)
    largest = jax.lax.pmax(jax.lax.stop_gradient(scores.max(-1)), TENSOR)
    scores = scores - largest[:, None]
    labels, is_own = own_entries(labels, scores.shape[-1])
    hits = jnp.where(is_own, jnp.take_along_axis(scores, labels[:, None], -1)[:, 0], 0)
    return jnp.log(leave(jnp.exp(scores).sum(-1), ranks)) - leave(hits, ranks)


def apart(key, ranks):
    """A key of each rank's own, for dropout of what is divided; of all else, they drop the same."""
    return key if ranks == 1 else jax.random.fold_in(key, jax.lax.axis_index(TENSOR))


def in_tensor_group(run, function):
    """`function` where its shapes alone are asked for: outside of the program, on no rank."""
    ranks = run.mesh.tensor
    if ranks == 1:
        return function
    return jax.vmap(function, in_axes=None, out_axes=None, axis_name=TENSOR, axis_size=ranks)


# Around a model: who has what.


class Split(NamedTuple):
    """What a rank has of a split model, whose tree of parameters all ranks have alike.

    A program is the same on all ranks, so each has room for what only some stages have; elsewhere
    that is zeros, which no other rank reads, and whose gradients are zeros.

    names: canonical name -> key, of what this rank owns. parts: canonical name -> its Part.
    shapes: key -> shape of the rank's own array. specs: key -> how these are one array of all.
    tied: keys of what several stages have.
    """

    names: Dict[str, str]
    parts: Dict[str, Part]
    shapes: Dict[str, Tuple[int, ...]]
    specs: Dict[str, PartitionSpec]
    tied: Tuple[str, ...]


def split(run, named, shapes, first_layer):
    """The Split of a network, or None where a rank has the whole model.

    named: canonical name -> key, of the network of a stage, whose layers are numbered from 0.
    shapes: the network's, nested dicts. first_layer: the number of the stage's first one.
    """
    if not run.mesh.is_split:
        return None
    tensors = workloads.of(run.workload).parameters(run.dimensions)
    stages = workloads.stages(run.workload, run.dimensions, run.mesh.pipeline)
    parts = {part.name: part for part in workloads.parts_of(run)}
    flat = flatten_dict(shapes, sep=".")
    renamed = {_in_model(name, first_layer): key for name, key in named.items()}
    return Split(
        names={name: key for name, key in renamed.items() if name in parts},
        parts=parts,
        shapes={key: flat[key].shape for key in named.values()},
        specs={key: _spec(run, tensors[name]) for name, key in named.items()},
        tied=tuple(key for name, key in named.items() if len(stages[name]) > 1),
    )


def _in_model(name, first_layer):
    """layer0.qkv.weight of a stage whose first layer is 2 -> layer2.qkv.weight."""
    if not name.startswith("layer"):
        return name
    number, _, rest = name[len("layer") :].partition(".")
    return "layer%d.%s" % (first_layer + int(number), rest)


def _spec(run, known):
    """How the ranks' own arrays of a Tensor are one array: tensor groups by the axis that they
    divide, stages one behind the other."""
    axes = [[] for _ in known.shape]
    if run.mesh.pipeline > 1:
        axes[0].append(PIPELINE)
    if run.mesh.tensor > 1 and known.axis is not None:
        # a dense weight is (inputs, outputs) here
        axes[1 - known.axis if known.kind == tensor.DENSE else known.axis].append(TENSOR)
    return PartitionSpec(*(tuple(each) or None for each in axes))


def together(run, shapes, specs):
    """Nested shapes of a rank's own arrays -> those of all ranks'. specs: by key."""
    grid = run.mesh

    def of_all(key, leaf):
        sides = [
            side * math.prod(getattr(grid, axis) for axis in axes)
            for side, axes in zip(leaf.shape, _axes(specs[key]))
        ]
        return jax.ShapeDtypeStruct(sides, leaf.dtype)

    flat = flatten_dict(shapes, sep=".")
    return unflatten_dict({key: of_all(key, leaf) for key, leaf in flat.items()}, sep=".")


def divides(spec):
    """Whether a tensor group divides what has this spec."""
    return any(TENSOR in axes for axes in _axes(spec))


def _axes(spec):
    """The names of a spec's axes, for each side: a PartitionSpec has one alone as itself."""
    return [(each,) if isinstance(each, str) else each or () for each in spec]


# In the step: gradients.


def sum_over_stages(weights, gradients):
    """Gradients in which that of a tensor of several stages is the sum of theirs.

    Stages between them add zeros, and get a sum that they have no use for.
    """
    flat = flatten_dict(gradients, sep=".")
    for key in weights.split.tied:
        flat[key] = jax.lax.psum(flat[key], PIPELINE)
    return unflatten_dict(flat, sep=".")


def norm(run, weights):
    """A function of gradients: the norm of all of the model, each value counted once."""
    if not run.mesh.is_split:
        return optax.tree.norm
    known = weights.split

    def norm_of_all(gradients):
        first_of_group = jax.lax.axis_index(TENSOR) == 0
        first_stage = jax.lax.axis_index(PIPELINE) == 0
        squares = 0.0
        for key, gradient in flatten_dict(gradients, sep=".").items():
            square = jnp.sum(jnp.square(gradient))
            if not divides(known.specs[key]):
                square = jnp.where(first_of_group, square, 0)
            if key in known.tied:  # what only one stage has is zeros in the others
                square = jnp.where(first_stage, square, 0)
            squares += square
        return jnp.sqrt(jax.lax.psum(squares, (TENSOR, PIPELINE)))

    return norm_of_all


class Stages(NamedTuple):
    """A network as a pipeline runs it; `parameters` are those of this rank.

    first(parameters, key, *inputs): the first layer's input, of a batch's arrays but its last one;
    samples stand one behind the other in it. layers(parameters, key, x): what a stage's layers make
    of it. last(parameters, x, labels): the mean loss of a micro-batch, of what the last layer gives
    and the batch's last array. ends: keys of the parameters that `last` takes, on the tree's first
    level.
    """

    first: Callable[..., Any]
    layers: Callable[..., Any]
    last: Callable[..., Any]
    ends: Tuple[str, ...]


def pipelined(run, stages, parameters, key, batches):
    """(the mean loss, gradients of it) of all micro-batches of an update; the loss is the last
    stage's.

    In tick t, stage s computes micro-batch t - s and sends the result to the next stage. All stages
    run one program, so each computes its layers in every tick: before its first micro-batch and
    after its last one it computes what no stage reads, and whose gradients are zeros, instead of
    waiting. Only the stages that have them compute the embedding and the head (lax.cond).
    """
    stage, count, micro = jax.lax.axis_index(PIPELINE), run.mesh.pipeline, len(batches)
    is_first, is_last = stage == 0, stage == count - 1
    *inputs, labels = (jnp.stack(each) for each in zip(*batches))
    merged = [each.reshape(-1, *each.shape[2:]) for each in inputs]

    # The embedding takes all micro-batches at once: inside of the ticks, each would add a gradient
    # as large as the table.
    def entered(parameters):
        x = stages.first(parameters, jax.random.fold_in(key, 0), *merged)
        return x.reshape(micro, -1, *x.shape[1:])

    blank = jax.eval_shape(entered, parameters)
    blank = jnp.zeros(blank.shape, blank.dtype)

    def forward(parameters):
        """The last layer's outputs for each micro-batch; on all but the last stage, others."""
        start = jax.lax.cond(is_first, entered, lambda _: blank, parameters)
        start = jnp.concatenate([start, jnp.zeros_like(blank, shape=(count - 1, *blank.shape[1:]))])

        def tick(coming, given):
            number, own = given
            x = jnp.where(is_first, own, coming)
            x = stages.layers(parameters, jax.random.fold_in(key, number), x)
            behind = [(source, source + 1) for source in range(count - 1)]
            return jax.lax.ppermute(x, PIPELINE, behind), x

        numbers = 1 + jnp.arange(len(start))
        _, left = jax.lax.scan(tick, blank[0], (numbers, start))
        return left[count - 1 :]

    left, backward = jax.vjp(forward, parameters)

    # The head: its gradients are taken at once and not with those of the layers, so that only one
    # micro-batch's scores are in memory.
    ends = {name: parameters[name] for name in stages.ends}
    head = jax.value_and_grad(stages.last, (0, 1))

    def losses(ends, left):
        """(sum of losses, its gradients by the head's parameters, by each micro-batch's x)"""

        def add(sums, given):
            value, (own, x) = head(ends, *given)
            return jax.tree.map(jnp.add, sums, (value, own)), x

        nothing = jax.tree.map(jnp.zeros_like, (jnp.zeros((), loss_type), ends))
        (value, own), x = jax.lax.scan(add, nothing, (left, labels))
        return value, own, x

    loss_type = jax.eval_shape(stages.last, ends, left[0], labels[0]).dtype
    shapes = jax.eval_shape(losses, ends, left)

    def no_losses(*_):
        return jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), shapes)

    value, own, x = jax.lax.cond(is_last, losses, no_losses, ends, left)

    # The layers and the embedding, from the last tick to the first.
    (gradients,) = backward(x)
    gradients = dict(
        gradients,
        **{name: jax.tree.map(jnp.add, gradients[name], own[name]) for name in stages.ends},
    )
    return value / micro, jax.tree.map(lambda each: each / micro, gradients)
