"""Cases: every combination that a round asks for, with its name, its path and its document.

In: a `Config`. Out: `Case`s in a stable order, those included that a framework cannot do, with the
reason; and the order in which repetitions take their turns.
"""

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from dlperf import frameworks, workloads
from dlperf.plan.checks import split_topology
from dlperf.plan.config import Config

_NAME = re.compile(
    r"(?P<scenario>[a-z]+)-(?P<precision>[a-z0-9]+)(?:-(?P<compiler>[a-z0-9_]+))?"
    r"-(?P<nodes>\d+)n(?P<devices_per_node>\d+)d-b(?P<batch_size>\d+)-(?P<data>[a-z0-9_]+)"
    r"(?P<dimensions>(?:-[a-z]+\d+)*)"
)


@dataclass(frozen=True)
class Case:
    """What a repetition is asked to do. `unsupported` says why the framework cannot, or ''."""

    workload: str
    framework: str
    scenario: str
    precision: str
    compiler: str
    nodes: int
    devices_per_node: int
    batch_size: int
    data: str
    dimensions: dict[str, int] = field(hash=False)
    unsupported: str = field(default="", compare=False)

    @cached_property
    def name(self) -> str:
        """Such as 'train-amp-xla-2n8d-b256-synthetic'; what is standard or absent is left out."""
        parts = [self.scenario, self.precision]
        if self.compiler != "none":
            parts.append(self.compiler)
        parts += [self.topology, f"b{self.batch_size}", self.data]
        parts += workloads.spelled(self.workload, self.dimensions)
        return "-".join(parts)

    @property
    def folder(self) -> str:
        """The case's folder under results/<round>/runs/."""
        return f"{self.workload}/{self.framework}/{self.name}"

    def certificate(self, device: str) -> str:
        """The certificate of equal work that covers this case: its path under results/.

        Data parallel over two ranks stands for any number of them.
        """
        parts = [device, self.precision]
        if self.compiler != "none":
            parts.append(self.compiler)
        if variant := workloads.variant(self.workload, self.dimensions):
            parts.append(variant)
        ranks = min(2, self.nodes * self.devices_per_node)
        return f"certificates/{self.workload}/{self.framework}/{'-'.join(parts)}-{ranks}r.json"

    @property
    def topology(self) -> str:
        return f"{self.nodes}n{self.devices_per_node}d"

    @property
    def series(self) -> str:
        """The framework with its compiler: one line of a plot, one column of a table."""
        return self.framework if self.compiler == "none" else f"{self.framework}-{self.compiler}"

    @property
    def data_set(self) -> str:
        """Its folder under results/data; '' where data is synthetic."""
        return workloads.data_set(self.workload, self.data, self.framework, self.dimensions)

    def identity(self, round: str, repetition: int) -> dict[str, Any]:
        """The identity of a repetition, in the order that records and tables keep."""
        return {
            "round": round,
            "workload": self.workload,
            "framework": self.framework,
            "scenario": self.scenario,
            "precision": self.precision,
            "compiler": self.compiler,
            "nodes": self.nodes,
            "devices_per_node": self.devices_per_node,
            "batch_size": self.batch_size,
            "data": self.data,
            "repetition": repetition,
            **self.dimensions,
        }

    def document(self, config: Config, repetition: int) -> dict[str, Any]:
        """The case document (dlperf.case/1) of a repetition: what `dlperf.measure` takes."""
        steps = config.steps_of(self.workload)
        return {
            "schema": "dlperf.case/1",
            "identity": self.identity(config.round, repetition),
            "settings": {
                "device": config.device,
                "warmup_steps": steps.warmup,
                "measured_steps": steps.measured,
                "cores_per_device": config.cores_per_device,
                "timeout_seconds": config.timeout_of(self.workload),
                "seed": config.seed,
                "data_dir": f"results/data/{self.data_set}" if self.data_set else "",
            },
        }


def expand(config: Config) -> list[Case]:
    """Every case of the round, each once; cases that differ only in framework stand together."""
    cases = dict.fromkeys(_combinations(config))  # 'default' and 'on' may be the same compiler
    return [replace(case, unsupported=_unsupported(case, config)) for case in cases]


def _combinations(config: Config) -> Iterator[Case]:
    for workload, section in config.workloads.asked().items():
        for scenario, precision in itertools.product(section.scenarios, section.precisions):
            for batch_size, data, dimensions, topology, word, framework in itertools.product(
                section.batch_sizes[precision],
                section.data,
                section.dimensions,
                config.topologies,
                section.compilers,
                config.frameworks,
            ):
                yield Case(
                    workload,
                    framework,
                    scenario,
                    precision,
                    _compiler(word, framework, config.device),
                    *split_topology(topology),
                    batch_size,
                    data,
                    dimensions,
                )


def _compiler(word: str, framework: str, device: str) -> str:
    """The compiler that a config's word means for a framework: 'none', or a name."""
    facts = frameworks.find(framework)
    if word == "off" or facts is None:
        return "none"
    if word == "default":
        return facts.DEFAULT_COMPILER[device]
    if word == "on":
        return next((name for name in facts.COMPILERS if name != "none"), "none")
    return word


def _unsupported(case: Case, config: Config) -> str:
    facts = frameworks.find(case.framework)
    if facts is None or not workloads.implements(case.workload, case.framework):
        return "no implementation yet"
    if case.compiler not in facts.COMPILERS:
        return f"no such compiler; {facts.TITLE} has: {', '.join(facts.COMPILERS)}"
    if not workloads.reads(case.workload, case.data, case.framework):
        return f"no reader of its own for data: {case.data}"
    return facts.unsupported({**case.identity(config.round, 1), "device": config.device})


def parse(folder: str) -> dict[str, Any]:
    """The identity that a case's folder spells, without round and repetition.

    Raises ValueError for a folder that no case has, such as one with a standard value spelled out.
    """
    workload, framework, name = folder.split("/") if folder.count("/") == 2 else ("", "", "")
    match = _NAME.fullmatch(name)
    if not match or workload not in workloads.NAMES:
        raise ValueError(f"not the folder of a case: {folder}")
    found = match.groupdict()
    spelled = dict(re.findall(r"-([a-z]+)(\d+)", found["dimensions"]))
    case = Case(
        workload,
        framework,
        found["scenario"],
        found["precision"],
        found["compiler"] or "none",
        int(found["nodes"]),
        int(found["devices_per_node"]),
        int(found["batch_size"]),
        found["data"],
        {
            name: int(spelled.get(dimension.key, dimension.standard))
            for name, dimension in workloads.facts(workload).DIMENSIONS.items()
        },
    )
    if case.folder != folder:
        raise ValueError(f"not the folder of a case: {folder}; its case has {case.folder}")
    identity = case.identity("", 0)
    return {key: identity[key] for key in identity if key not in ("round", "repetition")}


def order(config: Config, cases: Sequence[Case] | None = None) -> dict[tuple[Case, int], int]:
    """Whose turn it is: the rank, from 0, of every (case, repetition).

    Repetition 1 of all cases comes before repetition 2 of any, and the cases that are compared
    with each other (all but framework and compiler equal) run next to each other, in an order that
    is shuffled anew each time from the config's seed: drift of the machine lands on all alike.
    """
    cases = expand(config) if cases is None else cases
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        identity = {**case.identity("", 0), "framework": "", "compiler": ""}
        groups.setdefault(tuple(identity.values()), []).append(case)
    turns: list[tuple[Case, int]] = []
    for repetition in range(1, config.repetitions + 1):
        dice = random.Random(f"{config.seed}/{repetition}")
        for group in groups.values():
            turns += [(case, repetition) for case in dice.sample(group, len(group))]
    return {turn: rank for rank, turn in enumerate(turns)}
