"""HugeCTR: rank 0 prints how long the last steps took, evaluations among them included."""

import re

from dlperf.analysis.logs.forms import Form, Source, Stated, regex, stated_precision

SOURCE = Source(
    title="HugeCTR",
    upstream="""
        NVIDIA-Merlin/HugeCTR HugeCTR/src/pybind/model.cpp: "Iter: " << iter << " Time(" << display
        << " iters): " << seconds << "s Loss: " << loss << " lr:" << lr, after
        "[HCTR][07:03:04.414][INFO][RK0][main]: ", "[HUGECTR][02:51:59][INFO][RANK0]: " or
        "[02d07h54m43s][HUGECTR][INFO]: "; "Training batchsize: %d, evaluation …", of all devices;
        "Use mixed precision: %d, …"; the settings as DLPerf's HugeCTR/ scripts print them""",
    forms=(
        Form(
            "hugectr",
            "HugeCTR",
            regex(
                r"Iter: (?P<step>\d+) Time\((?P<steps>\d+) iters\): (?P<seconds><N>)s "
                r"Loss: (?P<loss><N>)"
            ),
        ),
    ),
    stated=(
        Stated("devices_per_node", re.compile(r"^gpu_num_per_node = (\d+)")),
        Stated("nodes", re.compile(r"^num_nodes = (\d+)")),
        Stated("batch_size", re.compile(r"^batch_size_per_device = (\d+)")),
        Stated("global_batch_size", re.compile(r"^batch_size = (\d+)")),
        Stated("global_batch_size", re.compile(r"\bTraining batchsize: (\d+)")),
        *stated_precision("Use mixed precision"),
    ),
    pauses=re.compile(r"\]: (?:Evaluation|Eval Time)"),
    durations_first=True,
)
