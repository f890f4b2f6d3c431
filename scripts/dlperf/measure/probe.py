"""Checks a node before a round: its state, and its speed of products, memory and exchange.

    PYTHONPATH=scripts python -m dlperf.measure.probe --device cuda --devices 8 \\
        --environment results/environments/pytorch.cuda/env.json --out results/mine/nodes/n3.json

It takes a few seconds (on GPUs, 20 more for what they sustain), or half a minute on a CPU without
instructions for bfloat16. PyTorch does
the work, with a rank for each device, on the cores and cards that a repetition gets: first each
device of a node alone, then all of them at once, because they share power, caches and memory.
Several nodes (`--nodes`, `--launcher`, as in dlperf.measure) exchange with each other.

It times products of matrices in each precision that the device has, STREAM's copy and triad for
memory (McCalpin 1995), and an all-reduce for the exchange. The output has the seconds of every turn
and the amount of work in it. On GPUs, products in the narrowest precision also run for ten seconds
(`--sustained`): a turn takes milliseconds, in which a cool card runs at clocks that it cannot hold.
"""

import argparse
import functools
import json
import sys
import time

from dlperf import frameworks
from dlperf.contract import files, storage, strict_json, terminal
from dlperf.contract.run import Rank
from dlperf.measure import host, node, processes
from dlperf.measure.meeting import Guest

SCHEMA = "dlperf.node/2"
# By device: the side of the matrices and the number of products in a turn; the floats of an array
# for memory (larger than caches) and of one for the exchange (as many as a mid-sized network's
# gradients).
SIZES = {
    "cpu": {"side": 1536, "products": 1, "moved": 1 << 25, "exchanged": 1 << 24},
    "cuda": {"side": 8192, "products": 4, "moved": 1 << 28, "exchanged": 1 << 26},
}
#: Seconds of products in one piece on a GPU: after some, it has the clocks that it can hold.
SUSTAINED = 10.0
#: These are measured so, the first of them that a device has.
NARROW = ("bf16", "fp16")
#: Turns between two readings of the clock in it: so the device always has work.
QUEUED_SECONDS = 0.25
TURNS = 6  # that count, after a first one that does not
#: A turn that takes longer than so many seconds is repeated once: bfloat16 without instructions for
#: it takes a hundred times as long as float32, and varies by a few per cent.
LONG_TURN = 1.0


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m dlperf.measure.probe",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--devices", type=int, default=1, help="devices of a node")
    parser.add_argument("--cores-per-device", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument(
        "--launcher", default="", help="command that starts a process on each of several nodes"
    )
    parser.add_argument("--interface", default="", help="network interface between ranks")
    parser.add_argument(
        "--environment", default="", help="env.json of PyTorch's environment (default: this Python)"
    )
    parser.add_argument("--timeout", type=float, default=240)
    parser.add_argument(
        "--sustained",
        type=float,
        help="seconds of products in one piece, 0: none (default: %g on cuda, 0 on cpu)"
        % SUSTAINED,
    )
    parser.add_argument("--out", required=True)
    asked = parser.parse_args(arguments)
    if asked.sustained is None:
        asked.sustained = SUSTAINED if asked.device == "cuda" else 0.0
    if not 0 <= asked.sustained < asked.timeout:
        parser.error("--sustained: %g [allowed: 0 to less than --timeout]" % asked.sustained)
    if asked.environment:
        node.nothing_else_to_import()
    processes.end_with_ranks()
    document = probe(asked)
    try:
        files.write(asked.out, json.dumps(document, indent=1) + "\n")
    except OSError as error:
        sys.exit("error: " + storage.message(error, asked.out))
    print("%s: %s -> %s" % (document["status"], document["reason"] or "probed", asked.out))
    for line in figures(document):
        print(line)


def figures(document):
    """A line for each measurement, with each rank's fastest turn."""
    for rank in document["ranks"]:
        for each in rank["measured"]:
            what = " ".join(filter(None, (each["what"], each["precision"])))
            amount = each["flops"] / 1e12 if "flops" in each else each["bytes"] / 1e9
            unit = "TFLOP/s" if "flops" in each else "GB/s"
            yield "rank %d, %d at once: %s %.4g %s" % (
                rank["rank"],
                each["at_once"],
                what,
                amount / min(each["seconds"]),
                unit,
            )
        for each in rank.get("sustained", ()):
            yield "rank %d, %d at once: gemm %s %.4g TFLOP/s sustained over %.1f s" % (
                rank["rank"],
                each["at_once"],
                each["precision"],
                each["flops"] / each["seconds"] / 1e12,
                each["seconds"],
            )


def probe(asked):
    """The node's document (dlperf.node/2)."""
    from dlperf.measure.stopwatch import Attempt

    environment = {}
    if asked.environment:
        environment = strict_json.read(asked.environment)
    found = {
        "schema": SCHEMA,
        "status": "crashed",
        "reason": "",
        "device": asked.device,
        "devices": asked.devices,
        "cores_per_device": asked.cores_per_device,
        "start_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "environment": {
            key: environment.get(key) for key in ("framework", "version", "lock_sha256")
        },
        "ranks": [],
        "nodes": [],
    }
    if environment.get("status") == "failed":
        return dict(found, reason="no environment: " + environment["reason"])
    attempt = Attempt(
        _case(asked),
        environment,
        sys.stderr,
        ("dlperf.measure.probe_rank", "--sustained=%g" % asked.sustained),
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
    """The ranks to run; nothing is trained."""
    identity = {
        "framework": "pytorch",
        "precision": "fp32",
        "compiler": "none",
        "nodes": asked.nodes,
        "devices_per_node": asked.devices,
    }
    settings = {
        "device": asked.device,
        "cores_per_device": asked.cores_per_device,
        "seed": 1,
        "timeout_seconds": asked.timeout,
    }
    return {"identity": identity, "settings": settings}


def precisions(device):
    """(name, type of the matrices, whether TF32 is allowed) for each precision of `device`."""
    import torch

    found = [("fp32", torch.float32, False)]
    if device == "cpu":
        return found + [("bf16", torch.bfloat16, False)]
    if torch.cuda.get_device_capability() >= (8, 0):  # Ampere introduced both
        found += [("tf32", torch.float32, True), ("bf16", torch.bfloat16, False)]
    return found + [("fp16", torch.float16, False)]


def of_rank(spec, sustained=0.0):
    """The work of one rank, in PyTorch's interpreter. Writes its facts to Run.result.

    A measurement: {"what", "precision" ("" but for gemm), "at_once" (devices of this node that
    worked), "flops" or "bytes" (of a turn), "seconds" (of each turn that counts)}. The bytes of
    an all-reduce are those that each rank sends and receives: 2 (n - 1) / n of the array.
    sustained: seconds of products in one piece; of these {"precision", "at_once", "flops",
    "seconds", "parts"}, whose parts are [seconds, flops] of what was queued at once.
    """
    import torch
    import torch.distributed as dist

    run = Rank.load(spec)
    guest = Guest(run.meeting, run.rank)
    guest.phase("start")
    framework = frameworks.load(run.framework)
    framework.start(run)
    sizes, found, held = SIZES[run.device], [], []
    torch.manual_seed(run.seed)

    def wait():
        if run.cuda:
            torch.cuda.synchronize()

    def longest(seconds):
        """The longest of all ranks' turns, so that all take as many."""
        found = torch.tensor([sum(seconds)], dtype=torch.float32, device=run.device)
        if run.ranks > 1:
            dist.all_reduce(found, dist.ReduceOp.MAX)
        return found.item()

    def measure(what, at_once, work, precision="", **done):
        """Time the turns. All ranks begin each turn together; a rank without work waits."""
        mine, seconds, turn, last = run.local_rank < at_once, [], 0, TURNS
        while turn <= last:
            guest.wait("%s %s %d %d" % (what, precision, at_once, turn))
            if mine:
                start = time.perf_counter()
                work()
                wait()
                seconds.append(time.perf_counter() - start)
            if turn == 0 and longest(seconds) > LONG_TURN:
                last = 1
            turn += 1
        if mine:
            entry = {"what": what, "precision": precision, "at_once": at_once}
            found.append(dict(entry, seconds=seconds[1:], **done))

    def gemm(at_once, precision, kind, tf32):
        # random, because with equal numbers a GPU draws less power and so runs faster
        left = torch.randn(sizes["side"], sizes["side"], device=run.device).to(kind)
        right, product = left.t().contiguous(), torch.empty_like(left)

        def work():
            for _ in range(sizes["products"]):
                torch.mm(left, right, out=product)

        if run.cuda:
            torch.backends.cuda.matmul.allow_tf32 = tf32
        flops = 2.0 * sizes["side"] ** 3 * sizes["products"]
        measure("gemm", at_once, work, precision, flops=flops)

    def sustain(at_once, precision, kind, tf32):
        """Multiply in one piece, and look at the clock some times a second alone."""
        left = torch.randn(sizes["side"], sizes["side"], device=run.device).to(kind)
        right, product = left.t().contiguous(), torch.empty_like(left)
        guest.wait("sustained %s %d" % (precision, at_once))
        if run.local_rank >= at_once:
            return
        flops, count, parts = 2.0 * sizes["side"] ** 3, 1, []
        torch.mm(left, right, out=product)  # the library chooses a kernel
        wait()
        begin = now = time.perf_counter()
        while now - begin < sustained:
            for _ in range(count):
                torch.mm(left, right, out=product)
            wait()
            last, now = now, time.perf_counter()
            parts.append([now - last, count * flops])
            if now - last < QUEUED_SECONDS / 2:
                count *= 2
        entry = {"precision": precision, "at_once": at_once, "seconds": now - begin}
        entry.update(flops=sum(done for _, done in parts), parts=parts)
        held.append(entry)

    def memory(at_once):
        first, second, third = (torch.ones(sizes["moved"], device=run.device) for _ in range(3))
        size = 4.0 * sizes["moved"]
        measure("copy", at_once, lambda: first.copy_(second), bytes=2 * size)
        triad = functools.partial(torch.add, second, third, alpha=3.0, out=first)
        measure("triad", at_once, triad, bytes=3 * size)

    guest.phase("window")
    guest.wait("window")
    for at_once in sorted({1, run.local_ranks}):
        for precision in precisions(run.device):
            gemm(at_once, *precision)
        memory(at_once)
    narrow = [each for each in precisions(run.device) if each[0] in NARROW][:1]
    if sustained and narrow:
        sustain(run.local_ranks, *narrow[0])  # as all work together in a training
    if run.distributed:
        gradients = torch.ones(sizes["exchanged"], device=run.device)
        size = 2.0 * (run.ranks - 1) / run.ranks * 4.0 * sizes["exchanged"]
        measure("allreduce", run.local_ranks, lambda: dist.all_reduce(gradients), bytes=size)
    guest.wait("end")
    facts = {
        "rank": run.rank,
        "local_rank": run.local_rank,
        "node": host.name(),
        "side": sizes["side"],
        "measured": found,
        "sustained": held,
    }
    framework.stop(run)
    left = {"status": "ok", "probe": facts, "warmup_seconds": 0.0}
    files.write(run.result, json.dumps(left))


if __name__ == "__main__":
    terminal.as_utf8()
    main()
