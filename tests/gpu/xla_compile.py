"""Lower and compile a training step of the project's own JAX page for a GPU that is not there.

    <python of gpu_packages.JAX> xla_compile.py STEP.json OUT

In: a gpu_steps.Step as JSON. Out, in the folder OUT: `program.txt`, the optimised program in XLA's
text form, and `facts.json`: bytes of its memory, and the processor seconds that it took.

The page's `training(run)` runs as in a rank, and nothing of it is replaced but the devices: they
are described (h100.txtpb), so what would lie on them is a shape. Ranks do not meet: one process
compiles what each of them would.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/support")]

from gpu_runs import a_run, shorten  # noqa: E402

from dlperf import workloads  # noqa: E402
from dlperf.contract.dimension import Dimensions  # noqa: E402
from dlperf.contract.layout import Layout  # noqa: E402
from dlperf.frameworks.jax import process  # noqa: E402


def main(step: dict, out: Path) -> None:
    run = run_of(step)
    facts = importlib.import_module(f"dlperf.workloads.{run.workload}.facts")
    if step["layers"]:
        shorten(facts, step["layers"])
    os.environ.update(process.environment(run))
    # The host's own backend, as the card's needs a driver; no cache, as compiling is what is shown.
    os.environ.update(JAX_PLATFORMS="cpu", JAX_ENABLE_COMPILATION_CACHE="false")
    import xla_controls

    xla_controls.before_jax(step["control"])
    devices = described_devices(run.ranks)
    process.start(run)
    page = workloads.load(run.workload, "jax")
    xla_controls.after_start(step["control"], page)
    began = time.process_time()
    compiled = compiled_step(run, page, devices)
    memory = compiled.memory_analysis()
    (out / "program.txt").write_text(compiled.as_text())
    known = {
        "seconds": round(time.process_time() - began, 1),
        "temporary_bytes": memory.temp_size_in_bytes,
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
    }
    (out / "facts.json").write_text(json.dumps(known, indent=1) + "\n")


def run_of(step: dict):
    """The first rank's Run of a step."""
    declared = workloads.dimensions(step["workload"])
    ranks = step["devices"]
    return a_run(
        "jax",
        workload=step["workload"],
        precision=step["precision"],
        compiler="xla",
        batch_size=step["batch_size"],
        layout=Layout(**step["layout"]),
        dimensions=dict(Dimensions(declared, step["dimensions"])),
        ranks=ranks,
        local_ranks=ranks,
        peers=[f"127.0.0.1:{29518 + rank}" for rank in range(ranks)],
        gpus=[str(rank) for rank in range(ranks)],
        capability="9.0",
        pool_bytes=1,  # as few synthetic batches as there may be: none of them is computed on
    )


def described_devices(ranks: int) -> list:
    """So many cards of one machine, which take programs and run none; JAX is told of no others."""
    import jax
    from jax.experimental import topologies

    target = (HERE / "h100.txtpb").read_text()
    topology = topologies.get_topology_desc(
        platform="cuda", target_config=target, topology=f"1x1x{ranks}"
    )
    devices = list(topology.devices)
    jax.devices = lambda *backend: devices
    jax.default_backend = lambda: "gpu"
    jax.distributed.initialize = lambda **given: None  # the ranks' meeting is no part of a program
    return devices


def compiled_step(run, page, devices):
    """The step's program, as `training.train` compiled it and had it read back."""
    import jax
    import numpy as np
    from jax.sharding import Mesh

    from dlperf.frameworks.jax import parallel, training

    class Described(training.Exchange):
        """An Exchange whose arrays are shapes on devices that are not there."""

        def __init__(self, run):
            self._run = run
            self._mesh = Mesh(np.array(devices), ("data",))
            if run.distributed:
                self._mesh = parallel.device_mesh(run)

        def over_ranks(self, step, *specs):
            # one rank's step is no program of a mesh, though its one card is in one here
            return super().over_ranks(step, *specs) if self._run.distributed else step

        def put(self, tree, specs):
            if specs == self.own:  # synthetic batches, which no step will take
                return tree
            specs = (
                specs
                if not isinstance(specs, type(self.same))
                else jax.tree.map(lambda _: specs, tree)
            )
            return jax.tree.map(self._shape, tree, specs)

        def zeros(self, leaf):
            return leaf

    made = []

    def read_back(run, compiled):
        made.append(compiled)
        return original(run, compiled)

    original, training.read_back, training.Exchange = training.read_back, read_back, Described
    training.meet = lambda run, name: None
    page.training(run)
    (compiled,) = made
    return compiled


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
