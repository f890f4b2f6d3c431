"""Steps of a case outside of any repetition: profiled, with other settings, or for some time.

    python benchmarks/card/steps.py --case case.json --out folder --seconds 30
    python benchmarks/card/steps.py --case case.json --out folder --profile
    python benchmarks/card/steps.py --case case.json --out folder --no-graphs
    python benchmarks/card/steps.py --case case.json --out folder --benchmark-limit 10
    python benchmarks/card/steps.py --case case.json --out folder --changes 3

In: a case of one rank (a document, as `python -m dlperf.measure case` prints it), whose Python has
the framework. The steps are those of the implementation's own page; nothing of them is a record.
Out: <out>/steps.json (settings, the window in UTC, seconds of each step and the clock they are of,
losses); with --profile one more step as <out>/trace.json[.gz] (Chrome's format) and its longest
kernels as <out>/kernels.json; with --programs XLA's program of a step as <out>/program.txt.gz; with
--changes what so many steps behind the warm-up, which are replays where a step is captured, change
in each tensor, as <out>/changes.npz.
"""

import argparse
import glob
import json
import math
import os
import shutil
import sys
import time
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).resolve().parent.parent),
    str(Path(__file__).resolve().parent.parent.parent / "scripts"),
]

import numpy as np  # noqa: E402

from card import kernels, programs  # noqa: E402
from dlperf import frameworks, workloads  # noqa: E402
from dlperf.contract.case import load  # noqa: E402
from dlperf.contract.timer import perf_counter  # noqa: E402
from dlperf.measure import host  # noqa: E402
from dlperf.workloads.cases import case_of, known  # noqa: E402

#: Steps by which the length of a window is estimated.
PROBED = 10


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", required=True, help="case document: a path, or the JSON text")
    parser.add_argument("--out", type=Path, required=True, help="folder of what is written")
    parser.add_argument("--seconds", type=float, help="of the window; without it: the case's steps")
    parser.add_argument("--profile", action="store_true", help="profile one more step")
    parser.add_argument("--programs", action="store_true", help="JAX: keep XLA's program")
    parser.add_argument("--no-graphs", action="store_true", help="PyTorch: no CUDA graphs")
    parser.add_argument("--changes", type=int, default=0, help="keep what so many steps change")
    parser.add_argument("--benchmark-limit", type=int, help="PyTorch: of cuDNN's algorithms")
    asked = parser.parse_args()
    case = load(asked.case, known())
    run = only_rank(case)
    pytorch_only = asked.no_graphs or asked.benchmark_limit is not None
    allowed = ("pytorch",) if pytorch_only else ("pytorch", "jax")
    if run.framework not in allowed:
        sys.exit(f"error: --case: {run.framework} [allowed: {', '.join(allowed)}]")
    if case_of(case["identity"]).scenario != "train":
        sys.exit("error: --case: only the scenario train has steps")
    asked.out.mkdir(parents=True, exist_ok=True)
    os.environ.update(host.PCI_ORDER, CUDA_VISIBLE_DEVICES=",".join(run.gpus))
    os.environ.update(frameworks.load(run.framework).environment(run))
    if asked.programs and run.framework == "jax":
        keep_programs(asked.out / "programs")
    found = steps(run, case, asked)
    if asked.programs and run.framework == "jax":
        found["program"] = bool(programs.keep_largest(asked.out / "programs", asked.out))
    (asked.out / "steps.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['samples_per_second']:.1f} samples/s over {found['window_seconds']:.1f} s")
    sys.stdout.flush()
    os._exit(0)  # some frameworks hang in their own exit handlers; all is on disk


def only_rank(document):
    """The rank of a case of one device, on this machine."""
    import waits

    return waits.only_rank(document)


def keep_programs(folder):
    """Let XLA write its programs, which it does only when it compiles: so nothing is cached."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    dump = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), dump]).strip()
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"


def steps(run, case, asked):
    """Warm up, time a window, and profile a step if that is asked for: what steps.json has."""
    framework = frameworks.load(run.framework)
    if asked.no_graphs:
        without_graphs()
    framework.start(run)
    if asked.benchmark_limit is not None:
        import torch

        torch.backends.cudnn.benchmark_limit = asked.benchmark_limit
    began = perf_counter()
    work = workloads.load(run.workload, run.framework).training(run)
    initial = workloads.Initial(run.workload, run.dimensions, run.seed)
    work.weights.write(initial)
    for _ in range(case["settings"]["warmup_steps"]):
        work.step()
    work.wait()
    warmed = perf_counter() - began
    if asked.changes:
        np.savez(asked.out / "changes.npz", **changes(work, initial, asked.changes))
    count = case["settings"]["measured_steps"]
    if asked.seconds:
        count = max(2, math.ceil(asked.seconds / of_a_step(work)))
    work.batches.fill()
    timer, handles, first_utc, start = framework.step_timer(run), [], time.time(), perf_counter()
    timer.mark()
    for _ in range(count):
        handles.append(work.step())
        timer.mark()
    work.wait()
    end, last_utc = perf_counter(), time.time()
    losses = [work.loss(each) for each in handles] if work.loss else []
    found = {
        "identity": case["identity"],
        "graphs": not asked.no_graphs,
        "benchmark_limit": asked.benchmark_limit,
        "build_and_warmup_seconds": round(warmed, 3),
        "window_utc": [first_utc, last_utc],
        "window_seconds": end - start,
        "samples_per_second": run.batch_size * count / (end - start),
        "clock": timer.clock,
        "seconds": timer.seconds(),
        # a thousand losses are enough to see that they fall
        "loss": losses[:500] + losses[-500:] if len(losses) > 1000 else losses,
        "parity": {key: str(value) for key, value in framework.parity(run).items()},
    }
    if asked.profile:
        found["profile"] = profile(run, work, asked.out)
    work.batches.close()
    return found


def changes(work, initial, steps):
    """{tensor: its change} after so many steps from these weights, without moments of others."""
    work.restart(initial)
    work.wait()
    for _ in range(steps):
        work.step()
    work.wait()
    return {
        name: np.asarray(array, np.float64) - np.asarray(initial[name], np.float64)
        for name, array in work.weights.read()
    }


def of_a_step(work):
    """About how long a step takes, in seconds."""
    start = perf_counter()
    for _ in range(PROBED):
        work.step()
    work.wait()
    return max(1e-6, (perf_counter() - start) / PROBED)


def without_graphs():
    """Let PyTorch's pages compile without CUDA graphs: what they ask is answered by no."""
    from dlperf.frameworks.pytorch import process, training

    process.cuda_graphs = training.cuda_graphs = lambda run: False


def profile(run, work, out):
    """Profile one step; write its trace and kernels.json, and return what the latter has."""
    path = (
        traced_by_torch(run, work, out) if run.framework == "pytorch" else traced_by_jax(work, out)
    )
    found = kernels.summary(kernels.read(path))
    (out / "kernels.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


def traced_by_torch(run, work, out):
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU]
    if run.cuda:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    work.step()  # CUPTI's own start-up is not in the step that is looked at
    work.wait()
    with torch.profiler.profile(activities=activities) as profiler:
        work.step()
        work.wait()
    path = out / "trace.json"
    profiler.export_chrome_trace(str(path))
    return path


def traced_by_jax(work, out):
    import jax

    folder = out / "jax"
    shutil.rmtree(folder, ignore_errors=True)
    with jax.profiler.trace(str(folder)):
        work.step()
        work.wait()
    found = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
    if not found:
        raise RuntimeError(f"{folder}: JAX's profiler wrote no *.trace.json.gz")
    path = out / "trace.json.gz"
    os.replace(found[0], path)
    return path


if __name__ == "__main__":
    main()
