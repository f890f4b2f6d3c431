"""Finds problems between a round and where it runs: this machine, its files, its results."""

from collections.abc import Iterator
from pathlib import Path

from dlperf.contract import project
from dlperf.contract.problems import ConfigError, Problem, nearest
from dlperf.plan.config import Config
from dlperf.plan.values import split_topology


def label_beside(name: str) -> str:
    """What an entry of `beside` is called: 'before', of '/data/before/' too."""
    return name.rstrip("/").rpartition("/")[2]


def check_beside(
    config: Config,
    source: str,
    folder: Path = Path("config/published"),
    results: Path = Path("results"),
) -> list[str]:
    """Return those in `beside` that are rounds, and no publication.

    A publication is of the project or in `folder`; a round is in `results`, or is named by a path,
    which is not looked at. Raises ConfigError where a name is neither.
    """
    folders = (folder, project.own("config/published"))
    known = sorted({path.stem for each in folders for path in each.glob("*.yaml")})
    others = [name for name in config.beside if name not in known]
    problems = []
    for index, name in enumerate(others):
        key, value = f"beside[{config.beside.index(name)}]", repr(name)
        if "/" not in name and not (results / name / "config.yaml").exists():
            message = f"is no file of {folder}, and no round in {results}"
            meant = "".join(nearest(name, known))
            problems.append(Problem(key, value, message, tuple(known), meant))
        if label_beside(name) in map(label_beside, others[:index]):  # their tables are copied
            message = "has the name of another round there; rename the folder of one"
            problems.append(Problem(key, value, message))
    if problems:
        raise ConfigError(source, problems)
    return others


def problems_here(config: Config, cores: int) -> list[str]:
    """What this machine, with so many cores, cannot run of the round. Empty if nothing."""
    return [str(problem) for problem in _problems_here(config, cores)]


def _problems_here(config: Config, cores: int) -> Iterator[Problem]:
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
