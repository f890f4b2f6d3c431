"""The config of a round: the model of its keys, with a description of each.

Its sections are in `sections.py` and `settings.py`, the types of single values in `values.py`;
`read.py` makes a `Config` from YAML files or a mapping. `config/schema.json` and the table of keys
in `config/README.md` are generated from these models (`python -m dlperf.plan schema`).
"""

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from dlperf import scenarios
from dlperf.contract.case import INFERRING, MINIMUM_SECONDS, PACED, Case
from dlperf.contract.choices import Choices, Section
from dlperf.plan.made_sections import Workloads
from dlperf.plan.peaks import DeviceName, PeakPrecision, Teraflops
from dlperf.plan.sections import Steps
from dlperf.plan.settings import Checks, Cluster, Environments, Search
from dlperf.plan.values import (
    BesideName,
    Device,
    Failure,
    Framework,
    Margin,
    Memory,
    OnFailure,
    RoundName,
    Topology,
)


class Config(Section):
    """One round: what is measured, how often, and how."""

    round: RoundName = Field(
        description="The name of the round; everything is written to `results/<round>/`. Letters, "
        "digits, `.`, `_` and `-`.",
        examples=["laptop"],
    )
    device: Device = Field(
        description="`cpu`: a device is a process pinned to `cores_per_device` cores. `cuda`: a "
        "device is one NVIDIA GPU.",
        examples=["cpu"],
    )
    frameworks: Choices[Framework] = Field(
        description="The frameworks to measure; a workload can have a list of its own. Only the "
        "environments that cases need are built.",
        examples=[["pytorch", "jax"]],
    )
    workloads: Workloads = Field(description="The workloads to measure.")
    topologies: Choices[Topology] = Field(
        description="The numbers of nodes and of devices on each node, as `<nodes>n<devices>d`. "
        "Speed-up and scaling efficiency need `1n1d` among them.",
        examples=[["1n1d", "1n2d"], ["1n1d", "1n8d", "2n8d", "4n8d"]],
    )
    repetitions: int = Field(
        default=7,
        ge=1,
        le=10_000,
        description="The number of independent runs of each case; tables show their median. Seven "
        "give an interval with a coverage of 98 %, three one of 75 %; ranks need at least four.",
        examples=[3, 7],
    )
    steps: Steps = Field(default=Steps(), description="The steps of a repetition.")
    minimum_seconds: float | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        allow_inf_nan=False,
        description="About how long the timed window lasts at least, in `train` and for the "
        "throughput of `infer`: where `steps.measured` take less, by the pace of as many steps "
        "before the window, it has more steps, the same number on all ranks. A window below a "
        "second shows a GPU's clocks before it is warm. Left out: 10 on `cuda`, 0 on `cpu`. Does "
        "not apply to `quality`, to servers and to spot runs.",
        examples=[10],
    )
    cores_per_device: int = Field(
        default=1,
        ge=1,
        le=4096,
        description="The number of cores of one device on `cpu`. On `cuda`, the number of cores "
        "for the process of each GPU and its data loader.",
        examples=[1],
    )
    seed: int = Field(
        default=1,
        ge=0,
        lt=2**31,
        description="The seed of the order in which frameworks take turns, and of the quality "
        "scenario. All other seeds are drawn when the round begins, and recorded.",
        examples=[1],
    )
    timeout_seconds: int = Field(
        default=1800,
        ge=1,
        le=10_000_000,
        description="The timeout of one repetition, including start-up. After it, the repetition "
        "is stopped and recorded as `timeout`.",
        examples=[300],
    )
    memory_limit: Memory | None = Field(
        default=None,
        description="On `cpu`, the memory that a device may commit, as `4 GB`, `4 GiB` or a "
        "number of bytes: beyond it a repetition is out of memory. Required for a search, here or "
        "in `search`, so that the machine does not swap. All devices of a node together may use "
        "three quarters of its memory.",
        examples=["4 GB"],
    )
    search: Search = Field(default=Search(), description="How `max` is searched for.")
    checks: Checks = Field(
        default=Checks(), description="The spot checks that prove the timed process."
    )
    on_failure: OnFailure = Field(
        default="record",
        description="What to do when a repetition runs out of memory, crashes or exceeds its "
        "timeout: `record` that and continue, or `stop` the round, whose next call runs it again.",
        examples=["record"],
    )
    retry: list[Failure] = Field(
        default=[],
        description="The next call repeats repetitions whose record has one of these statuses.",
        examples=[["crashed", "timeout"]],
    )
    beside: list[BesideName] = Field(
        default=[],
        description="What the report holds its cells against, in a separate section, with a "
        "verdict on each cell of theirs that was measured here: publications, by the names of "
        "files in `config/published/`, without `.yaml`; or other rounds, by their names in "
        "`results/`, or by the path of a round's folder or of an unpacked archive. Their numbers "
        "are never mixed with measured results.",
        examples=[["dlperf-v1"], ["dlperf-v1", "results/before", "/data/unpacked-archive"]],
    )
    beside_margin: Margin = Field(
        default=0.05,
        description="How far a value may be from the one in `beside`, as a share of that, to count "
        "as reproduced: 0.05 is 5 % "
        "([docs/comparing.md](../docs/comparing.md#verdicts-on-figures-of-others)).",
        examples=[0.05],
    )
    environments: Environments = Field(
        default=Environments(), description="How environments are built."
    )
    cluster: Cluster = Field(
        default=Cluster(), description="The names of the cluster's parts, which a profile sets."
    )
    peaks: dict[DeviceName, dict[PeakPrecision, Teraflops]] = Field(
        default={},
        description="The dense peaks, without sparsity, of one GPU or of one core of a CPU, in "
        "TFLOP/s by precision. The key is the device's name in records. MFU is relative to them. "
        "`config/peaks.yaml` has those of common GPUs ([docs/limits.md](../docs/limits.md)).",
        examples=[{"AMD EPYC 9554 64-Core Processor": {"fp32": 0.12}}],
    )

    def memory_limit_of(self, case: Case) -> int:
        """What a device may commit in a repetition of this case, in bytes; 0 without a limit."""
        own = self.search.memory_limit if case.searched else None
        return own or self.memory_limit or 0

    def minimum_seconds_of(self, scenario: str) -> float:
        """How long the window of a repetition in this scenario lasts at least."""
        if scenario not in PACED:
            return 0
        standard = MINIMUM_SECONDS[self.device]
        return standard if self.minimum_seconds is None else self.minimum_seconds

    def timeout_of(self, workload: str, scenario: str = "train") -> int:
        """The longest time of one repetition of this workload, in seconds."""
        section = self.workloads.asked()[workload]
        quality = section.quality if scenarios.curved(scenario) else None
        own = quality.timeout_seconds if quality else None
        return own or section.timeout_seconds or self.timeout_seconds

    @property
    def all_frameworks(self) -> list[str]:
        """The frameworks that some section asks for, those of the round's own list first."""
        asked = list[str]()
        for section in self.workloads.asked().values():
            asked += section.frameworks or self.frameworks
            for entry in section.also:
                asked += entry.frameworks or []
        first = [name for name in self.frameworks if name in asked]
        return list(dict.fromkeys([*first, *asked]))

    def steps_of(self, workload: str, scenario: str = "train") -> Steps:
        """The steps of a repetition of this workload."""
        section = self.workloads.asked()[workload]
        own = section.infer.steps if scenario in INFERRING and section.infer else None
        return own or section.steps or self.steps

    @field_validator("workloads")
    @classmethod
    def _some_workload(cls, value: Workloads) -> Workloads:
        if not value.asked():
            error = {"allowed": tuple(Workloads.model_fields)}
            raise PydanticCustomError("no_workload", "names no workload", error)
        return value
