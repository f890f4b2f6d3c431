"""A rank's process under JAX: how it starts, what it says of itself, how it ends."""

import os

from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer

#: The all-reduce of gradients beside the backward pass.
OVERLAP = "--xla_gpu_enable_latency_hiding_scheduler=true"
#: The share of a GPU's memory that XLA takes at once: by JAX's name for it and its older one.
MEMORY = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")


def environment(run):
    variables = {
        "JAX_PLATFORMS": run.device,
        "JAX_COMPILATION_CACHE_DIR": os.path.abspath(os.path.join("results", ".cache", "jax")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    if run.cuda:
        if run.distributed:  # of a flag that is given twice, XLA takes the last: the user's
            variables["XLA_FLAGS"] = " ".join([OVERLAP, os.environ.get("XLA_FLAGS", "")]).strip()
        if not any(name in os.environ for name in MEMORY):
            # not JAX's three quarters, which leave room for other processes: there are none
            variables[MEMORY[0]] = ".92"
    else:
        variables["NPROC"] = str(run.cores_per_device)  # XLA's thread pool
        variables["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"
    return variables


def services(run):
    return []


def start(run):
    import jax

    if run.cuda:
        jax.config.update("jax_default_matmul_precision", "default" if run.tf32 else "highest")
    if run.float64:
        jax.config.update("jax_enable_x64", True)
    if run.distributed:
        jax.distributed.initialize(
            coordinator_address="%s:%d" % (run.address, run.port),
            num_processes=run.ranks,
            process_id=run.rank,
            coordinator_bind_address="%s:%d" % (run.address, run.port),  # no other interface
            local_device_ids=[0],  # a rank has one device: its own card, or its CPU
        )
        if not run.cuda:
            write_own_cache(run)
    if run.cuda:
        refuse_without_gpu()


def refuse_without_gpu():
    import jax

    try:
        jax.local_devices()
    except (RuntimeError, AssertionError) as error:  # the latter where JAX has no CUDA plugin
        why = str(error).split("\n")[0] or "it is installed without CUDA"
        raise Unsupported("JAX %s finds no GPU that it can use: %s" % (jax.__version__, why))


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


def step_timer(run):
    return HostTimer()  # JAX has no public device events


def memory(run):
    import jax

    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    statistics = jax.local_devices()[0].memory_stats()
    return {
        "device_peak_bytes": statistics["peak_bytes_in_use"],
        # XLA takes its share of the card at once: what it holds is not what the step needs
        "device_total_peak_bytes": None,
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
        # of products and convolutions in float32; the default is TF32
        facts["matmul_precision"] = jax.config.jax_default_matmul_precision
        facts["memory_fraction"] = next(filter(None, map(os.environ.get, MEMORY)), None)
        facts["tf32"] = facts["matmul_precision"] in (None, "default", "tensorfloat32")
    return facts


def stop(run):
    import jax

    if run.distributed:
        jax.distributed.shutdown()
