"""JAX: one jitted program a step, data parallel over a mesh of processes by gloo or NCCL.

Fastest settings its best users choose: ahead-of-time compilation, donated state, bfloat16 for mixed
precision (no loss scaling; parameters stay float32), XLA's own choice of kernels, and a persistent
compilation cache in results/.cache/jax, so that only the first repetition compiles: the timed
window never does. Has not run on a GPU: that path follows the documentation of jax.distributed.
"""

import functools
import os

from dlperf.contract import layouts
from dlperf.contract.timer import HostTimer

TITLE = "JAX"
COMPILERS = {"none": "op by op", "xla": "jax.jit (XLA)"}
DEFAULT_COMPILER = {"cpu": "xla", "cuda": "xla"}
FLOAT64_COMPILERS = ("xla",)
FLOAT64_EXCHANGE = True


def unsupported(case):
    if case["compiler"] == "none":
        return (
            "JAX is written to be compiled: without jit each operation is a program of its own, "
            "which no user trains with; ask for compiler xla"
        )
    return ""


def environment(run):
    variables = {
        "JAX_PLATFORMS": run.device,
        "JAX_COMPILATION_CACHE_DIR": os.path.abspath(os.path.join("results", ".cache", "jax")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    if run.cuda:
        if run.distributed:  # the all-reduce of gradients beside the backward pass
            variables["XLA_FLAGS"] = "--xla_gpu_enable_latency_hiding_scheduler=true"
    else:
        variables["NPROC"] = str(run.cores_per_device)  # XLA's thread pool
        variables["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
    return variables


def services(run):
    return []


def start(run):
    import jax

    if run.float64:
        jax.config.update("jax_enable_x64", True)
    if run.distributed:
        jax.distributed.initialize(
            coordinator_address="%s:%d" % (run.address, run.port),
            num_processes=run.ranks,
            process_id=run.rank,
            local_device_ids=[0],  # a rank has one device: its own card, or its CPU
        )
        if not run.cuda:
            write_own_cache(run)


def write_own_cache(run):
    """Let every rank, not only the first, keep what it compiled.

    On a CPU a program's key in the cache names its process, and JAX writes for process 0 alone: the
    others would compile anew in every repetition.
    """
    import jax
    from jax._src import distributed

    jax.devices()  # makes the group; from here on the number serves for nothing but the cache
    folder = os.path.join(jax.config.jax_compilation_cache_dir, "rank%d" % run.rank)
    jax.config.update("jax_compilation_cache_dir", folder)
    distributed.global_state.process_id = 0


def meet(run, name):
    """Return when every rank is here; no collective may start while a rank still compiles.

    The first one connects the ranks and gives up after 30 seconds.
    """
    from jax._src import distributed

    if run.distributed:
        distributed.global_state.client.wait_at_barrier(name, timeout_in_ms=3600 * 1000)


def step_timer(run):
    return HostTimer()  # JAX has no public device events


def memory(run):
    import jax

    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    statistics = jax.local_devices()[0].memory_stats()
    return {
        "device_peak_bytes": statistics["peak_bytes_in_use"],
        # XLA takes three quarters of the card at once and keeps them
        "device_total_peak_bytes": statistics.get("peak_pool_bytes", statistics["bytes_limit"]),
    }


def parity(run):
    import jax

    facts = {
        "framework_version": jax.__version__,
        "device_platform": jax.local_devices()[0].platform,
        "compilation_cache": bool(jax.config.jax_compilation_cache_dir),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "collective": None,
    }
    if run.distributed:
        facts["collective"] = "nccl" if run.cuda else jax.config.jax_cpu_collectives_implementation
    if run.cuda:
        # None is XLA's default: TF32 for float32 products and convolutions
        facts["matmul_precision"] = jax.config.jax_default_matmul_precision
        facts["tf32"] = facts["matmul_precision"] in (None, "default", "tensorfloat32")
    return facts


class Weights:
    """A tree of parameters by canonical name.

    tree: gives the parameters as they are now, nested dicts. put: takes new ones, NumPy arrays.
    names: canonical name -> its key in the tree, such as "block0.conv1.kernel".
    """

    def __init__(self, names, tree, put):
        self.names, self.tree, self.put = names, tree, put

    def read(self):
        return self.arrays(self.tree())

    def write(self, arrays):
        self.put(self.nested(arrays))

    def arrays(self, tree):
        """Nested dicts of arrays -> (canonical name, NumPy array), one by one."""
        import numpy as np
        from flax.traverse_util import flatten_dict

        flat = flatten_dict(tree, sep=".")
        # every rank has them all: its own shard is the whole
        whole = {name: flat[key].addressable_data(0) for name, key in self.names.items()}
        return ((name, layouts.canonical(name, np.asarray(leaf))) for name, leaf in whole.items())

    def nested(self, arrays):
        """Canonical name -> array, as nested dicts in the parameters' type."""
        from flax.traverse_util import flatten_dict, unflatten_dict

        types = {key: leaf.dtype for key, leaf in flatten_dict(self.tree(), sep=".").items()}
        flat = {
            key: layouts.channels_last(name, arrays[name], types[key])
            for name, key in self.names.items()
        }
        return unflatten_dict(flat, sep=".")


def optimize(run, implementation, start, gradients):
    """The weights after the implementation's optimizer took these gradients, one set a step."""
    import jax
    import optax

    network = implementation.model(run)
    sgd = implementation.optimizer(run, network)
    tree = implementation.initial(run, network)["params"]
    weights = implementation.weights(lambda: tree, None)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def update(parameters, state, gradients):
        updates, state = sgd.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state

    parameters = weights.nested(start)
    state = sgd.init(parameters)
    for given in gradients:
        parameters, state = update(parameters, state, weights.nested(given))
    return weights.arrays(parameters)


def stop(run):
    import jax

    if run.distributed:
        jax.distributed.shutdown()
