"""The config of a round: one model a section, every key described.

In: a round's YAML file, or the mapping that Snakemake made of it. Out: a `Config`, or a
`ConfigError` that lists everything that is wrong. `config/schema.json` and the table of keys in
`config/README.md` are generated from these models (`python -m dlperf.plan schema`).
"""

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ValidationError,
    create_model,
    field_validator,
)
from pydantic_core import PydanticCustomError

from dlperf import frameworks, workloads
from dlperf.contract import parallel
from dlperf.contract.case import DEVICES, PRECISIONS, SCENARIOS
from dlperf.contract.choices import Choices, OneOf, Pattern, Section
from dlperf.contract.dimension import Dimension
from dlperf.contract.parallel import Parallel
from dlperf.contract.problems import ConfigError, explain, read_yaml, repeated
from dlperf.plan.checks import without_batch_size
from dlperf.plan.compilers import CompilerName
from dlperf.plan.peaks import DeviceName, PeakPrecision, Teraflops, above_dense

#: Folders of results/ that all rounds share, so no round may have these names.
RESERVED_ROUNDS = ("certificates", "data", "environments", "imported", "nodes")
#: What the names of imported rounds begin with, and no other's.
IMPORTED = "imported-"


def _not_reserved(name: str) -> str:
    if name in RESERVED_ROUNDS:
        raise PydanticCustomError("reserved", "is a folder of results/ that all rounds share")
    if name.startswith(IMPORTED):
        message = "begins as only rounds of imported tables do (docs/importing.md)"
        raise PydanticCustomError("imported", message)
    return name


RoundName = Annotated[
    str,
    Pattern("a word of letters, digits, '.', '_' and '-'", r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"),
    AfterValidator(_not_reserved),
]
Topology = Annotated[
    str,
    Pattern("<nodes>n<devices a node>d, such as 2n8d", r"[1-9][0-9]{0,3}n[1-9][0-9]{0,3}d"),
]
Framework = Annotated[str, OneOf("a framework", frameworks.NAMES)]
Device = Annotated[str, OneOf("a device", DEVICES)]
Scenario = Annotated[str, OneOf("a scenario", SCENARIOS)]
Precision = Annotated[str, OneOf("a precision", PRECISIONS)]
Compiler = Annotated[str, CompilerName()]
Backend = Annotated[str, OneOf("a backend", ("venv", "conda"))]
OnFailure = Annotated[str, OneOf("a way to go on", ("record", "stop"))]
Failure = Annotated[str, OneOf("a status to run again", ("oom", "timeout", "crashed"))]
NodeName = Annotated[str, Pattern("a name such as node1", r"[A-Za-z0-9][A-Za-z0-9._-]*")]
PublishedName = Annotated[
    str, Pattern("the name of a file in config/published", r"[A-Za-z0-9][A-Za-z0-9._-]*")
]
PositiveInt = Annotated[int, Field(ge=1)]


class Steps(Section):
    """How long a repetition trains."""

    warmup: int = Field(
        default=20,
        ge=1,
        description="Training steps before the clock starts: compilation, autotuning and caches "
        "happen here.",
        examples=[2, 20],
    )
    measured: int = Field(
        default=100,
        ge=1,
        description="Training steps inside the timed window.",
        examples=[10, 100],
    )


class Workload(Section):
    """What is asked of a workload; a case is made of every combination of the lists."""

    scenarios: Choices[Scenario] = Field(
        default=["train"],
        description="`train`: training throughput.",
        examples=[["train"]],
    )
    precisions: Choices[Precision] = Field(
        description="`fp32`: float32 and nothing less. `tf32`: float32 whose products a GPU rounds "
        "to TF32. `amp`: the mixed precision that the framework has on this device (bf16 on CPU, "
        "fp16 on GPU, unless the framework's file says otherwise).",
        examples=[["fp32"], ["tf32", "amp"]],
    )
    compilers: Choices[Compiler] = Field(
        default=["default"],
        description="`default`: what the framework's users mostly run on this device. `off`: no "
        "compiler. `on`: the framework's own compiler (torch.compile, XLA, CINN, nn.Graph, "
        "GRAPH_MODE, static hybridize, jit). Or one compiler by its name; frameworks that lack it "
        "then show as unsupported.",
        examples=[["default"], ["off", "on"], ["inductor"]],
    )
    batch_sizes: dict[Precision, Choices[PositiveInt]] = Field(
        description="Batch sizes for one device, a list for each precision that is asked for.",
        examples=[{"fp32": [128], "amp": [256]}],
    )
    tensor_parallel: Choices[PositiveInt] = Field(
        default=[1],
        description="Devices that each matrix of a model replica is split over, where the workload "
        "can be split.",
        examples=[[1], [1, 8]],
    )
    pipeline_parallel: Choices[PositiveInt] = Field(
        default=[1],
        description="Devices that the layers of a model replica are split over, likewise.",
        examples=[[1], [1, 2]],
    )
    zero_stage: Choices[Annotated[int, Field(ge=0, le=3)]] = Field(
        default=[0],
        description="What model replicas share instead of each keeping its own: 0 nothing, 1 the "
        "optimiser's state, 2 gradients too, 3 weights too (ZeRO).",
        examples=[[0], [0, 2]],
    )
    accumulation: Choices[PositiveInt] = Field(
        default=[1],
        description="Micro-steps an update: gradients of so many batches are averaged before the "
        "weights change. The global batch is batch size x model replicas x accumulation.",
        examples=[[1], [1, 8]],
    )
    data: list[str] = Field(description="Kinds of data; each workload has its own.")
    steps: Steps | None = Field(
        default=None,
        description="Steps of a repetition, where this workload has others than the round.",
        examples=[{"warmup": 2, "measured": 5}],
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        description="Longest time of a repetition, where this workload has another than the round.",
        examples=[600],
    )

    @property
    def dimensions(self) -> list[dict[str, int | str]]:
        """Every combination of the workload's own dimensions: of the keys that not all have."""
        own = [name for name in type(self).model_fields if name not in Workload.model_fields]
        values = [getattr(self, name) for name in own]
        lists = [value if isinstance(value, list) else [value] for value in values]
        lists = [[int(each) if isinstance(each, bool) else each for each in one] for one in lists]
        return [dict(zip(own, each, strict=True)) for each in itertools.product(*lists)]

    @property
    def parallel(self) -> list[Parallel]:
        """Every combination of the ways to spread a model and its updates."""
        lists = [getattr(self, name) for name in parallel.NAMES]
        return [Parallel(*each) for each in itertools.product(*lists)]


def _section(name: str) -> type[Workload]:
    """The section of a workload: what all have, its kinds of data and its own dimensions."""
    facts, fields = workloads.facts(name), {}
    kinds = Annotated[str, OneOf("a kind of data", tuple(facts.DATA))]
    described = "; ".join(f"`{kind}`: {each.description}" for kind, each in facts.DATA.items())
    fields["data"] = (
        Choices[kinds],  # type: ignore[valid-type]
        Field(default=["synthetic"], description=f"{described}.", examples=[["sample"]]),
    )
    for own, each in facts.DIMENSIONS.items():
        kind, standard = _type_of(each)
        field = Field(default=standard, description=each.description, examples=list(each.examples))
        fields[own] = (kind, field)
    title = "".join(part.capitalize() for part in name.split("_"))
    text = f"{facts.TITLE}: {facts.SUMMARY}"
    model = create_model(title, __base__=Workload, __doc__=text, **fields)  # type: ignore[call-overload]
    return globals().setdefault(title, model)  # where pickle looks for it


def _type_of(dimension: Dimension) -> tuple[Any, Any]:
    """(type, default) of a dimension's key: a size, or a list of choices."""
    if not dimension.is_choice:
        return Annotated[int, Field(ge=dimension.minimum, le=dimension.maximum)], dimension.standard
    if set(dimension.words) == {0, 1}:
        return Choices[bool], [bool(dimension.standard)]
    words = Annotated[str, OneOf("a choice", tuple(map(str, dimension.words)))]
    return Choices[words], [dimension.standard]  # type: ignore[valid-type]


def _sections() -> type[BaseModel]:
    """A model with a key for each workload that has facts."""
    fields: dict[str, Any] = {
        name: (_section(name) | None, Field(default=None, description=f"{_title(name)}."))
        for name in workloads.NAMES
    }
    text = "The workloads of the round; one that is left out is not measured."
    return create_model("Workloads", __base__=_Workloads, __doc__=text, **fields)


def _title(name: str) -> str:
    return workloads.facts(name).TITLE


class _Workloads(Section):
    def asked(self) -> dict[str, Workload]:
        """The workloads that the round asks for, by name."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: section for name, section in sections.items() if section is not None}


if TYPE_CHECKING:  # which keys it has is known when it is imported
    Workloads = _Workloads
else:
    Workloads = _sections()


class Environments(Section):
    """Where the frameworks come from."""

    backend: Backend = Field(
        default="venv",
        description="`venv`: uv builds one virtual environment a framework from its lock. `conda`: "
        "Snakemake builds them from the same files (call it with `--sdm conda`).",
        examples=["venv"],
    )
    interpreters: dict[Framework, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="Frameworks that are installed already: the path of the Python that has them "
        "(a module's, a container's). Nothing is built for these, and no lock is applied.",
        examples=[{"pytorch": "/opt/pytorch/bin/python3"}],
    )
    find_links: list[str] = Field(
        default=[],
        description="Folders or pages with wheels to take before the package index, for builds "
        "that it does not have.",
        examples=[["/srv/wheels"]],
    )


class Cluster(Section):
    """What a cluster calls its parts; a site's profile says it (`profiles/slurm/config.yaml`)."""

    interface: str = Field(
        default="",
        description="Network interface that ranks of several nodes talk through, such as `ib0`. "
        "Empty: that of the default route.",
        examples=["ib0"],
    )
    gres: str = Field(
        default="gpu",
        min_length=1,
        description="What the scheduler calls a GPU, with its type where the site wants one.",
        examples=["gpu", "gpu:a100"],
    )
    nodes: list[NodeName] = Field(
        default=[],
        description="Nodes that `screen` looks at before a round, and `all` calibrates for MFU. "
        "Empty: the machine that Snakemake runs on; on a cluster none.",
        examples=[["node1", "node2"]],
    )
    launcher: str = Field(
        default="srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 "
        "--cpus-per-task={cores} --mem=0 {gres}",
        description="Starts one process on each node of a job; `{nodes}`, `{cores}` (of a node), "
        "`{devices}` (of a node) and `{gres}` (`--gres=…`, on `cuda`) are filled in.",
        examples=["mpirun --map-by ppr:1:node -n {nodes}"],
    )

    @field_validator("launcher")
    @classmethod
    def _known_places(cls, value: str) -> str:
        try:
            value.format(nodes=1, cores=1, devices=1, gres="")
        except (KeyError, IndexError, ValueError):
            message = "has other places to fill in than {nodes}, {cores}, {devices} and {gres}"
            raise PydanticCustomError("places", message) from None
        return value


class Config(Section):
    """One round: what is measured, how often, and how."""

    round: RoundName = Field(
        description="Name of the round; everything is written to `results/<round>/`. Letters, "
        "digits, `.`, `_` and `-`.",
        examples=["laptop"],
    )
    device: Device = Field(
        description="`cpu`: a device is a process pinned to `cores_per_device` cores. `cuda`: a "
        "device is one NVIDIA GPU.",
        examples=["cpu"],
    )
    frameworks: Choices[Framework] = Field(
        description="The frameworks to measure; only their environments are built.",
        examples=[["pytorch", "jax"]],
    )
    workloads: Workloads = Field(description="What they are measured on.")
    topologies: Choices[Topology] = Field(
        description="Numbers of nodes and of devices a node, as `<nodes>n<devices>d`. Speed-up and "
        "scaling efficiency need `1n1d` among them.",
        examples=[["1n1d", "1n2d"], ["1n1d", "1n8d", "2n8d", "4n8d"]],
    )
    repetitions: int = Field(
        default=7,
        ge=1,
        description="Independent runs of every case; tables show their median. Seven give an "
        "interval of 98 % coverage, three one of 75 %.",
        examples=[3, 7],
    )
    steps: Steps = Field(default=Steps(), description="Steps of a repetition.")
    cores_per_device: int = Field(
        default=1,
        ge=1,
        description="Cores that one device has, on `cpu`. On `cuda` it is the number of cores for "
        "each GPU's process and its data loader.",
        examples=[1],
    )
    seed: int = Field(
        default=1,
        ge=0,
        lt=2**31,
        description="Seed of weights, synthetic batches and crops, and of the order in which "
        "frameworks take turns.",
        examples=[1],
    )
    timeout_seconds: int = Field(
        default=1800,
        ge=1,
        description="Longest time of one repetition, start-up included; after it the repetition is "
        "stopped and recorded as `timeout`.",
        examples=[300],
    )
    on_failure: OnFailure = Field(
        default="record",
        description="When a repetition runs out of memory, crashes or takes too long: `record` "
        "that and go on, or `stop` the round.",
        examples=["record"],
    )
    retry: list[Failure] = Field(
        default=[],
        description="Repetitions whose record has one of these statuses are run again by the next "
        "call.",
        examples=[["crashed", "timeout"]],
    )
    beside: list[PublishedName] = Field(
        default=[],
        description="Imported rounds that the report shows in a section of its own, where they "
        "have the same workload and precision: names of files in `config/published/`, without "
        "`.yaml`. They are never mixed with what was measured.",
        examples=[["dlperf-v1"]],
    )
    environments: Environments = Field(
        default=Environments(), description="How environments are built."
    )
    cluster: Cluster = Field(
        default=Cluster(), description="What the cluster calls its parts; a profile says it."
    )
    peaks: dict[DeviceName, dict[PeakPrecision, Teraflops]] = Field(
        default={},
        description="Peaks that you state, in TFLOP/s by precision: of one GPU, or of one core of "
        "a CPU, by its name as records have it. Dense, without sparsity. MFU is shown beside them; "
        "`config/peaks.yaml` has those of common GPUs ([docs/limits.md](../docs/limits.md)).",
        examples=[{"AMD EPYC 9554 64-Core Processor": {"fp32": 0.12}}],
    )

    def timeout_of(self, workload: str) -> int:
        """The longest time of a repetition of this workload, in seconds."""
        return self.workloads.asked()[workload].timeout_seconds or self.timeout_seconds

    def steps_of(self, workload: str) -> Steps:
        """The steps of a repetition of this workload."""
        return self.workloads.asked()[workload].steps or self.steps

    @field_validator("workloads")
    @classmethod
    def _some_workload(cls, value: Workloads) -> Workloads:
        if not value.asked():
            error = {"allowed": tuple(Workloads.model_fields)}
            raise PydanticCustomError("no_workload", "names no workload", error)
        return value


def load(config: Mapping[str, Any] | str | os.PathLike[str], source: str = "") -> Config:
    """Validate a round's config, given as a mapping or as the path of a YAML file.

    `source` is the file's name in messages. Raises ConfigError, which lists every problem.
    """
    if isinstance(config, Mapping):
        source, data = source or "config", dict(config)
    else:
        source = source or str(config)
        data = read_yaml(Path(config), source)
    problems = [*repeated(data), *without_batch_size(data)]
    try:
        valid = Config.model_validate(data, context={"frameworks": _frameworks(data)})
    except ValidationError as error:
        problems = explain(error, Config) + problems
    else:
        problems += above_dense(valid)
    if problems:
        raise ConfigError(source, problems)
    return valid


def _frameworks(data: Mapping[str, Any]) -> list[str]:
    """The frameworks whose compilers may be named: the round's, or all while that list is wrong."""
    asked = data.get("frameworks")
    right = isinstance(asked, list) and all(name in frameworks.NAMES for name in asked)
    return list(asked if right and asked else frameworks.NAMES)


def dump(config: Config) -> str:
    """The whole config as YAML, defaults included, in the order of the models.

    But for what a cluster calls its parts: the same round may go on elsewhere.
    """
    content = config.model_dump(exclude_none=True, exclude={"cluster"})
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)
