"""The section of a workload in a config, and its parts: steps, scenarios, additional cases.

These models hold the keys that all workloads share, with a description of each, and say which
values apply to a scenario. The keys of one workload alone are added by `made_sections.py`.
"""

import itertools
from collections.abc import Iterator

from pydantic import Field

from dlperf import scenarios
from dlperf.contract.choices import MAX, Choices, Section
from dlperf.plan.layouts import Layout
from dlperf.plan.values import (
    ArrivalRate,
    BatchSize,
    Compiler,
    Framework,
    PositiveInt,
    Precision,
    Scenario,
    Topology,
)


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
    accumulation: Choices[PositiveInt] = Field(
        default=[1],
        description="Micro-steps per update of `quality`: their gradients are averaged, and the "
        "global batch is so many times as large.",
        examples=[[1], [48]],
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
        default={},
        description="Batch sizes of one device: a list for each precision in `precisions`. `max` "
        "is the largest that fits, which a search finds for each case "
        "([docs/largest-batch.md](../docs/largest-batch.md)). May be left out where only `train` "
        "is asked for, and `global_batch_sizes` has the precision.",
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
        quality = self.quality if scenarios.curved(scenario) else None
        return list(quality.epochs) if quality else [0]

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
        if scenario == "train":
            return list(self.layouts)
        quality = self.quality if scenarios.curved(scenario) else None
        return [Layout(accumulation=each) for each in (quality.accumulation if quality else [1])]
