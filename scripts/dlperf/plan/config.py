"""The config of a round: a model for each section, with a description of every key.

The input is a round's YAML files, or the mapping that Snakemake made from them. The output is a
`Config`, or a `ConfigError` that lists everything that is wrong. `config/schema.json` and the table
of keys in `config/README.md` are generated from these models (`python -m dlperf.plan schema`).
"""

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Formatter
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
from dlperf.contract.case import DEVICES, INFERRING, PRECISIONS, SCENARIOS, Case
from dlperf.contract.choices import (
    MAX,
    Bytes,
    Choices,
    OneOf,
    OneOrMore,
    OrMax,
    Pattern,
    Section,
)
from dlperf.contract.dimension import Dimension
from dlperf.contract.problems import (
    ConfigError,
    Problem,
    check_size,
    explain,
    misread,
    read_written,
    repeated,
)
from dlperf.contract.written import Written
from dlperf.plan.checks import (
    cannot_be_searched,
    not_divided,
    of_other_scenarios,
    split_topology,
    too_small,
    without_batch_size,
    without_section,
)
from dlperf.plan.compilers import CompilerName
from dlperf.plan.layouts import Layout, PositiveInt, doubled, fitting_nowhere
from dlperf.plan.peaks import DeviceName, PeakPrecision, Teraflops, above_dense

#: What lies in results/ beside the rounds, so no round may have these names.
RESERVED_ROUNDS = (
    *("README.md", "benchmarks", "certificates", "data", "environments", "imported", "nodes"),
    "slurm_logs",
)
#: What the names of files end with that are made beside rounds, or of them.
RESERVED_ENDINGS = (".html", ".json", ".md", ".tsv", ".zip")
#: The names of imported rounds begin with this, and no others do.
IMPORTED = "imported-"


def _not_reserved(name: str) -> str:
    if name in RESERVED_ROUNDS:
        raise PydanticCustomError("reserved", "is something else in results/")
    if name.endswith(RESERVED_ENDINGS):
        message = "is a folder, and would look like a file; leave the ending out"
        raise PydanticCustomError("ending", message)
    if name.startswith(IMPORTED):
        message = (
            "begins like an imported round, which a measured round may not (docs/importing.md)"
        )
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
# A server is asked for by `infer.arrival_rate`.
ASKED = tuple(scenario for scenario in SCENARIOS if scenario != "server")
Scenario = Annotated[str, OneOf("a scenario", ASKED)]
Precision = Annotated[str, OneOf("a precision", PRECISIONS)]
Compiler = Annotated[str, CompilerName()]
Backend = Annotated[str, OneOf("a backend", ("venv", "conda"))]
OnFailure = Annotated[str, OneOf("what to do after a failure", ("record", "stop"))]
Failure = Annotated[str, OneOf("a status to run again", ("oom", "timeout", "crashed"))]
NodeName = Annotated[str, Pattern("a name such as node1", r"[A-Za-z0-9][A-Za-z0-9._-]*")]
BesideName = Annotated[
    str,
    Pattern(
        "the name of a file in config/published, of a round, or the path of a round's folder",
        r"(?:[^\0-\x1f]*/)?[A-Za-z0-9][A-Za-z0-9._-]*/?",
    ),
]


def _is_margin(share: float) -> float:
    if not 0 < share < 1:
        message = "is no share above 0 and below 1, such as 0.05 for 5 %"
        raise PydanticCustomError("margin", message)
    return share


Margin = Annotated[
    float,
    AfterValidator(_is_margin),
    Field(json_schema_extra={"exclusiveMinimum": 0, "exclusiveMaximum": 1}),
]
# The largest numbers are beyond every machine, and what all programs here can count to.
ArrivalRate = Annotated[int, Field(ge=1, le=1_000_000)]
BatchSize = Annotated[PositiveInt, OrMax()]
Memory = Annotated[int, Bytes()]


class Steps(Section):
    """How many steps a repetition trains."""

    warmup: int = Field(
        default=20,
        ge=1,
        le=1_000_000,
        description="Training steps before the clock starts, in which compilation, autotuning and "
        "caching happen.",
        examples=[2, 20],
    )
    measured: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Training steps inside the timed window.",
        examples=[10, 100],
    )


class Inference(Section):
    """What differs in the scenario `infer`."""

    batch_sizes: dict[Precision, Choices[BatchSize]] | None = Field(
        default=None,
        description="Batch sizes of `infer`, if they differ from those of training; `max` is the "
        "largest that fits.",
        examples=[{"fp32": [1, 2, 4, 8]}],
    )
    topologies: Choices[Topology] | None = Field(
        default=None,
        description="Topologies of `infer`, if they differ from the round's. Devices serve "
        "independently, so more of them show little.",
        examples=[["1n1d"]],
    )
    steps: Steps | None = Field(
        default=None,
        description="Batches of a repetition of `infer`, in each of its two windows, if they "
        "differ from the steps of training. A p99 needs 368 measured batches, a p95 needs 72.",
        examples=[{"warmup": 20, "measured": 400}],
    )
    arrival_rate: Choices[ArrivalRate] | None = Field(
        default=None,
        description="Adds a server in an open loop to the closed loop of `infer`: single samples "
        "arrive at random at each device, at this rate per second, and their latency counts from "
        "their arrival. `steps` sets how many are measured.",
        examples=[[20, 40]],
    )


class Quality(Section):
    """Time to quality: a training with evaluations; each repetition has its own seed."""

    epochs: Choices[PositiveInt] = Field(
        description="The numbers of epochs of a training. The learning rate warms up first, and "
        "has fallen to 0 at the end.",
        examples=[[6], [50, 90]],
    )
    evaluations: int = Field(
        default=10,
        ge=1,
        le=10_000,
        description="How often the model is evaluated, evenly spaced; the last evaluation is at "
        "the end. The time to the target is a multiple of this interval, and includes the "
        "evaluations.",
        examples=[12],
    )
    target: float | None = Field(
        default=None,
        gt=0,
        description="The target value of the evaluation score.",
        examples=[0.97, 0.759],
    )
    batch_sizes: dict[Precision, Choices[PositiveInt]] | None = Field(
        default=None,
        description="Batch sizes of `quality`, if they differ from those of training.",
        examples=[{"fp32": [32]}],
    )
    topologies: Choices[Topology] | None = Field(
        default=None,
        description="Topologies of `quality`, if they differ from the round's.",
        examples=[["1n1d"]],
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="The timeout of a repetition of `quality`, if it differs.",
        examples=[3600],
    )


class Also(Section):
    """Additional cases of the scenario `train`: what differs from the workload's section."""

    precisions: Choices[Precision] | None = Field(
        default=None,
        description="Precisions, instead of those of the section; each needs batch sizes.",
        examples=[["amp"]],
    )
    batch_sizes: dict[Precision, Choices[BatchSize]] | None = Field(
        default=None,
        description="Batch sizes of one device, instead of those of the section.",
        examples=[{"fp32": [512, 1024]}],
    )
    global_batch_sizes: dict[Precision, Choices[PositiveInt]] | None = Field(
        default=None,
        description="Global batches, instead of the batch sizes of the section.",
        examples=[{"fp32": [16384]}],
    )
    topologies: Choices[Topology] | None = Field(
        default=None,
        description="Topologies, instead of the round's.",
        examples=[["1n1d", "1n8d"]],
    )
    layouts: Choices[Layout] | None = Field(
        default=None,
        description="Layouts, instead of those of the section; they have the same keys.",
        examples=[[{"accumulation": 8}]],
    )
    frameworks: Choices[Framework] | None = Field(
        default=None,
        description="Frameworks, instead of those of the section.",
        examples=[["pytorch", "deepspeed"]],
    )


class Workload(Section):
    """What to measure of a workload. Every combination of the lists is a case."""

    frameworks: Choices[Framework] | None = Field(
        default=None,
        description="The frameworks to measure this workload in, if they differ from the round's.",
        examples=[["pytorch", "jax", "deepspeed"]],
    )
    scenarios: Choices[Scenario] = Field(
        default=["train"],
        description="`train`: training throughput. `infer`: throughput and latency of a model's "
        "outputs. `quality`: time to quality, the time until an evaluation score reaches its "
        "target.",
        examples=[["train"], ["train", "infer"]],
    )
    precisions: Choices[Precision] = Field(
        description="`fp32`: only float32. `tf32`: float32 whose products a GPU rounds to TF32. "
        "`amp`: the mixed precision that suits the device best: bfloat16 on a CPU and on GPUs "
        "since Ampere, float16 on older GPUs and in frameworks that support nothing else. "
        "`amp_bf16`, `amp_fp16`: mixed precision with this type, in separate tables. The parity "
        "sheet says which type was used.",
        examples=[["fp32"], ["tf32", "amp"], ["amp", "amp_fp16"]],
    )
    compilers: Choices[Compiler] = Field(
        default=["default"],
        description="`default`: what most users of the framework run on this device, or another "
        "compiler if that one does not support a case. `off`: no compiler. `on`: the framework's "
        "own compiler (torch.compile, XLA, CINN, nn.Graph, GRAPH_MODE, static hybridize, jit). Or "
        "the name of a compiler; frameworks without it are then unsupported.",
        examples=[["default"], ["off", "on"], ["inductor"]],
    )
    batch_sizes: dict[Precision, Choices[BatchSize]] = Field(
        description="Batch sizes of one device: a list for each precision in `precisions`. `max` "
        "is the largest that fits, which a search finds for each case "
        "([docs/largest-batch.md](../docs/largest-batch.md)).",
        examples=[{"fp32": [128], "amp": [256, MAX]}],
    )
    global_batch_sizes: dict[Precision, Choices[PositiveInt]] | None = Field(
        default=None,
        description="Global batches of the scenario `train`, in addition to `batch_sizes`: the "
        "more devices, the smaller the share of each (strong scaling).",
        examples=[{"fp32": [16384]}],
    )
    also: list[Also] = Field(
        default=[],
        description="Cases of the scenario `train` in addition to the combinations of the lists: "
        "each entry has the keys that differ in its cases.",
        examples=[[{"batch_sizes": {"fp32": [512]}, "topologies": ["1n1d"]}]],
    )
    layouts: Choices[Layout] = Field(
        default=[Layout()],
        description="How the scenario `train` splits a model over devices. Each entry is one "
        "layout, and a missing key has its standard value. A layout must fit one of the "
        "topologies; on topologies that it does not divide it is unsupported.",
        examples=[[{}, {"accumulation": 8}], [{"tensor_parallel": 2, "pipeline_parallel": 2}]],
    )
    data: list[str] = Field(description="The kinds of data; each workload has its own kinds.")
    steps: Steps | None = Field(
        default=None,
        description="Steps of a repetition, if they differ from the round's.",
        examples=[{"warmup": 2, "measured": 5}],
    )
    infer: Inference | None = Field(
        default=None, description="What differs in the scenario `infer`."
    )
    quality: Quality | None = Field(
        default=None, description="How long the scenario `quality` trains, and what differs in it."
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="The timeout of a repetition, if it differs from the round's.",
        examples=[600],
    )

    def of(self, scenario: str) -> Inference | Quality | None:
        """The section of a scenario, in which it may differ from training."""
        sections = {"infer": self.infer, "server": self.infer, "quality": self.quality}
        return sections.get(scenario)

    @property
    def all_scenarios(self) -> list[str]:
        """Those asked for, and a server behind `infer` where requests shall arrive."""
        served = ["server"] if "infer" in self.scenarios and self.arrival_rates_of("server") else []
        return [*self.scenarios, *served]

    def arrival_rates_of(self, scenario: str) -> list[int]:
        """Requests a second to each device that serves; 0 of other scenarios."""
        if scenario != "server":
            return [0]
        return list((self.infer and self.infer.arrival_rate) or [])

    def dimensions_of(self, scenario: str) -> list[dict[str, int | str]]:
        """Every combination of the dimensions that only this workload has."""
        own = [name for name in type(self).model_fields if name not in Workload.model_fields]
        differing = self.of(scenario)
        values = []
        for name in own:
            other = getattr(differing, name, None)
            values.append(getattr(self, name) if other is None else other)
        lists = [value if isinstance(value, list) else [value] for value in values]
        lists = [[int(each) if isinstance(each, bool) else each for each in one] for one in lists]
        return [dict(zip(own, each, strict=True)) for each in itertools.product(*lists)]

    def matrices(self, scenario: str) -> Iterator[tuple["Workload", list[str] | None]]:
        """The section; and of training, as each entry of `also` changes it, with its topologies."""
        yield self, None
        for each in self.also if scenario == "train" else ():
            changed = {name: value for name, value in each if value is not None}
            topologies = changed.pop("topologies", None)
            if changed.keys() & {"batch_sizes", "global_batch_sizes"}:
                changed = {"batch_sizes": {}, "global_batch_sizes": None, **changed}
            yield self.model_copy(update=changed), topologies

    def topologies_of(self, scenario: str, of_round: list[str]) -> list[str]:
        """The topologies, as far as they are not the round's."""
        section = self.of(scenario)
        return (section and section.topologies) or of_round

    def data_of(self, scenario: str) -> list[str]:
        """The kinds of data."""
        return getattr(self.of(scenario), "data", None) or self.data

    def epochs_of(self, scenario: str) -> list[int]:
        """The numbers of epochs of the quality scenario; 0 of what has none."""
        return list(self.quality.epochs) if scenario == "quality" and self.quality else [0]

    def batch_sizes_of(self, scenario: str, precision: str) -> list[int | str]:
        """The batch sizes of one device; MAX is one too."""
        if scenario == "server":
            return [1]
        section = self.of(scenario)
        return list(((section and section.batch_sizes) or self.batch_sizes).get(precision, []))

    def global_batch_sizes_of(self, scenario: str, precision: str) -> list[int]:
        """The batch sizes of all devices together."""
        sizes = self.global_batch_sizes if scenario == "train" else None
        return list((sizes or {}).get(precision, []))

    def layouts_of(self, scenario: str) -> list[Layout]:
        """How the model is spread: devices that do not train do so each by itself."""
        return list(self.layouts) if scenario == "train" else [Layout()]


def _section(name: str) -> type[Workload]:
    """The section of a workload: the common keys, its kinds of data and its own dimensions."""
    workload, fields = workloads.of(name), dict[str, Any]()
    described = "; ".join(f"`{kind}`: {each.description}" for kind, each in workload.data.items())
    fields["data"] = (
        _words("a kind of data", workload.data),
        Field(default=["synthetic"], description=f"{described}.", examples=[["sample"]]),
    )
    for key, each in workload.dimensions.items():
        kind, standard = _type_of(each)
        field = Field(default=standard, description=each.description, examples=list(each.examples))
        fields[key] = (kind, field)
    text = "The kinds of data of `infer`, if they differ from those of training."
    of_infer = Field(default=None, description=text, examples=[["synthetic"]])
    differing = {"data": (_words("a kind of data", workload.data) | None, of_infer)}
    infer = _made(f"{name}_infer", Inference, Inference.__doc__ or "", differing)
    fields["infer"] = (infer | None, Workload.model_fields["infer"])
    # mypy knows no types that are made when it runs
    fields["also"] = (list[_also(name)], Workload.model_fields["also"])  # type: ignore[misc]
    if any(each.tests for each in workload.data.values()):
        fields["quality"] = (_quality(name) | None, Workload.model_fields["quality"])
    return _made(name, Workload, f"{workload.title}: {workload.summary}", fields)


def _quality(name: str) -> type[Quality]:
    """The section `quality` of a workload: its data with a test set, and its own sizes."""
    workload, fields = workloads.of(name), dict[str, Any]()
    assert workload.quality, f"{name}/facts.py: data with a test set, and no quality"
    score = workload.quality.score
    tested = [kind for kind, each in workload.data.items() if each.tests]
    usual = list(dict.fromkeys(workload.data[kind].target for kind in tested))
    text = (
        f"{score.description} Records have the whole curve, so another target needs no new "
        "run. By default, the usual one for the data."
    )
    of_target = Field(default=None, gt=0, le=score.most, description=text, examples=usual)
    fields["target"] = (float | None, of_target)
    text = "The kinds of data with a test set."
    fields["data"] = (
        _words("a kind of data with a test set", tested),
        Field(default=tested[:1], description=text, examples=[tested[:1]]),
    )
    for own, each in workload.dimensions.items():
        if not each.is_choice:
            text = f"The same for `quality`, if it differs: {each.description}"
            field = Field(default=None, description=text, examples=list(each.examples))
            fields[own] = (_type_of(each)[0] | None, field)
    return _made(f"{name}_quality", Quality, Quality.__doc__ or "", fields)


def _also(name: str) -> Any:
    """The entries of `also` of a workload: with its own dimensions."""
    fields = dict[str, Any]()
    for own, each in workloads.of(name).dimensions.items():
        field = Field(
            default=None,
            description="Instead of that of the section.",
            examples=list(each.examples),
        )
        fields[own] = (_type_of(each)[0] | None, field)
    return _made(f"{name}_also", Also, Also.__doc__ or "", fields)


def _words(what: str, words: Iterable[str]) -> Any:
    """The type of a list of these words: Any, as mypy knows no types that are made when it runs."""
    word: Any = Annotated[str, OneOf(what, tuple(words))]
    return Choices[word]


def _made(name: str, base: Any, text: str, fields: dict[str, Any]) -> Any:
    """A section of its own fields beside those of `base`: 'wide_deep' -> WideDeep."""
    title = "".join(part.capitalize() for part in name.split("_"))
    model = create_model(title, __base__=base, __doc__=text, **fields)
    return globals().setdefault(title, model)  # pickle looks for it there


def _type_of(dimension: Dimension) -> tuple[Any, Any]:
    """(type, default) of a dimension's key: a size, or a list of choices."""
    if not dimension.is_choice:
        size: Any = Annotated[int, Field(ge=dimension.minimum, le=dimension.maximum)]
        size = Annotated[size, OrMax()] if dimension.granule else size
        return Annotated[size, OneOrMore()], dimension.standard
    if set(dimension.words) == {0, 1}:
        return Choices[bool], [bool(dimension.standard)]
    return _words("a choice", map(str, dimension.words)), [dimension.standard]


def _sections() -> type[BaseModel]:
    """A model with a key for each workload that has facts."""
    fields: dict[str, Any] = {
        name: (_section(name) | None, Field(default=None, description=f"{_title(name)}."))
        for name in workloads.NAMES
    }
    text = "The workloads of the round. Workloads that are not listed are not measured."
    return create_model("Workloads", __base__=_Workloads, __doc__=text, **fields)


def _title(name: str) -> str:
    return workloads.of(name).title


class _Workloads(Section):
    def asked(self) -> dict[str, Workload]:
        """The workloads that the round asks for, by name."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: section for name, section in sections.items() if section is not None}


if TYPE_CHECKING:  # its keys are only known when it is imported
    Workloads = _Workloads
else:
    Workloads = _sections()


class Search(Section):
    """How the largest size is searched for, if one is `max`."""

    memory_limit: Memory | None = Field(
        default=None,
        description="On `cpu`, the memory that a device may commit during a search, and when the "
        "size that was found is measured, instead of the round's `memory_limit`. The other cases "
        "of the round then have no limit, or the round's.",
        examples=["2 GB"],
    )
    most: int = Field(
        default=65_536,
        ge=1,
        le=2**30,
        description="The largest batch of a device that is tried.",
        examples=[1024],
    )
    granule: int = Field(
        default=8,
        ge=1,
        le=2**20,
        description="Batches are tried in multiples of this number, and each one below twice the "
        "number. The result is accurate to this number.",
        examples=[8],
    )
    steps: int = Field(
        default=4,
        ge=2,
        le=1_000_000,
        description="The number of steps of a try. Memory can still grow in the second one.",
        examples=[4],
    )
    repetitions: int = Field(
        default=2,
        ge=1,
        le=10_000,
        description="The number of runs, with the length of a repetition, that the largest batch "
        "must pass before it is accepted.",
        examples=[2],
    )


class Checks(Section):
    """What a replay of spot runs may take. Beyond it, cells have a certificate alone."""

    seconds: int = Field(
        default=600,
        ge=0,
        description="A group of cases that differ in framework and compiler only is replayed if "
        "that takes no longer than this, as estimated for two cores. 0: nothing is checked.",
        examples=[600],
    )
    gigabytes: float = Field(
        default=8.0,
        ge=0,
        description="And if its weights and moments in float64 take no more memory than this.",
        examples=[8],
    )


class Environments(Section):
    """Where the frameworks come from."""

    backend: Backend = Field(
        default="venv",
        description="`venv`: uv builds a virtual environment for each framework from its lock. "
        "`conda`: Snakemake's conda makes the environment, and uv installs the same lock in it. "
        "Call Snakemake with `--profile conda` or `--sdm conda`, which is enough without this key.",
        examples=["venv"],
    )
    interpreters: dict[Framework, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="Frameworks that are already installed, with the path of their Python (such "
        "as that of a module or a container). Nothing is built for them, and no lock is applied.",
        examples=[{"pytorch": "/opt/pytorch/bin/python3"}],
    )
    find_links: list[str] = Field(
        default=[],
        description="Folders or pages with wheels that are preferred to the package index, for "
        "builds that it does not have.",
        examples=[["/srv/wheels"]],
    )


#: What `launcher` may have between braces: a name alone, as Formatter.parse gives it.
_PLACES = [(name, "", None) for name in ("nodes", "cores", "devices", "gres")]


class Cluster(Section):
    """The names of a cluster's parts, which a site's profile sets (profiles/slurm/config.yaml)."""

    interface: str = Field(
        default="",
        description="The network interface through which ranks on several nodes communicate, such "
        "as `ib0`. Empty: that of the default route.",
        examples=["ib0"],
    )
    gres: str = Field(
        default="gpu",
        min_length=1,
        description="The scheduler's name for a GPU, with its type if the site requires that.",
        examples=["gpu", "gpu:a100"],
    )
    cores: int = Field(
        default=0,
        ge=0,
        description="The cores of a node, as the scheduler counts them. A repetition has its nodes "
        "to itself and asks for all of these, so that a rank on a GPU gets those on its card's "
        "side. 0: `cores_per_device` for each device, which may lie on another side; the record "
        "says so.",
        examples=[64],
    )
    nodes: list[NodeName] = Field(
        default=[],
        description="The nodes that `screen` checks before a round and that `all` calibrates for "
        "MFU. Empty: the machine on which Snakemake runs, or none on a cluster.",
        examples=[["node1", "node2"]],
    )
    launcher: str = Field(
        default="srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 "
        "--cpus-per-task={cores} --mem=0 {gres}",
        description="The command that starts one process on each node of a job. `{nodes}`, "
        "`{cores}` (of a node), `{devices}` (of a node) and `{gres}` (`--gres=…`, on `cuda`) are "
        "replaced.",
        examples=["mpirun --map-by ppr:1:node -n {nodes}"],
    )

    @field_validator("launcher")
    @classmethod
    def _known_places(cls, value: str) -> str:
        try:
            places = [each[1:] for each in Formatter().parse(value) if each[1] is not None]
        except ValueError:  # a brace alone
            places = [("", "", None)]
        if any(place not in _PLACES for place in places):
            message = "has placeholders other than {nodes}, {cores}, {devices} and {gres}"
            raise PydanticCustomError("places", message)
        return value


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

    def timeout_of(self, workload: str, scenario: str = "train") -> int:
        """The longest time of one repetition of this workload, in seconds."""
        section = self.workloads.asked()[workload]
        own = section.quality.timeout_seconds if scenario == "quality" and section.quality else None
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


def load(
    config: Mapping[str, Any] | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    source: str = "",
    written: Written | None = None,
) -> Config:
    """Validate a round's config, given as a mapping, or as the path of a YAML file or of several.

    Of several files, later ones are merged over earlier ones, as by Snakemake's `--configfile`.
    `source` is the file's name in messages; `written` is what stands there, where `config` is a
    mapping. Raises ConfigError, which lists every problem.
    """
    if isinstance(config, Mapping):
        source, data = source or "config", dict(config)
        check_size(data, source)
    else:
        paths = [config] if isinstance(config, str | os.PathLike) else list(config)
        source = source or ", ".join(map(str, paths))
        data, written = dict[str, Any](), Written()
        for path in paths:
            found, written_there = read_written(Path(path), str(path) if paths[1:] else source)
            data = merged(data, found)
            written |= written_there
    written = Written() if written is None else written
    problems = [*repeated(data, written=written), *without_batch_size(data), *without_section(data)]
    problems += [*cannot_be_searched(data), *of_other_scenarios(data)]
    problems += [*not_divided(data), *too_small(data)]
    try:
        valid = Config.model_validate(data, context={"frameworks": _frameworks(data)})
    except ValidationError as error:
        problems = explain(error, Config, written, data) + problems
    else:
        known = {problem.key for problem in problems}
        problems += [problem for problem in _laid_out(valid) if problem.key not in known]
        problems += _not_trained(valid)
        problems += [*above_dense(valid), *_undivided(valid)]
    problems += misread(data, written, problems)
    if problems:
        raise ConfigError(source, problems)
    return valid


def merged(*configs: Mapping[str, Any]) -> dict[str, Any]:
    """One config, later ones over earlier ones: sections are merged key by key, and everything else
    is replaced, lists as a whole. That is what Snakemake makes of several `--configfile`s."""
    found = dict[str, Any]()
    for config in configs:
        for key, value in config.items():
            before = found.get(key, {})
            if isinstance(value, Mapping):  # an empty one changes nothing, whatever stands there
                value = merged(before if isinstance(before, Mapping) else {}, value) or before
            found[key] = value
    return found


def _not_trained(config: Config) -> Iterator[Problem]:
    """How to train, asked for where nothing trains: it would change nothing."""
    for name, section in config.workloads.asked().items():
        asked = {
            "layouts": section.layouts != [Layout()],
            "global_batch_sizes": bool(section.global_batch_sizes),
        }
        for key, is_asked in asked.items():
            if is_asked and "train" not in section.scenarios:
                message = "is for `train` only; leave it out, or add 'train' to `scenarios`"
                yield Problem(f"workloads.{name}.{key}", "", message)


def _laid_out(config: Config) -> Iterator[Problem]:
    """Layouts that stand twice in a list, or fit no topology of their section."""
    for name, section in config.workloads.asked().items():
        lists = [("layouts", section.layouts, config.topologies)]
        for index, entry in enumerate(section.also):
            topologies = entry.topologies or config.topologies
            lists.append((f"also[{index}].layouts", entry.layouts or [], topologies))
        for place, layouts, topologies in lists if "train" in section.scenarios else ():
            yield from doubled(f"workloads.{name}.{place}", layouts)
            yield from fitting_nowhere(f"workloads.{name}.{place}", layouts, topologies)


def _undivided(config: Config) -> Iterator[Problem]:
    """Global batches of which not all model replicas can take an equal share."""
    for name, section in config.workloads.asked().items():
        for index, (matrix, topologies) in enumerate(section.matrices("train")):
            place = f"workloads.{name}." + (f"also[{index - 1}]." if index else "")
            for precision, topology, asked in itertools.product(
                matrix.precisions, topologies or config.topologies, matrix.layouts
            ):
                devices = math.prod(split_topology(topology))
                if not asked.fits(devices):  # there is no case, or an unsupported one
                    continue
                shares = asked.layout.global_batch_size(1, devices)
                for size in matrix.global_batch_sizes_of("train", precision):
                    if size % shares:
                        message = f"cannot be shared equally by {shares}, as {topology} needs"
                        yield Problem(f"{place}global_batch_sizes.{precision}", str(size), message)


def _frameworks(data: Mapping[str, Any]) -> list[str]:
    """The frameworks whose compilers may be named: all that the round asks for anywhere, or all
    there are while such a list is wrong."""
    sections = data.get("workloads")
    sections = list(sections.values()) if isinstance(sections, dict) else []
    sections = [section for section in sections if isinstance(section, dict)]
    entries = [section.get("also") for section in sections]
    entries = [each for entry in entries if isinstance(entry, list) for each in entry]
    asked = list[str]()
    for part in (data, *sections, *(each for each in entries if isinstance(each, dict))):
        own = part.get("frameworks")
        if own is None and part is not data:
            continue
        if not isinstance(own, list) or not all(name in frameworks.NAMES for name in own):
            return list(frameworks.NAMES)
        asked += own
    return list(dict.fromkeys(asked)) or list(frameworks.NAMES)


def dump(config: Config) -> str:
    """The whole config as YAML, defaults included, in the order of the models.

    It leaves out the names of a cluster's parts, so that the round can be continued elsewhere.
    """
    content = config.model_dump(exclude_none=True, exclude={"cluster"})
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)
