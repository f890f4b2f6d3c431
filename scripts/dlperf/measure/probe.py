"""How a node is before a round: its state, and how fast it multiplies, copies and exchanges.

    PYTHONPATH=scripts python -m dlperf.measure.probe --device cuda --devices 8 \\
        --environment results/environments/pytorch.cuda/env.json --out results/nodes/node3.json

Some seconds. PyTorch does the work, a rank a device, on the cores and cards that a repetition gets.
Several nodes (`--nodes`, `--launcher`, as of dlperf.measure) exchange with each other.
"""

import argparse
import json
import statistics
import sys
import time

from dlperf import files, frameworks
from dlperf.measure import host
from dlperf.measure.meeting import Guest
from dlperf.measure.run import Run

SCHEMA = "dlperf.node/1"
# (side of the matrices, floats that are copied and exchanged), by device
SIZES = {"cpu": (1024, 1 << 24), "cuda": (8192, 1 << 26)}
TIMES = 10


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.measure.probe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--devices", type=int, default=1, help="of a node")
    parser.add_argument("--cores-per-device", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--launcher", default="", help="of several nodes")
    parser.add_argument("--interface", default="", help="network interface that ranks talk through")
    parser.add_argument("--environment", required=True, help="env.json of PyTorch's environment")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--out", required=True)
    asked = parser.parse_args(arguments)
    document = probe(asked)
    files.write(asked.out, json.dumps(document, indent=1) + "\n")
    print("%s: %s -> %s" % (document["status"], document["reason"] or "probed", asked.out))


def probe(asked):
    """The node's document (dlperf.node/1)."""
    from dlperf.measure.stopwatch import Attempt

    with open(asked.environment) as stream:
        environment = json.load(stream)
    found = {
        "schema": SCHEMA,
        "status": "crashed",
        "device": asked.device,
        "ranks": [],
        "nodes": [],
    }
    found["start_utc"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if environment["status"] != "ok":
        return dict(found, reason="no environment: " + environment["reason"])
    attempt = Attempt(
        _case(asked),
        environment,
        sys.stderr,
        ("dlperf.measure.probe_rank",),
        launcher=asked.launcher,
        interface=asked.interface,
    )
    found.update(zip(("status", "reason"), attempt.failure or ("ok", "")))
    hosts = attempt.hosts()
    found["nodes"] = hosts.get("nodes", [hosts])
    if not attempt.failure:
        found["ranks"] = [facts["probe"] for facts in attempt.facts]
    return found


def _case(asked):
    """A case whose geometry is that of the probe; nothing is trained."""
    identity = {
        "workload": "resnet50",
        "framework": "pytorch",
        "scenario": "train",
        "precision": "fp32",
        "compiler": "none",
        "nodes": asked.nodes,
        "devices_per_node": asked.devices,
        "batch_size": 1,
        "data": "synthetic",
        "image_size": 32,
    }
    settings = {
        "device": asked.device,
        "warmup_steps": 0,
        "measured_steps": TIMES,
        "cores_per_device": asked.cores_per_device,
        "seed": 1,
        "data_dir": "",
        "timeout_seconds": asked.timeout,
    }
    return {"identity": identity, "settings": settings}


def of_rank(spec):
    """What one rank does, under PyTorch's interpreter; leaves its figures at Run.result."""
    import torch
    import torch.distributed as dist

    run = Run.load(spec)
    guest = Guest(run.meeting, run.rank)
    guest.phase("start")
    framework = frameworks.load(run.framework)
    framework.start(run)
    side, count = SIZES[run.device]
    half = torch.bfloat16 if run.cuda else torch.float32
    left = torch.ones(side, side, device=run.device, dtype=half)
    right, product = torch.ones_like(left), torch.empty_like(left)
    source = torch.ones(count, device=run.device)
    target = torch.empty_like(source)

    def wait():
        if run.cuda:
            torch.cuda.synchronize()

    def seconds(what, work):
        """The median of TIMES, after one that does not count; all ranks at once."""
        found = []
        for turn in range(TIMES + 1):
            guest.wait("%s %d" % (what, turn))
            start = time.perf_counter()
            work()
            wait()
            found.append(time.perf_counter() - start)
        return statistics.median(found[1:])

    guest.phase("window")
    guest.wait("window")
    start = time.perf_counter()
    gemm = seconds("gemm", lambda: torch.mm(left, right, out=product))
    copy = seconds("copy", lambda: target.copy_(source))
    exchange = None
    if run.distributed:
        exchange = seconds("exchange", lambda: dist.all_reduce(target))
    end = time.perf_counter()
    guest.wait("end")
    size = 4.0 * count
    figures = {
        "rank": run.rank,
        "node": host.name(),
        "gemm_tflops": 2.0 * side**3 / gemm / 1e12,
        "copy_gbytes_per_second": 2 * size / copy / 1e9,
        # of the bus: each rank sends and receives 2 (n - 1) / n of the tensor, however it is done
        "allreduce_gbytes_per_second": (
            2 * (run.ranks - 1) / run.ranks * size / exchange / 1e9 if exchange else None
        ),
    }
    framework.stop(run)
    left = {"status": "ok", "probe": figures, "warmup_seconds": 0.0, "cpu_seconds": 0.0}
    left["window"] = {"start": start, "end": end}
    files.write(run.result, json.dumps(left))


if __name__ == "__main__":
    main()
