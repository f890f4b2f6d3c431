"""Drive steps of the project's own PyTorch pages on the null device.

    <environment of torch_steps.py> <python of gpu_packages.PYTORCH> torch_step.py

In: on each line of stdin a folder, in which `step.json` is a gpu_steps.Step. Out, in that folder:
`log.txt`, what the device was told in the steps of a window; `facts.json`, memory and what the page
says of itself; `said.txt`, what was printed. A line of stdout says that it is done.

Each step has a process of its own, forked from this one, which has imported PyTorch. A rank starts
in it as in a measurement. There is one process also where there are several ranks: NCCL's answers
come from the device too, and torch_meeting.py answers for other ranks on the host.
"""

import ctypes
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/support")]

import torch  # noqa: E402  here, as all steps need it; Inductor's own processes survive no fork
import torch_controls  # noqa: E402
import torch_meeting  # noqa: E402
from gpu_runs import a_run, shorten  # noqa: E402

from dlperf import frameworks, workloads  # noqa: E402
from dlperf.contract.dimension import Dimensions  # noqa: E402
from dlperf.contract.layout import Layout  # noqa: E402

#: Steps before the window. Inductor captures its graphs in the second and third. In the first ten
#: DistributedDataParallel times itself, for which it waits for the device.
WARM_UP = 12
STEPS = 3
#: Seconds until NCCL's own thread, which looks ten times a second, has let go of what was
#: exchanged: what stays between steps is read behind that.
LETS_GO = 1.0


def main(step: dict, out: Path) -> None:
    run = run_of(step)
    facts = importlib.import_module(f"dlperf.workloads.{run.workload}.facts")
    if step["layers"]:
        shorten(facts, step["layers"])
    framework = frameworks.load("pytorch")
    os.environ.update(framework.environment(run))
    torch_meeting.answer_for_others(run)
    framework.start(run)
    page = workloads.load(run.workload, "pytorch")
    torch_controls.after_start(step["control"], run, page)
    work = page.training(run) if run.scenario == "train" else page.inference(run)
    for _ in range(WARM_UP):
        work.step()
    work.wait()
    work.batches.fill()
    device = ctypes.CDLL(None)
    device.null_device_peak.restype = ctypes.c_size_t
    device.null_device_peak()
    time.sleep(LETS_GO)
    torch.cuda.reset_peak_memory_stats()
    known = {"resident_bytes": torch.cuda.memory_allocated()}

    # the window as the stopwatch has it (measure/rank.py)
    timer = framework.step_timer(run)
    device.null_device_log(os.fsencode(out / "log.txt"))
    timer.mark()
    handles = []
    for _ in range(STEPS):
        handles.append(work.step())
        timer.mark()
        device.null_device_mark(b"step")
    device.null_device_log(None)

    known.update(
        peak_bytes=torch.cuda.max_memory_allocated(),
        device_bytes=device.null_device_peak(),
        parameters=work.parameters,
        parity={**framework.parity(run), **work.parity},
    )
    work.batches.close()
    (out / "facts.json").write_text(json.dumps(known, indent=1, default=str) + "\n")


def run_of(step: dict):
    """The Run of a step's rank."""
    declared = workloads.dimensions(step["workload"])
    ranks = step["devices"]
    compiler = step["compiler"] or frameworks.of("pytorch").default_compiler["cuda"]
    return a_run(
        "pytorch",
        workload=step["workload"],
        scenario=step["scenario"],
        precision=step["precision"],
        compiler=compiler,
        batch_size=step["batch_size"],
        layout=Layout(**step["layout"]),
        dimensions=dict(Dimensions(declared, step["dimensions"])),
        rank=step["rank"],
        local_rank=step["rank"],
        ranks=ranks,
        local_ranks=ranks,
        peers=[f"127.0.0.1:{29518 + rank}" for rank in range(ranks)],
        gpus=["0"],
        capability="9.0",
    )


def serve() -> None:
    """Drive each step that is asked for, one after the other, until stdin ends."""
    for line in sys.stdin:
        folder = Path(line.strip())
        child = os.fork()
        if not child:
            drive(folder)
        os.waitpid(child, 0)
        print(folder, flush=True)


def drive(folder: Path) -> None:
    """The process of one step; it does not return."""
    said = os.open(folder / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    try:
        os.chdir(folder)
        main(json.loads((folder / "step.json").read_text()), folder)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # threads that wait for other ranks, or for NCCL, are no longer needed


if __name__ == "__main__":
    serve()
