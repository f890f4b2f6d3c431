"""Training in JAX with Flax and Optax: what all workloads do alike.

One program a step (forward, backward, all-reduce, update), compiled ahead, its state donated. Over
several ranks it runs by `shard_map`, so that each computes by itself and gradients are averaged;
parallel.py has what the ranks of a split model exchange beside that.
"""

import collections
import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec

from dlperf import workloads
from dlperf.contract import layouts
from dlperf.contract.mesh import DATA, PIPELINE
from dlperf.contract.run import Unsupported
from dlperf.contract.shards import COLUMNS
from dlperf.contract.tensor import is_large
from dlperf.contract.work import (
    Rows,
    Table,
    Work,
    as_array,
    feed,
    parts,
    restartable,
    scheduled,
    table,
)
from dlperf.frameworks import half
from dlperf.frameworks.jax import parallel, sparse
from dlperf.workloads.inputs import open_batches

BUCKET_BYTES = 25 * 2**20  # that are exchanged at a time, as PyTorch's DDP does


def train(
    run,
    network,
    loss,
    optimizer,
    weights,
    put,
    carried,
    shapes,
    layout="",
    parity=None,
    schedule=None,
    outputs=None,
    lookups=None,
    stages=None,
):
    """The Work of training `network`.

    loss(run, network, parameters, carried, *batch) -> (mean loss of a batch, carried): `carried` is
    what goes from one step to the next beside the weights (statistics, a random key), its first
    value an argument. put(run, *arrays): a loader's batch in the types that the program takes.
    shapes: of a micro-step's batch over all ranks, [(shape, type)]. layout: of a loader's images.
    schedule: a rate for each step, of the quality scenario, whose optimizer is one of
    optax.inject_hyperparams with a `learning_rate`, or of sparse.scheduled; outputs: as of
    inference.infer. lookups: of tables with sparse gradients, as of sparse.value_and_gradient.
    stages: the network's parallel.Stages, which a pipeline needs.
    """
    parallel.refuse(run)
    exchange = Exchange(run)
    moments = jax.eval_shape(optimizer.init, weights.shapes)
    # as long as they are not written, parameters are shapes
    parameters, spread = exchange.spread(weights.shapes, weights.specs)
    moments, spread_moments = exchange.spread(moments, weights.specs)

    def start_of_state():
        return jax.tree.map(exchange.zeros, moments)

    state, carried = start_of_state(), exchange.put(carried, exchange.same)
    batches = open_batches(run, layout)
    next_batch = feed(
        batches,
        lambda *batch: exchange.put(tuple(put(run, *batch)), exchange.own),
        jax.block_until_ready,
    )

    step_of_rank = functools.partial(
        update, run, network, loss, optimizer, lookups, weights, stages
    )
    program = exchange.over_ranks(step_of_rank, spread, spread_moments)
    program = jax.jit(program, donate_argnums=(0, 1, 2))
    # by its shapes alone: the first batch belongs to the first step
    batch = tuple(exchange.batch_shape(*each) for each in shapes)
    compiled = program.lower(parameters, state, carried, (batch,) * run.accumulation).compile()
    meet(run, "compiled")

    def step():
        nonlocal parameters, state, carried
        taken = tuple(next_batch() for _ in range(run.accumulation))
        parameters, state, carried, value = compiled(parameters, state, carried, taken)
        return value

    def write(made):
        nonlocal parameters
        parameters = None  # there need not be room for both
        parameters = exchange.put(made(), spread)

    def write_carried(tree):
        nonlocal carried
        carried = dict(carried, **exchange.put(tree, exchange.same))  # random numbers go on

    def forget():
        nonlocal state
        state = None
        state = start_of_state()

    weights.connect(lambda: parameters, write, lambda: carried, write_carried)
    has_loss = run.coordinates.pipeline == run.mesh.pipeline - 1
    work = Work(
        step=step,
        wait=lambda: jax.block_until_ready(parameters),
        loss=lambda value: value.addressable_data(0).item() if has_loss else None,
        parameters=weights.count(),
        batches=batches,
        parity=dict(
            read_back(run, compiled),
            loss_scaling="none",
            compute_dtype=half(run) if run.amp else "float64" if run.float64 else "float32",
            random_bits=generator(run),
            **parity or {},
        ),
        weights=weights,
    )
    work = restartable(work, forget, workloads.running_at_start(run))
    if not schedule:
        return work
    test = jax.jit(forward_pass(run, network, outputs))  # the first one compiles it

    def set_rate(rate):
        there = state.hyperparams["learning_rate"]
        state.hyperparams["learning_rate"] = exchange.put(
            np.asarray(rate, there.dtype), exchange.same
        )

    def evaluate(*batch):
        # by itself: of what ranks have in common, its own copy
        own = jax.tree.map(lambda leaf: leaf.addressable_data(0), (parameters, carried))
        return np.asarray(test(*own, *put(run, *batch)))

    return scheduled(work, schedule, set_rate, evaluate)


def forward_pass(run, network, outputs):
    """A function of parameters, what is carried and a batch's arrays: its outputs."""

    def forward(parameters, carried, *batch):
        found = outputs(run, network, parameters, carried, *batch)
        return found.astype(jnp.promote_types(found.dtype, jnp.float32))  # NumPy has no bfloat16

    return forward


def update(
    run, network, loss, optimizer, lookups, weights, stages, parameters, state, carried, batches
):
    """The step on one rank: (parameters, state, carried, loss) after an update on `batches`."""
    shards = weights.shards

    def forward(parameters, carried, batch):
        return loss(run, network, parameters, carried, *batch)

    gradient = jax.value_and_grad(forward, has_aux=True)
    if lookups:
        gradient = sparse.value_and_gradient(forward, lookups, shards)

    def micro_step(sums, batch):
        gradients, carried, value = sums
        (more, carried), own = gradient(parameters, carried, batch)
        return (jax.tree.map(jnp.add, gradients, own), carried, value + more), None

    if run.mesh.pipeline > 1:
        used, carried = split_key(run, carried)
        value, gradients = parallel.pipelined(run, stages, parameters, used, batches)
    elif run.accumulation == 1:
        (value, carried), gradients = gradient(parameters, carried, batches[0])
    else:
        (value, carried), gradients = gradient(parameters, carried, batches[0])
        rest = jax.tree.map(lambda *each: jnp.stack(each), *batches[1:])
        # XLA keeps what two forward passes give if it may begin the second one early
        rest, gradients = jax.lax.optimization_barrier((rest, gradients))
        sums, _ = jax.lax.scan(micro_step, (gradients, carried, value), rest)
        gradients, carried, value = sums
        gradients = jax.tree.map(lambda each: each / run.accumulation, gradients)
        value = value / run.accumulation
    if run.mesh.pipeline > 1:
        gradients = parallel.sum_over_stages(weights, gradients)
    if run.data_parallel > 1:
        there = {key: gradients.pop(key) for key in shards}  # the mean already
        gradients = dict(mean_of_all(run, gradients), **there)
    updates, state = optimizer.update(gradients, state, parameters)
    return sparse.apply_updates(parameters, updates), state, carried, value[None]


def mean_over_ranks(run, gradients):
    """The means of arrays over replicas, in few exchanges."""
    if not run.cuda:  # on a CPU XLA combines none: twice the time
        return mean_of_flat(gradients)
    # On a GPU it combines those of one layout, and every convolution's kernel may have its own.
    kernels = [each for each in gradients if each.ndim == 4]
    means = [mean for bucket in buckets(kernels) for mean in mean_of_flat(bucket)]
    kernels, others = iter(means), [each for each in gradients if each.ndim != 4]
    others = iter(jax.lax.pmean(others, DATA))
    return [next(kernels if each.ndim == 4 else others) for each in gradients]


def mean_of_flat(arrays):
    flat, split = ravel_pytree(arrays)
    return split(jax.lax.pmean(flat, DATA))


def buckets(arrays):
    """Lists of arrays one behind the other, each of BUCKET_BYTES or more but for the last."""
    found, size = [[]], 0
    for each in arrays:
        if size >= BUCKET_BYTES:
            found.append([])
            size = 0
        found[-1].append(each)
        size += each.nbytes
    return found if arrays else []


def mean_of_all(run, gradients):
    """mean_over_ranks, where gradients of tables may be Rows."""
    leaves, tree = jax.tree.flatten(gradients, sparse.is_rows)
    whole = iter(mean_over_ranks(run, [each for each in leaves if not sparse.is_rows(each)]))
    means = [sparse.gathered(run, each) if sparse.is_rows(each) else next(whole) for each in leaves]
    return jax.tree.unflatten(tree, means)


class Exchange:
    """Arrays and programs on one rank, or over a mesh of them."""

    #: What is the same everywhere, of a replica, of a rank.
    same, own, apart = PartitionSpec(), PartitionSpec(DATA), PartitionSpec(parallel.AXES)

    def __init__(self, run):
        self._run = run
        self._mesh = parallel.device_mesh(run) if run.distributed else None

    def _sharding(self, spec):
        return NamedSharding(self._mesh, spec) if self._mesh else None

    def over_ranks(self, step, parameters, state):
        """parameters, state: the specs of both, as of `spread`."""
        if not self._mesh:
            return step
        return jax.shard_map(
            step,
            mesh=self._mesh,
            in_specs=(parameters, state, self.same, self.own),
            out_specs=(parameters, state, self.same, self.apart),
            # What is carried stands under `same`, but may be each rank's own (batch-norm's
            # statistics); and JAX would add up the gradients itself, one by one.
            check_vma=False,
        )

    def put(self, tree, specs):
        """NumPy arrays of this rank -> arrays on its device. specs: one, or a tree of them."""
        if not self._mesh:
            return jax.device_put(tree)

        def make(array, spec):
            return jax.make_array_from_process_local_data(self._sharding(spec), array)

        if isinstance(specs, PartitionSpec):
            return jax.tree.map(lambda array: make(array, specs), tree)
        return jax.tree.map(make, tree, specs)

    def spread(self, tree, specs):
        """(shapes of all ranks' arrays, the spec of each), of parameters or an optimizer's state.

        specs: key of a parameter -> its spec, of those that are not the same on all ranks; what an
        optimizer keeps of a parameter lies as it does.
        """

        def spec(path, leaf):
            names = [part.key for part in path if isinstance(part, jax.tree_util.DictKey)]
            return specs.get(".".join(names), self.same)

        specs = jax.tree_util.tree_map_with_path(spec, tree)
        return jax.tree.map(self._shape, tree, specs), specs

    def _shape(self, leaf, spec):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=self._sharding(spec))

    def zeros(self, leaf):
        """An array of this shape."""
        if not self._mesh:
            return jnp.zeros(leaf.shape, leaf.dtype)
        own = np.zeros(leaf.sharding.shard_shape(leaf.shape), leaf.dtype)
        return self.put(own, leaf.sharding.spec)

    def batch_shape(self, shape, dtype):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=self._sharding(self.own))


def meet(run, name):
    """Return when every rank is here; no collective may start while a rank still compiles.

    The first one connects the ranks and gives up after 30 seconds.
    """
    from jax._src import distributed

    if run.distributed:
        distributed.global_state.client.wait_at_barrier(name, timeout_in_ms=3600 * 1000)


def read_back(run, compiled):
    """What XLA made of the step; raises Unsupported where it is not what the case says."""
    program = compiled.as_text()
    if jax.config.jax_disable_jit:
        raise Unsupported("JAX_DISABLE_JIT is set: nothing is compiled")
    if run.amp and "bf16[" not in program:  # the one narrow type that it has here
        raise Unsupported("XLA computes in float32 on this device, bfloat16 has no effect")
    return {"compiler_detail": "one program: " + counts(program)}


def counts(program):
    """How many instructions of some kinds XLA's text of a program has.

    On a GPU, convolutions, products and attention may be calls of libraries: then their names are
    said. An all-reduce may be a start and a done.
    """
    kinds = ("fusion", "convolution", "dot", "all-reduce")
    found = [
        "%d %ss" % (len(re.findall(" %s(?:-start)?\\(" % kind, program)), kind) for kind in kinds
    ]
    calls = collections.Counter(re.findall('custom_call_target="([^"]+)"', program))
    return ", ".join(found + ["%d %s" % (calls[name], name) for name in sorted(calls)])


def compute_dtype(run):
    """What a model computes in; None: in its parameters' type."""
    return jnp.dtype(half(run)) if run.amp else None


def shapes_of(run, network, *example):
    """Shapes and types of a network's variables, from a batch of one sample (NumPy arrays).

    Of a split model, those of a rank's own arrays.
    """
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(0)}
    shapes = jax.eval_shape(parallel.in_tensor_group(run, network.init), keys, *example)
    dtype = np.float64 if run.float64 else np.float32
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype), shapes)


def generator(run):
    """Of random numbers for dropout: the faster one of the device."""
    return "rbg" if run.cuda else "threefry2x32"


def first_key(run):
    """The random key that a training starts with, as data."""
    return np.asarray(jax.random.key_data(jax.random.key(run.seed, impl=generator(run))))


def split_key(run, data):
    """(a key for this rank's micro-step, the next one's as data).

    The ranks of a tensor group have the same one: parallel.apart.
    """
    used, following = jax.random.split(jax.random.wrap_key_data(data, impl=generator(run)))
    if run.data_parallel > 1:
        used = jax.random.fold_in(used, jax.lax.axis_index(DATA))
    if run.mesh.pipeline > 1:
        used = jax.random.fold_in(used, jax.lax.axis_index(PIPELINE))
    return used, jax.random.key_data(following)


def decayed(parameters):
    """A mask of what weight decay is on: dense weights, kernels and embeddings."""
    return jax.tree.map(lambda p: p.ndim > 1, parameters)


class Weights:
    """A tree of parameters by canonical name.

    names: canonical name -> its key in the tree, such as "block0.conv1.kernel". shapes: the tree's,
    with types, nested dicts. shards: of the tables that ranks share out, by name, which is the key;
    their shapes are those of all parts together. split: the parallel.Split of a model of which this
    rank has a part; shapes are those of all ranks' together, and names those of what it owns.
    `connect` says where the tree is while it is trained: write(made) makes the next one when it has
    let go of the last.
    """

    def __init__(self, run, names, shapes, shards=None, split=None):
        self._kinds = workloads.kinds(run)
        self.names, self.shapes, self.shards, self.split = names, shapes, shards or {}, split
        self._tree = self._write = self._carried = self._write_carried = None

    def connect(self, tree, write, carried, write_carried=None):
        self._tree, self._write, self._carried = tree, write, carried
        self._write_carried = write_carried

    def statistics(self):
        """Of flax.linen.BatchNorm, which are carried from step to step, where the model has it."""
        carried = self._carried()
        kept = carried.get("batch_stats", {}) if isinstance(carried, dict) else {}
        flat = flatten_dict(kept, sep=".")
        for key, leaf in flat.items():
            yield key.replace(".var", ".variance"), np.asarray(leaf.addressable_data(0))

    def read(self):
        return self.arrays(self._tree())

    @property
    def specs(self):
        """Key -> how its values lie on the mesh, of what is not the same on all ranks."""
        if self.split:
            return self.split.specs
        columns, rows = PartitionSpec(None, DATA), PartitionSpec(DATA)
        return {key: columns if each.by == COLUMNS else rows for key, each in self.shards.items()}

    def count(self):
        """The trained numbers: of a split model and of shards, this rank's."""
        if self.split:
            return sum(math.prod(self.split.shapes[key]) for key in self.names.values())
        flat = flatten_dict(self.shapes, sep=".")
        shared = sum(each.size for each in self.shards.values())
        return shared + sum(leaf.size for key, leaf in flat.items() if key not in self.shards)

    def write(self, arrays):
        self._write(lambda: self.nested(arrays))

    def write_statistics(self, arrays):
        flat = flatten_dict(self._carried()["batch_stats"], sep=".")
        flat = {
            key: np.asarray(arrays[key.replace(".var", ".variance")], leaf.dtype)
            for key, leaf in flat.items()
        }
        self._write_carried({"batch_stats": unflatten_dict(flat, sep=".")})

    def arrays(self, tree):
        """Nested dicts of arrays -> (canonical name or Part, NumPy array), one by one."""
        flat = flatten_dict(tree, sep=".")
        own = {name: flat[key].addressable_data(0) for name, key in self.names.items()}
        for name, leaf in own.items():
            array = np.asarray(leaf)
            if name in self.shards:
                array = array[: self.shards[name].held]
            yield self._part(name) or name, self._canonical(name, array)

    def _canonical(self, name, leaf):
        """A leaf as a canonical array, a large table as a Table."""
        kind = self._kinds.get(name)
        if is_large(kind, leaf.shape):
            return table(leaf.shape, lambda first, last: leaf[first:last])
        return layouts.canonical(kind, leaf)

    def _part(self, name):
        """The Part that this rank has of a tensor, or None where it has all of it."""
        if name in self.shards:
            return self.shards[name].part
        part = self.split and self.split.parts[name]
        return None if part is None or part.is_whole else part

    def nested(self, arrays):
        """Canonical name -> array or Rows, as nested dicts in the parameters' type."""
        shapes = flatten_dict(self.shapes, sep=".")
        flat = {}
        if self.split:  # what only other stages have
            flat = {key: np.zeros(own, shapes[key].dtype) for key, own in self.split.shapes.items()}
        for name, key in self.names.items():
            array, dtype, kind = arrays[name], shapes[key].dtype, self._kinds.get(name)
            if isinstance(array, Rows):
                flat[key] = Rows(array.ids.astype(np.int32), array.values.astype(dtype))
                continue
            if name in self.shards:
                flat[key] = self.shards[name].own(array).astype(dtype)
                continue
            part = self._part(name)
            array = part.of(array) if part else array
            if isinstance(array, Table) and is_large(kind, array.shape):
                flat[key] = on_the_device(array, dtype)
            else:
                flat[key] = layouts.channels_last(kind, as_array(array), dtype)
        return unflatten_dict(flat, sep=".")


def on_the_device(table, dtype):
    """A Table as an array, written by rows where it stays: a device copies what a host gives it."""
    found = jnp.zeros(table.shape, dtype)
    for first, _, rows in parts(table):
        found = write_rows(found, rows.astype(dtype), first)
    return found


@functools.partial(jax.jit, donate_argnums=0)
def write_rows(table, rows, first):
    return jax.lax.dynamic_update_slice_in_dim(table, rows, first, 0)


def named(shapes):
    """Canonical name -> key, for kernels and scales that are weights of their layer."""
    keys = flatten_dict(shapes, sep=".")
    return {key.replace(".kernel", ".weight").replace(".scale", ".weight"): key for key in keys}


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    network = implementation.model(run)
    optimizer = implementation.optimizer(run, network)
    weights = implementation.weights(run, network)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(parameters, state, gradients):
        updates, state = optimizer.update(gradients, state, parameters)
        return sparse.apply_updates(parameters, updates), state

    parameters = weights.nested(start)
    state = optimizer.init(parameters)
    for given in gradients:
        parameters, state = step(parameters, state, weights.nested(given))
    return weights.arrays(parameters)
