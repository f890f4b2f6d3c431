"""The project's code under a framework's own interpreter, as a rank runs it."""

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
from pathlib import Path

from conftest import ROOT, SCRIPTS

from dlperf import frameworks
from dlperf.contract.layout import Layout
from dlperf.contract.run import Run

START = """
import json, sys
from dlperf import frameworks, workloads
from dlperf.contract.run import Run, Unsupported
run = Run(**json.loads(sys.argv[1]))
"""


def rank(framework: str, workload: str = "resnet50", **changes) -> Run:
    """The only rank of a small training on synthetic data."""
    dimensions = {
        "resnet50": {"image_size": 8, "fold": 0, "mixup": 0},
        "bert": {"sequence_length": 16, "clip": True, "padded_vocabulary": 0},
    }
    dimensions["electra"] = {"sequence_length": 16}
    dimensions["gpt"] = {"width": 32, "layers": 2, "heads": 2, "sequence_length": 8}
    dimensions["wide_deep"] = {"vocabulary": 52, "width": 4, "layers": 1, "adam": "lazy"}
    dimensions["wide_deep"]["tables"] = "replicated"
    values = {
        "workload": workload,
        "framework": framework,
        "scenario": "train",
        "precision": "fp32",
        "compiler": frameworks.of(framework).default_compiler["cpu"],
        "batch_size": 2,
        "layout": Layout(),
        "data": "synthetic",
        "dimensions": dimensions.get(workload),
        "device": "cpu",
        "warmup_steps": 1,
        "measured_steps": 3,
        "cores_per_device": 1,
        "seed": 1,
        "data_dir": "",
        "rank": 0,
        "local_rank": 0,
        "ranks": 1,
        "local_ranks": 1,
        "cores": [0],
        "interpreter": "",
        "address": "127.0.0.1",
        "port": 0,
        "peers": ["127.0.0.1:0"],
        "interface": "lo",
        "meeting": "",
        "gpus": [],
        "capability": "",
        "result": "",
    }
    return Run(**{**values, **changes})


def printed(run: Run, code: str, environment: Path) -> str:
    """What `code` prints, given the Run as `run` and the variables that its framework asks for."""
    (said,) = printed_by_all([run], code, environment)
    return said


def printed_by_all(runs: list[Run], code: str, environment: Path) -> list[str]:
    """What `code` prints in each of these processes, which run at the same time."""
    built = json.loads((environment / "env.json").read_text())
    processes = []
    for run in runs:
        environ = dict(os.environ, PYTHONPATH=str(SCRIPTS), **built.get("environ", {}))
        environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="0" if run.cuda else "")
        environ.update(frameworks.load(run.framework).environment(run))
        spec = json.dumps(dataclasses.asdict(run))
        command = [str(ROOT / built["interpreter"]), "-c", START + code, spec]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen(command, cwd=ROOT, env=environ, **streams))
    try:
        said = [each.communicate(timeout=600) for each in processes]
    finally:
        for each in processes:
            each.kill()
    for each, (_, errors) in zip(processes, said, strict=True):
        assert each.returncode == 0, errors[-3000:]
    return [output for output, _ in said]


def ranks(run: Run, count: int) -> list[Run]:
    """So many ranks of the same training, on one node."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count + 1)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        port, *ports = (each.getsockname()[1] for each in sockets)
    changes = {"ranks": count, "local_ranks": count, "port": port}
    changes["peers"] = [f"127.0.0.1:{each}" for each in ports]
    return [
        dataclasses.replace(run, rank=rank, local_rank=rank, **changes) for rank in range(count)
    ]
