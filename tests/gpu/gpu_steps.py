"""Training and inference steps to look at without a GPU, and what their workloads say of them.

In: fields of a case. Out: a Step, which xla_compile.py compiles (JAX), or torch_step.py drives on a
device that does nothing (PyTorch); FLOPs and bytes by the workload's own formulas.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dlperf import workloads
from dlperf.analysis.round import roofline
from dlperf.contract.dimension import Dimensions
from dlperf.contract.layout import SPELLED, Layout
from dlperf.contract.traffic import COUNTS

#: What a rank of one card of published rounds takes at once, where no other size is asked for.
BATCH = {
    "resnet50": 256,
    "bert": 64,
    "wide_deep": 16384,
    "electra": 176,
    "electra_squad": 32,
    "gpt": 8,
    "insightface": 64,
}


@dataclass(frozen=True)
class Step:
    """A step of a page. layout: fields of contract/layout.py. dimensions: those that are not the
    workload's standard ones. layers: instead of the network's own number (0: that), as
    gpu_runs.shorten has it. control: the name of what is made wrong in it (xla_controls.py,
    torch_controls.py). compiler: the framework's default on a GPU where there is none. rank: whose
    step it is, where ranks have different ones: a pipeline's stages.
    """

    workload: str
    precision: str = "amp"
    devices: int = 1
    layout: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 0
    dimensions: Mapping[str, Any] = field(default_factory=dict)
    layers: int = 0
    control: str = ""
    compiler: str = ""
    scenario: str = "train"
    rank: int = 0

    @property
    def replicas(self) -> str:
        """'1', 'dp8', 'dp2zero3', 'tp2pp2acc4', 'pp2acc4 rank 1': the layout as names spell it, and
        a rank that is not the first."""
        layout = Layout(**self.layout)
        count = layout.data_parallel(self.devices)
        parts = [f"dp{count}"] if count > 1 else []
        spelled = "".join(parts + layout.spelled(*SPELLED)) or "1"
        return f"{spelled} rank {self.rank}" if self.rank else spelled

    @property
    def name(self) -> str:
        """'bert-amp-inductor-dp2-layers=1-turned rows': what is not the default in it."""
        dimensions = [f"{key}={value}" for key, value in self.dimensions.items()]
        scenario = "" if self.scenario == "train" else self.scenario
        parts = [self.workload, scenario, self.precision, self.compiler, self.replicas]
        return "-".join(filter(None, [*parts, *dimensions, self.control]))

    @property
    def batch(self) -> int:
        return self.batch_size or BATCH[self.workload]

    @property
    def all_dimensions(self) -> dict[str, Any]:
        return dict(Dimensions(workloads.dimensions(self.workload), self.dimensions))

    @property
    def _is_counted(self) -> bool:
        """Whether the workload's formulas are of this step: not of a split or shortened network,
        nor of one that computes activations twice."""
        layout = Layout(**self.layout)
        return not (
            self.layers or layout.devices_per_replica > 1 or layout.activation_checkpointing
        )

    @property
    def flops(self) -> float | None:
        """Those of the step's products, by the workload's formula; None where it does not apply."""
        if not self._is_counted:
            return None
        samples = self.batch * Layout(**self.layout).accumulation
        own = workloads.of(self.workload)
        return samples * own.flops_per_sample(self.all_dimensions, self.scenario)

    @property
    def limits(self) -> dict[str, float] | None:
        """Bytes of the step by the workload's own count of kernels: least, fused, eager; and
        `kept`, what the products of one micro-step give, which its backward pass reads again.

        None where the formulas do not apply, and of a workload that counts no kernels.
        """
        if not self._is_counted or self.scenario != "train":
            return None
        layout = Layout(**self.layout)

        def counted(micro_steps):
            samples = self.batch * micro_steps
            own = self.workload, self.all_dimensions, samples, self.precision, micro_steps
            return roofline.step(*own)

        whole = counted(layout.accumulation)
        if whole is None:
            return None
        # the first of the kernels is the weights and their optimiser; of the least traffic of a
        # product its result is a fifth (contract/traffic.py)
        kept = sum(each.least for each in counted(1).kernels[1:]) / 5
        return {**{count: whole.bytes(count) for count in COUNTS}, "kept": kept}


def gigabytes(count: float | None) -> float | str:
    """Bytes in GB; "" if they are unknown."""
    return "" if count is None else round(count / 1e9, 2)


def made_by(script: Path, python: Path, out: Path, step: Step, seconds: float) -> str:
    """Give a step to a script, which writes what it makes of it into a folder; return the end of
    what it said if it failed, else ""."""
    asked = out / "step.json"
    asked.write_text(json.dumps(dict(asdict(step), batch_size=step.batch)))
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, script, asked, out],
        cwd=out,
        env=environ,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    return (done.stderr.strip()[-3000:] or "it ended without a word") if done.returncode else ""
