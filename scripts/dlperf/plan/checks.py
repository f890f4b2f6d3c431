"""Finds problems between several values, and between a round and this machine."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlperf.contract.case import PRECISIONS
from dlperf.contract.problems import ConfigError, Problem, nearest

if TYPE_CHECKING:
    from dlperf.plan.config import Config


def without_batch_size(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Precisions that a workload asks for without a batch size."""
    sections = data.get("workloads")
    for name, section in sections.items() if isinstance(sections, Mapping) else ():
        if not isinstance(section, Mapping):
            continue
        precisions = section.get("precisions")
        asked = {"batch_sizes": section.get("batch_sizes")}
        for scenario in ("infer", "quality"):
            own = section.get(scenario)
            if isinstance(own, Mapping):
                asked[f"{scenario}.batch_sizes"] = own.get("batch_sizes")
        for place, sizes in asked.items():
            if not isinstance(precisions, list) or not isinstance(sizes, Mapping):
                continue
            for precision in PRECISIONS:
                if precision in precisions and precision not in sizes:
                    key = f"workloads.{name}.{place}.{precision}"
                    yield Problem(key, "", f"is missing, but `precisions` has '{precision}'")


def without_section(data: Mapping[str, Any]) -> Iterator[Problem]:
    """Workloads that are to be trained to a quality, and do not say how long."""
    sections = data.get("workloads")
    for name, section in sections.items() if isinstance(sections, Mapping) else ():
        scenarios = section.get("scenarios") if isinstance(section, Mapping) else None
        if isinstance(scenarios, list) and "quality" in scenarios and not section.get("quality"):
            message = "is missing, but `scenarios` has 'quality'; it needs `epochs`, such as [6]"
            yield Problem(f"workloads.{name}.quality", "", message)


def split_topology(topology: str) -> tuple[int, int]:
    """Nodes and devices of a node: '2n8d' -> (2, 8)."""
    nodes, devices = topology.removesuffix("d").split("n")
    return int(nodes), int(devices)


def check_beside(config: "Config", source: str, folder: Path = Path("config/published")) -> None:
    """Raise ConfigError where `beside` names no file of the published rounds."""
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    problems = [
        Problem(
            f"beside[{index}]",
            repr(name),
            f"is no file of {folder}",
            tuple(known),
            "".join(nearest(name, known)),
        )
        for index, name in enumerate(config.beside)
        if name not in known
    ]
    if problems:
        raise ConfigError(source, problems)


def problems_here(config: "Config", cores: int) -> list[str]:
    """What this machine, with so many cores, cannot run of the round. Empty if nothing."""
    return [str(problem) for problem in _problems_here(config, cores)]


def _problems_here(config: "Config", cores: int) -> Iterator[Problem]:
    for index, topology in enumerate(config.topologies):
        nodes, devices = split_topology(topology)
        wanted = devices * config.cores_per_device
        key = f"topologies[{index}]"
        if nodes > 1:
            message = f"needs {nodes} nodes, but this is one machine; use a cluster's profile"
            yield Problem(key, topology, message)
        elif config.device == "cpu" and wanted > cores:
            message = (
                f"needs {wanted} cores ({devices} devices x {config.cores_per_device} "
                f"cores_per_device), but this machine has {cores}"
            )
            yield Problem(key, topology, message)
    for framework, path in config.environments.interpreters.items():
        if not Path(path).is_file():
            key = f"environments.interpreters.{framework}"
            yield Problem(key, path, "is not a file on this machine")
