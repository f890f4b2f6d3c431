"""Training steps to compile for a GPU that is not there, and what comes of them.

In: a Step. Out: its Compiled, made by xla_compile.py in a process of its own.
"""

import gzip
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xla_program import Program

from dlperf import workloads
from dlperf.analysis.round import roofline
from dlperf.contract.dimension import Dimensions
from dlperf.contract.layout import Layout
from dlperf.contract.traffic import COUNTS

HERE = Path(__file__).resolve().parent
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


class CompileError(Exception):
    """A step that does not compile; the text is the end of what was said."""


@dataclass(frozen=True)
class Step:
    """A step of the page of JAX. layout: fields of contract/layout.py. dimensions: those that are
    not the workload's standard ones. layers: instead of the network's own number (0: that), as
    xla_compile.shorten has it. control: the name of what xla_controls.py makes wrong in it.
    """

    workload: str
    precision: str = "amp"
    devices: int = 1
    layout: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 0
    dimensions: Mapping[str, Any] = field(default_factory=dict)
    layers: int = 0
    control: str = ""

    @property
    def replicas(self) -> str:
        """'1', 'dp8', 'dp2tp2pp2acc4': the layout as names spell it."""
        layout = Layout(**self.layout)
        count = layout.data_parallel(self.devices)
        parts = [f"dp{count}"] if count > 1 else []
        order = ("tensor_parallel", "pipeline_parallel", "activation_checkpointing", "accumulation")
        return "".join(parts + layout.spelled(*order)) or "1"

    @property
    def batch(self) -> int:
        return self.batch_size or BATCH[self.workload]

    @property
    def all_dimensions(self) -> dict[str, Any]:
        return dict(Dimensions(workloads.dimensions(self.workload), self.dimensions))


@dataclass(frozen=True)
class Compiled:
    """A step's program and what XLA says of it (facts.json of xla_compile.py)."""

    step: Step
    program: Program
    facts: Mapping[str, Any]

    @property
    def temporary_bytes(self) -> int:
        """The most memory that arrays between kernels take at one time."""
        return self.facts["temporary_bytes"]

    @property
    def _is_counted(self) -> bool:
        """Whether the workload's formulas are of this step: not of a split or shortened network,
        nor of one that computes activations twice."""
        layout = Layout(**self.step.layout)
        return not (
            self.step.layers or layout.devices_per_replica > 1 or layout.activation_checkpointing
        )

    @property
    def flops(self) -> float | None:
        """Those of the step's products, by the workload's formula; None where it does not apply."""
        if not self._is_counted:
            return None
        own = workloads.of(self.step.workload)
        samples = self.step.batch * Layout(**self.step.layout).accumulation
        return samples * own.flops_per_sample(self.step.all_dimensions, "train")

    @property
    def limits(self) -> dict[str, float] | None:
        """Bytes of the step by the workload's own count of kernels: least, fused, eager; and
        `kept`, what the products of one micro-step give, which its backward pass reads again.

        None where the formulas do not apply, and of a workload that counts no kernels.
        """
        if not self._is_counted:
            return None
        layout = Layout(**self.step.layout)

        def counted(micro_steps):
            step, samples = self.step, self.step.batch * micro_steps
            own = step.workload, step.all_dimensions, samples, step.precision, micro_steps
            return roofline.step(*own)

        whole = counted(layout.accumulation)
        if whole is None:
            return None
        # the first of the kernels is the weights and their optimiser; of the least traffic of a
        # product its result is a fifth (contract/traffic.py)
        kept = sum(each.least for each in counted(1).kernels[1:]) / 5
        return {**{count: whole.bytes(count) for count in COUNTS}, "kept": kept}


def compiled(step: Step, python: Path, seconds: float = 3600) -> Compiled:
    """Compile a step under this Python. Raises CompileError."""
    with tempfile.TemporaryDirectory() as folder:
        compile_into(Path(folder), step, python, seconds)
        return read(Path(folder), step)


def compile_into(out: Path, step: Step, python: Path, seconds: float = 3600) -> None:
    """Write a step's program.txt and facts.json into a folder. Raises CompileError."""
    asked = out / "step.json"
    asked.write_text(json.dumps(dict(asdict(step), batch_size=step.batch)))
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, HERE / "xla_compile.py", asked, out],
        cwd=out,
        env=environ,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    if done.returncode:
        raise CompileError(done.stderr.strip()[-3000:])


def read(folder: Path, step: Step) -> Compiled:
    """What compile_into wrote; the program may be compressed since."""
    facts = json.loads((folder / "facts.json").read_text())
    packed = folder / "program.txt.gz"
    if packed.exists():
        return Compiled(step, Program(gzip.decompress(packed.read_bytes()).decode()), facts)
    return Compiled(step, Program((folder / "program.txt").read_text()), facts)
