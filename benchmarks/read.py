"""Measures how many images a second a framework's own reader gives when nothing else runs.

    PYTHONPATH=scripts <python> benchmarks/read.py --framework mxnet \\
        --data results/data/sample-recordio [--batch-size 32] [--image-size 224] [--cores 1]

The input is a folder that dlperf.prepare.images made, the output a line of JSON. Runs in the
framework's interpreter, on the last of the cores that it may use. `--shared` measures the loader
that all frameworks share instead (loaders/images.py; then the folder is one such as
results/data/sample).
"""

import argparse
import contextlib
import glob
import json
import os
import sys
import time

from dlperf import frameworks
from dlperf.contract.layout import Layout
from dlperf.contract.run import Run
from dlperf.loaders import DataError, images, readers

LAYOUTS = {"pytorch": "NHWC", "tensorflow": "NHWC", "tensorflow1": "NHWC", "jax": "NHWC"}
STARTED = "DLPERF_READ"  # set in a process that has the framework's variables


def a_run(asked):
    """The Run of one rank on a CPU that only reads and does not train."""
    cores = sorted(os.sched_getaffinity(0))[-asked.cores :]
    return Run(
        workload="resnet50",
        framework=asked.framework,
        scenario="train",
        precision="fp32",
        compiler=frameworks.of(asked.framework).default_compiler["cpu"],
        batch_size=asked.batch_size,
        layout=Layout(),
        data="sample" if asked.shared else "sample_native",
        dimensions={"image_size": asked.image_size},
        device="cpu",
        warmup_steps=0,
        measured_steps=0,
        cores_per_device=asked.cores,
        seed=asked.seed,
        data_dir=asked.data,
        rank=0,
        local_rank=0,
        ranks=1,
        local_ranks=1,
        cores=cores,
        interpreter=sys.executable,
        address="127.0.0.1",
        port=0,
        peers=["127.0.0.1:0"],
        interface="lo",
        meeting="",
        gpus=[],
        capability="",
        result=os.path.join(asked.data, "result.json"),
    )


@contextlib.contextmanager
def opened(run, shared=False):
    """A function that reads a batch and waits until it is complete; and the reader."""
    layout = LAYOUTS.get(run.framework, "NCHW")
    if shared:
        asked = run.input._replace(batches=None)
        with images.open_batches(asked, layout, readers.AHEAD) as source:
            yield source.next, source
        return
    with contextlib.ExitStack() as stack:
        if run.framework == "tensorflow1":
            import tensorflow as tf

            stack.enter_context(frameworks.load_training(run.framework).graph(run))
        reader = stack.enter_context(readers.open_images(run, layout))
        if run.framework == "tensorflow1":
            config = frameworks.load_training(run.framework).session_config(run)
            reader.connect(stack.enter_context(tf.compat.v1.Session(config=config)))
        # the labels are small, and complete when the batch is
        yield lambda: reader.arrays(reader.next()[-1:]), reader


def images_per_second(run, seconds, shared=False):
    """{"images_per_second": ..., "images_per_cpu_second": ..., "data_loader": ...}"""
    with opened(run, shared) as (read, source):
        speed = timed(read, run.batch_size, seconds)
    return dict(speed, data_loader=source.parity["data_loader"])


def timed(read, batch_size, seconds):
    for _ in range(2 * readers.AHEAD + 1):  # until all batches that were made ahead are used
        read()
    count, used, start = 0, cpu_seconds(), time.perf_counter()
    while time.perf_counter() - start < seconds:
        read()
        count += batch_size
    took = time.perf_counter() - start
    return {
        "images_per_second": count / took,
        # a busy machine disturbs it less
        "images_per_cpu_second": count / (cpu_seconds() - used),
    }


def cpu_seconds():
    """The CPU time of this process and of its workers, which are its child processes."""
    own, ticks = os.getpid(), 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8") as stream:
                # state, parent, and so on stand after the name, which may contain anything
                fields = stream.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if own in (int(path.split("/")[2]), int(fields[1])):
            ticks += sum(map(int, fields[11:15]))  # includes children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python benchmarks/read.py",
        description="Images a second of a framework's own reader.",
    )
    parser.add_argument("--framework", choices=sorted(readers.OF_FRAMEWORK), required=True)
    parser.add_argument("--data", required=True, help="a folder with a manifest.json")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shared", action="store_true", help="the loader that all share")
    asked = parser.parse_args(arguments)
    run = a_run(asked)
    if STARTED not in os.environ:
        # variables such as a library path only have an effect when a process starts with them
        variables = dict(os.environ, **frameworks.load(run.framework).environment(run))
        variables.update(OMP_NUM_THREADS=str(asked.cores), **{STARTED: "1"})
        os.sched_setaffinity(0, run.cores)
        again = sys.argv[1:] if arguments is None else arguments
        command = [sys.executable, __file__] + list(again)
        os.execve(sys.executable, command, variables)
    try:
        frameworks.load(run.framework).start(run)
        print(json.dumps(images_per_second(run, asked.seconds, asked.shared)))
    except DataError as error:
        sys.exit("error: %s" % error)
    sys.stdout.flush()
    os._exit(0)  # some frameworks hang in their own exit handlers


if __name__ == "__main__":
    main()
