"""Whether anything between the steps of a window waits for the GPU; PyTorch can tell.

    python benchmarks/waits.py --case case.json

In: a case of one rank (a document, as `python -m dlperf.measure case` prints it). Its steps run
between the ends of a window as the stopwatch has them, under `set_sync_debug_mode("error")`: an
operation that waits for the GPU raises there, and the traceback names it. Out: the loss of each
step as JSON. On a CPU the steps run and nothing is checked. Run it with the Python that has torch.
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from dlperf import frameworks, workloads
from dlperf.contract.case import load
from dlperf.contract.run import Run
from dlperf.measure import host, node
from dlperf.workloads.cases import known


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", required=True, help="case document: a path, or the JSON text")
    case = load(parser.parse_args().case, known())
    run = only_rank(case)
    if run.framework != "pytorch":
        sys.exit(f"error: --case: {run.framework} cannot tell what waits; pytorch can")
    os.environ.update(host.PCI_ORDER, CUDA_VISIBLE_DEVICES=",".join(run.gpus))
    os.environ.update(frameworks.load(run.framework).environment(run))
    print(json.dumps(losses(run, case["settings"])))


def only_rank(document):
    """The rank of a case of one device, on this machine."""
    cores, asked = host.cores(), document["settings"]
    here = {"address": "127.0.0.1", "ports": [0, 0], "interface": "lo", "cores": cores}
    here.update(threads=host.siblings(cores), gpu_cores=[[]])
    here["facts"] = {"memory_bytes": host.memory_bytes(), "gpus": []}
    [[fields]] = node.placed(document, [here], sys.executable, "")
    gpus = host.visible_gpus()[:1] if asked["device"] == "cuda" else []
    capability = [facts.get("compute_capability") or "" for facts in host.gpu_facts(gpus)]
    return Run(**fields, gpus=gpus, capability="".join(capability), result="")


def losses(run, settings):
    """The loss of each measured step; raises RuntimeError where one waits for the GPU."""
    framework = frameworks.load(run.framework)
    framework.start(run)
    import torch

    work = workloads.load(run.workload, run.framework).training(run)
    work.weights.write(workloads.Initial(run.workload, run.dimensions, run.seed))
    mark = framework.step_timer(run).mark
    for _ in range(settings["warmup_steps"]):
        work.step()
    work.wait()
    work.batches.fill()
    if run.cuda:
        torch.cuda.set_sync_debug_mode("error")
    handles = []
    mark()
    for _ in range(settings["measured_steps"]):
        handles.append(work.step())
        mark()
    if run.cuda:
        torch.cuda.set_sync_debug_mode("default")
    work.wait()
    found = [work.loss(handle) for handle in handles]
    work.batches.close()
    return found


if __name__ == "__main__":
    main()
