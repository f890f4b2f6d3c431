"""Horovod's ranks: what `horovodrun` would set for them, and the server where they meet.

TensorFlow 1 exchanges gradients through it; so does MXNet on GPUs, where its environment has it.
"""

import functools
import subprocess
import threading

LOOK = """
import glob, importlib.util, sys
spec = importlib.util.find_spec("horovod")
folders = spec.submodule_search_locations if spec else []
print(any(glob.glob("%s/%s/mpi_lib*" % (folder, sys.argv[1])) for folder in folders))
"""


@functools.lru_cache(maxsize=None)
def has(interpreter, framework):
    """Whether this Python has Horovod built for `framework`; asked without importing either."""
    command = [interpreter, "-I", "-c", LOOK, framework]
    return subprocess.run(command, stdout=subprocess.PIPE).stdout.strip() == b"True"


def variables(run):
    """Gloo meets at a server that rank 0 runs; on GPUs, gradients go by NCCL where it is built."""
    return dict(
        HOROVOD_RANK=str(run.rank),
        HOROVOD_SIZE=str(run.ranks),
        HOROVOD_LOCAL_RANK=str(run.local_rank),
        HOROVOD_LOCAL_SIZE=str(run.local_ranks),
        HOROVOD_CROSS_RANK=str(run.node),
        HOROVOD_CROSS_SIZE=str(run.ranks // run.local_ranks),
        HOROVOD_HOSTNAME="node%d" % run.node,  # for horovod's own list of hosts
        HOROVOD_CONTROLLER="gloo",
        HOROVOD_CPU_OPERATIONS="gloo",
        HOROVOD_GLOO_IFACE=run.interface,
        HOROVOD_GLOO_RENDEZVOUS_ADDR=run.address,
        HOROVOD_GLOO_RENDEZVOUS_PORT=str(run.port),
    )


def join(run, hvd):
    """Join the ranks; `hvd` is Horovod's module for the framework."""
    if run.rank == 0:
        serve_rendezvous(run)
    run.wait_for_port()
    hvd.init()


def serve_rendezvous(run):
    """The store where gloo's ranks find each other, as horovodrun serves it."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    nodes = ["node%d:%d" % (each, run.local_ranks) for each in range(run.ranks // run.local_ranks)]
    server = RendezvousHTTPServer((run.address, run.port), RendezvousHandler, False)
    server.init(get_host_assignments(parse_hosts(",".join(nodes)), run.ranks))
    threading.Thread(target=server.serve_forever, daemon=True).start()


def described(run, hvd):
    """Its version, and what carries gradients."""
    import horovod

    how = "NCCL" if run.cuda and hvd.nccl_built() else "gloo"
    return "Horovod %s, %s" % (horovod.__version__, how)
