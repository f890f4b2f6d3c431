"""Cases: every combination that a round asks for, and the document of each repetition.

The input is a `Config`. The output is `Case`s in a stable order, and the order in which repetitions
run. A case that a framework cannot run is included, with the reason.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dlperf import frameworks, scenarios, workloads
from dlperf.contract.case import SCHEMA, Case, made_as
from dlperf.contract.choices import MAX
from dlperf.contract.dimension import Dimensions
from dlperf.loaders import libraries
from dlperf.loaders.formats import IN_GRAPH
from dlperf.plan.config import Config
from dlperf.plan.sections import Workload
from dlperf.plan.values import split_topology
from dlperf.workloads import inputs


def document(case: Case, config: Config, repetition: int) -> dict[str, Any]:
    """The case document of a repetition, which `dlperf.measure` takes.

    A size that is not found yet is the least that can be.
    """
    return of_repetition(_first_document(case, config), case, config, repetition)


def of_repetition(
    document: Mapping[str, Any], case: Case, config: Config, repetition: int
) -> dict[str, Any]:
    """The document of a repetition from that of another one: a quick `document`."""
    return {
        **document,
        "identity": {**document["identity"], "repetition": repetition},
        "settings": {**document["settings"], "seed": seed(case, config, repetition)},
    }


def _first_document(case: Case, config: Config) -> dict[str, Any]:
    steps, folder = config.steps_of(case.workload, case.scenario), inputs.folder(case)
    if case.searched and not size_of(case):
        case = case.sized(search_of(case, config)["least"])
    limit, minimum = config.memory_limit_of(case), config.minimum_seconds_of(case.scenario)
    section = config.workloads.asked()[case.workload].quality
    quality = section if scenarios.curved(case.scenario) else None
    tested: dict[str, float] = {}
    if quality:
        target = workloads.data(case.workload)[case.data].target
        tested["evaluations"] = min(quality.evaluations, _steps(case))
        tested["target"] = quality.target or target
    return {
        "schema": SCHEMA,
        "identity": case.identity(config.round, 1),
        "settings": {
            "device": config.device,
            "warmup_steps": steps.warmup,
            "measured_steps": _steps(case) if quality else steps.measured,
            "cores_per_device": config.cores_per_device,
            "timeout_seconds": config.timeout_of(case.workload, case.scenario),
            "seed": seed(case, config, 1),
            "data_dir": f"results/data/{folder}" if folder else "",
            **tested,
            **({"memory_limit_bytes": limit} if limit else {}),
            **({"minimum_seconds": minimum} if minimum else {}),
        },
    }


def seed(case: Case, config: Config, repetition: int) -> int:
    """The seed of a repetition: the round's, but the quality scenario is of one of its own."""
    return config.seed + (repetition - 1 if scenarios.curved(case.scenario) else 0)


def _steps(case: Case) -> int:
    """The steps of the quality scenario: what fills no global batch at an epoch's end is left
    out."""
    samples = workloads.data(case.workload)[case.data].samples
    return case.epochs * (samples // case.global_batch_size)


def size_of(case: Case) -> int:
    """The size that is searched; 0 until it is found."""
    if case.searched == "batch_size":
        return case.batch_size
    return int(case.dimensions[case.searched])


def search_of(case: Case, config: Config) -> dict[str, int]:
    """How the size of a case is searched: the options of `dlperf.search`."""
    how = config.search
    found = {"least": 1, "most": how.most, "granule": how.granule, "fine": 1}
    if case.searched != "batch_size":
        each = case.dimensions.declared[case.searched]
        least, most = each.minimum or each.granule, each.maximum or 2**31 - 1
        found = {"least": least, "most": most, "granule": each.granule, "fine": each.granule}
    return {**found, "steps": how.steps, "repetitions": how.repetitions}


def expand(config: Config) -> list[Case]:
    """Every case of the round, once; cases that differ only in framework come together."""
    asked = list(_combinations(config))
    together = {case for case in asked if case.together}
    return [
        replace(case, together=case in together)
        for case in dict.fromkeys(asked)  # 'default' and 'on' may be the same compiler
    ]


def _combinations(config: Config) -> Iterator[Case]:
    for workload, section in config.workloads.asked().items():
        for scenario in section.all_scenarios:
            matrices = list(section.matrices(scenario))
            precisions = dict.fromkeys(each for part, _ in matrices for each in part.precisions)
            for precision, (part, topologies) in itertools.product(precisions, matrices):
                if precision in part.precisions:
                    yield from _of_matrix(workload, part, scenario, precision, topologies, config)


def _of_matrix(
    workload: str,
    section: Workload,
    scenario: str,
    precision: str,
    topologies: list[str] | None,
    config: Config,
) -> Iterator[Case]:
    # (size, whether it is of all devices together)
    sizes: list[tuple[int | str, bool]]
    sizes = [(size, False) for size in section.batch_sizes_of(scenario, precision)]
    sizes += [(size, True) for size in section.global_batch_sizes_of(scenario, precision)]
    for (
        (batch_size, together),
        asked,
        data,
        dimensions,
        epochs,
        arrival_rate,
        topology,
        word,
        framework,
    ) in itertools.product(
        sizes,
        section.layouts_of(scenario),
        section.data_of(scenario),
        section.dimensions_of(scenario),
        section.epochs_of(scenario),
        section.arrival_rates_of(scenario),
        topologies or section.topologies_of(scenario, config.topologies),
        section.compilers,
        section.frameworks or config.frameworks,
    ):
        nodes, devices = split_topology(topology)
        if not asked.is_planned(nodes * devices):
            continue
        layout = asked.layout
        if together:  # 0 where the case is unsupported
            shares = layout.global_batch_size(1, nodes * devices)
            batch_size = int(batch_size) // shares if shares else 1
        own, searched = _dimensions(workload, scenario, dimensions)
        case = Case(
            workload,
            framework,
            scenario,
            precision,
            "none",
            nodes,
            devices,
            layout,
            0 if batch_size == MAX else int(batch_size),
            data,
            own,
            "batch_size" if batch_size == MAX else searched,
            epochs,
            arrival_rate,
            together,
        )
        yield _compiled(case, _compilers(word, framework, config.device), config)


def _dimensions(
    workload: str, scenario: str, asked: dict[str, int | str]
) -> tuple[Dimensions, str]:
    """A case's dimensions, choices of other scenarios left out; and which one is searched."""
    declared = workloads.dimensions(workload)
    asked = {name: each for name, each in asked.items() if declared[name].applies(scenario)}
    searched = next((name for name, each in asked.items() if each == MAX), "")
    return Dimensions(declared, {**asked, searched: 0} if searched else asked), searched


def _compilers(word: str, framework: str, device: str) -> list[str]:
    """The compilers that a config's word allows a framework, the first choice first; 'none' is one.

    'default' is what most users run; where that cannot do a case, they take what can, eager mode
    before another compiler.
    """
    own = frameworks.find(framework)
    if word == "off" or own is None:
        return ["none"]
    if word == "default":
        return list(dict.fromkeys([own.default_compiler[device], *own.compilers]))
    if word == "on":
        return [next((name for name in own.compilers if name != "none"), "none")]
    return [word]


def _compiled(case: Case, compilers: Sequence[str], config: Config) -> Case:
    """The case with the first of these compilers that can do it, else with the first, and why none
    of them can."""
    reasons: dict[str, str] = {}
    for compiler in compilers:
        found = replace(case, compiler=compiler)
        reason = _unsupported(found, config)
        if not reason:
            return found
        reasons.setdefault(reason, compiler)
    (first, _), *others = reasons.items()
    also = [f"; and with the compiler '{compiler}': {reason}" for reason, compiler in others]
    return replace(case, compiler=compilers[0], unsupported=first + "".join(also))


def _unsupported(case: Case, config: Config) -> str:
    framework = frameworks.find(case.framework)
    if framework is None or not workloads.implements(case.workload, case.framework):
        return "no implementation yet"
    made = made_as(case.scenario)
    identity = case.identity(config.round, 1)
    own = {"device": config.device, "scenario": made}
    if not workloads.implements(case.workload, case.framework, made):
        reason = workloads.of(case.workload).unsupported_in(case.framework, {**identity, **own})
        return reason or f"its implementation has no {scenarios.load(made).TITLE} yet"
    native = "{format}" in workloads.data(case.workload)[case.data].folder
    if made == "infer" and native:
        return "inference takes the shared loader's batches, not those of a framework's own reader"
    evaluated = scenarios.curved(made)
    if evaluated and not workloads.data(case.workload)[case.data].tests:
        return f"data: {case.data} has no test set"
    if evaluated and native and case.framework in IN_GRAPH:
        return "its own reader is in the graph: it would touch the data before the clock starts"
    if evaluated and _of_training(case):
        return "the certificate of the quality scenario is of training's standard choices alone"
    if evaluated and not _steps(case):
        return f"data: {case.data} has fewer samples than a global batch"
    if case.compiler not in framework.compilers:
        return f"no such compiler; {framework.title} has: {', '.join(framework.compilers)}"
    if not inputs.reads(case):
        return f"no reader of its own for data: {case.data}"
    if reason := _unread(case, config):
        return reason
    if problem := case.layout.problem(case.devices):
        return problem
    for name in case.layout.asked():
        if name not in workloads.of(case.workload).ways:
            return f"no implementation of {workloads.of(case.workload).title} has {name}"
    return workloads.unsupported(identity) or frameworks.unsupported({**identity, **own})


def _of_training(case: Case) -> bool:
    """Whether a choice that training has too is another one than the standard."""
    declared = workloads.dimensions(case.workload)
    return any(
        each.is_choice and each.applies("train") and case.dimensions[name] != each.standard
        for name, each in declared.items()
    )


def _unread(case: Case, config: Config) -> str:
    """Why a library does not read the case's data for its framework, or ""."""
    if not libraries.is_read_by_dali(case.data):
        return ""
    if case.framework not in libraries.DALI:
        titles = " and ".join(frameworks.of(name).title for name in libraries.DALI)
        return f"NVIDIA DALI reads for {titles} alone here: data: {case.data} is theirs"
    if config.device != "cuda" and case.framework not in config.environments.interpreters:
        return "only the environments for CUDA have NVIDIA DALI, or an interpreter that is named"
    return ""


def order(config: Config, cases: Sequence[Case] | None = None) -> dict[tuple[Case, int], int]:
    """The turn of every (case, repetition), from 0.

    Repetition 1 of all cases comes before repetition 2 of any, and the cases that are compared
    with each other (all but framework and compiler equal) run next to each other. Their order is
    shuffled each time from the config's seed, so that drift of the machine affects all equally.
    """
    cases = expand(config) if cases is None else cases
    groups: dict[Case, list[Case]] = {}
    for case in cases:
        groups.setdefault(replace(case, framework="", compiler=""), []).append(case)
    turns: list[tuple[Case, int]] = []
    for repetition in range(1, config.repetitions + 1):
        dice = random.Random(f"{config.seed}/{repetition}")
        for group in groups.values():
            turns += [(case, repetition) for case in dice.sample(group, len(group))]
    return {turn: rank for rank, turn in enumerate(turns)}
