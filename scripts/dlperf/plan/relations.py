"""Finds problems between several keys of a config, each of which is right by itself.

`as_written` looks at a config as it was read, so that its problems are in the same message as those
of single keys. `as_validated` needs a valid `Config`, with its defaults.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dlperf import workloads
from dlperf.contract.case import PRECISIONS
from dlperf.contract.choices import MAX
from dlperf.contract.problems import Problem
from dlperf.plan.config import Config
from dlperf.plan.layouts import Layout, doubled, fitting_nowhere
from dlperf.plan.peaks import above_dense
from dlperf.plan.values import split_topology
from dlperf.scenarios import NAMES as SCENARIOS
from dlperf.scenarios import curved


def as_written(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems between keys of a config as it was read, valid or not."""
    yield from without_batch_size(data)
    yield from without_section(data)
    yield from cannot_be_searched(data)
    yield from of_other_scenarios(data)
    yield from not_divided(data)
    yield from too_small(data)


def as_validated(config: Config, known: Collection[str]) -> Iterator[Problem]:
    """Problems between keys of a valid config; `known` are the keys that have one already."""
    yield from (problem for problem in laid_out(config) if problem.key not in known)
    yield from not_trained(config)
    yield from above_dense(config)
    yield from undivided(config)


def without_batch_size(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Precisions that a workload asks for without a batch size."""
    sections = data.get("workloads")
    for name, section in sections.items() if isinstance(sections, Mapping) else ():
        if not isinstance(section, Mapping):
            continue
        trains = section.get("scenarios") in (None, ["train"])
        asked = {"batch_sizes": (section.get("precisions"), _sizes(section, trains))}
        for scenario in ("infer", "quality"):
            own = section.get(scenario)
            if isinstance(own, Mapping):
                asked[f"{scenario}.batch_sizes"] = section.get("precisions"), own.get("batch_sizes")
        for index, entry in enumerate(_listed(section.get("also"))):
            if isinstance(entry, Mapping):  # of the section's precisions it may have some alone
                own = {key: value for key, value in entry.items() if value is not None}
                given = [key for key in ("batch_sizes", "global_batch_sizes") if key in own]
                key = given[0] if given else "batch_sizes"
                sizes = own[key] if given else _sizes({**section, **own}, True)
                asked[f"also[{index}].{key}"] = own.get("precisions"), sizes
        for place, (precisions, sizes) in asked.items():
            if not isinstance(precisions, list) or not isinstance(sizes, Mapping):
                continue
            for precision in PRECISIONS:
                if precision in precisions and precision not in sizes:
                    key = f"workloads.{name}.{place}.{precision}"
                    yield Problem(key, "", f"is missing, but `precisions` has '{precision}'")


def _sizes(section: Mapping[str, Any], trains: bool) -> Any:
    """The batch sizes of a section by precision; where it only trains, the global ones too."""
    own, together = (section.get(key) or {} for key in ("batch_sizes", "global_batch_sizes"))
    if trains and isinstance(own, Mapping) and isinstance(together, Mapping):
        return {**own, **together}
    return own


def without_section(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Workloads that are to be trained to a quality, and do not say how long."""
    sections = data.get("workloads")
    for name, section in sections.items() if isinstance(sections, Mapping) else ():
        scenarios = section.get("scenarios") if isinstance(section, Mapping) else None
        asked = scenarios if isinstance(scenarios, list) else []
        for scenario in _evaluated():
            if scenario in asked and not section.get(scenario):
                message = (
                    f"is missing, but `scenarios` has '{scenario}'; it needs `epochs`, such as [6]"
                )
                yield Problem(f"workloads.{name}.{scenario}", "", message)


def of_other_scenarios(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Choices of scenarios that a workload does not ask for: they would change nothing."""
    sections = data.get("workloads")
    for name, section in sections.items() if isinstance(sections, Mapping) else ():
        if name not in workloads.NAMES or not isinstance(section, Mapping):
            continue
        scenarios = section.get("scenarios", ["train"])
        for key, each in workloads.dimensions(name).items():
            asked = section.get(key)
            if not (each.is_choice and isinstance(asked, list) and isinstance(scenarios, list)):
                continue
            other = [value for value in asked if value != each.standard]
            if other and not any(each.applies(scenario) for scenario in scenarios):
                there = " and ".join(f"`{scenario}`" for scenario in each.scenarios)
                message = (
                    f"is a choice in {there} only; leave it out, or add '{each.scenarios[0]}' to "
                    "`scenarios`"
                )
                yield Problem(f"workloads.{name}.{key}", repr(other[0]), message)


def cannot_be_searched(data: Mapping[str, Any]) -> Iterator[Problem]:
    """What asks for `max` where it cannot be found, or limits memory that has its own limit."""
    cpu, search = data.get("device") == "cpu", data.get("search")
    limits = {"memory_limit": data.get("memory_limit")}
    if isinstance(search, Mapping):
        limits["search.memory_limit"] = search.get("memory_limit")
    limits = {place: limit for place, limit in limits.items() if limit is not None}
    for place, limit in limits.items() if data.get("device") == "cuda" else ():
        message = "is for `device: cpu`; a GPU's limit is its own memory, so leave it out"
        yield Problem(place, repr(limit), message)
    places: list[str] = []
    for name, place, section in _matrices(data.get("workloads")):
        batches = [*_with_max(section, "batch_sizes"), *_with_max(section.get("infer"), "infer")]
        declared = workloads.dimensions(name) if name in workloads.NAMES else {}
        sizes = [key for key in declared if MAX in _listed(section.get(key))]
        places += [f"{place}.{key}" for key in [*batches, *sizes]]
        scenarios = section.get("scenarios")
        for scenario in _evaluated():
            own = section.get(scenario)
            if isinstance(own, Mapping) and own.get("batch_sizes") and not sizes:
                continue
            if isinstance(scenarios, list) and scenario in scenarios and (batches or sizes):
                message = (
                    f"cannot be searched for `{scenario}`, where all train with the same size; "
                    "give a number, or a round of its own"
                )
                yield Problem(f"{place}.{[*batches, *sizes][0]}", MAX, message)
        if len(sizes) + bool(batches) > 1:
            found = ", ".join([*batches[:1], *sizes])
            message = f"one size at a time can be searched, but `{MAX}` stands in {found}"
            yield Problem(place, "", message)
        kinds = workloads.data(name) if sizes else {}
        for kind in _listed(section.get("data")):
            if isinstance(kind, str) and kind in kinds and kinds[kind].folder:
                message = (
                    f"is of a fixed size, but {place}.{sizes[0]} has `{MAX}`: search with "
                    "`data: [synthetic]`, which lies over all sizes, or give a number"
                )
                yield Problem(f"workloads.{name}.data", kind, message)
    if places and cpu and not limits:
        message = (
            f"is missing, but {places[0]} has `{MAX}`: say how much memory a device may take, such "
            "as `memory_limit: 4 GB`; without a limit the machine would swap"
        )
        yield Problem("memory_limit", "", message)


def _matrices(sections: Any) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(workload, place, keys) of each section, and as each entry of its `also` changes it."""
    for name, section in sections.items() if isinstance(sections, Mapping) else ():
        if not isinstance(section, Mapping):
            continue
        yield name, f"workloads.{name}", section
        for index, entry in enumerate(_listed(section.get("also"))):
            if isinstance(entry, Mapping):
                changed = {**section, "scenarios": ["train"], "infer": None, **entry}
                if "batch_sizes" not in entry and "global_batch_sizes" in entry:
                    changed["batch_sizes"] = {}
                yield name, f"workloads.{name}.also[{index}]", changed


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def not_divided(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Sizes that the devices of a topology do not divide, where what they are of is shared out."""
    for name, place, section in _matrices(data.get("workloads")):
        if name not in workloads.NAMES:
            continue
        declared = workloads.dimensions(name)
        topologies = section.get("topologies", data.get("topologies"))
        devices_of = {
            topology: math.prod(split_topology(topology))
            for topology in map(str, _listed(topologies))
            if re.fullmatch("[1-9][0-9]*n[1-9][0-9]*d", topology)
        }
        for key, (choice, word) in workloads.of(name).divided.items():
            if word not in _listed(section.get(choice)):
                continue
            for size in _listed(section.get(key, declared[key].standard)):
                wrong = next((t for t, count in devices_of.items() if _leaves(size, count)), "")
                if not declared[key].problem(size) and wrong:
                    count = devices_of[wrong]
                    message = (
                        f"is not divided by the {count} devices of {wrong}, which share it "
                        f"out with `{choice}: [{word}]`; give a multiple of {count}, such as "
                        f"{size - size % count + count}, or leave out '{word}' or {wrong}"
                    )
                    yield Problem(f"{place}.{key}", str(size), message)


def too_small(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Sizes below the least that data of the same section can be trained with."""
    for name, place, section in _matrices(data.get("workloads")):
        if name not in workloads.NAMES:
            continue
        declared, kinds = workloads.dimensions(name), workloads.data(name)
        for asked, own in _with_data(name, section):
            for kind in _listed(asked):
                needed = kinds[kind].least if isinstance(kind, str) and kind in kinds else {}
                for key, least in needed.items():
                    inner = f"{own}." if own and section[own].get(key) is not None else ""
                    sizes = section[own][key] if inner else section.get(key)
                    for size in _listed(declared[key].standard if sizes is None else sizes):
                        if not declared[key].problem(size) and size < least:
                            message = (
                                f"is below the {least:,} that `data: [{kind}]` needs; give as many "
                                "or more, or ask for other data"
                            )
                            yield Problem(f"{place}.{inner}{key}", str(size), message)


def _with_data(name: str, section: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """(kinds of data, the part of a section that has them): of training, and where they differ."""
    scenarios = _listed(section.get("scenarios", ["train"]))
    inferred = section.get("infer")
    of_infer = inferred.get("data") if isinstance(inferred, Mapping) else None
    if "train" in scenarios or ("infer" in scenarios and of_infer is None):
        yield section.get("data"), ""
    if "infer" in scenarios and of_infer is not None:
        yield of_infer, "infer"
    for scenario in _evaluated():
        tested = section.get(scenario)
        if scenario in scenarios and isinstance(tested, Mapping):
            usual = [kind for kind, each in workloads.data(name).items() if each.tests][:1]
            yield tested.get("data", usual), scenario


def _evaluated() -> list[str]:
    """The scenarios that evaluate models on the way: their sizes are part of what is compared."""
    return [scenario for scenario in SCENARIOS if curved(scenario)]


def _leaves(size: Any, count: int) -> bool:
    """Whether `count` devices do not divide a size."""
    return isinstance(size, int) and size % count != 0


def _with_max(section: Any, key: str) -> list[str]:
    """['batch_sizes.fp32']: where a section, or its part `infer`, asks for the largest batch."""
    section = section if isinstance(section, Mapping) else {}
    sizes = section.get("batch_sizes")
    before = "" if key == "batch_sizes" else f"{key}."
    return [
        f"{before}batch_sizes.{precision}"
        for precision, own in (sizes.items() if isinstance(sizes, Mapping) else ())
        if isinstance(own, list) and MAX in own
    ]


def not_trained(config: Config) -> Iterator[Problem]:
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


def laid_out(config: Config) -> Iterator[Problem]:
    """Layouts that stand twice in a list, or fit no topology of their section."""
    for name, section in config.workloads.asked().items():
        lists = [("layouts", section.layouts, config.topologies)]
        for index, entry in enumerate(section.also):
            topologies = entry.topologies or config.topologies
            lists.append((f"also[{index}].layouts", entry.layouts or [], topologies))
        for place, layouts, topologies in lists if "train" in section.scenarios else ():
            yield from doubled(f"workloads.{name}.{place}", layouts)
            yield from fitting_nowhere(f"workloads.{name}.{place}", layouts, topologies)


def undivided(config: Config) -> Iterator[Problem]:
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
