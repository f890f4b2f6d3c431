"""Sections of a config that say how a round runs: searches, checks, environments, a cluster."""

from string import Formatter
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from dlperf.contract.choices import Section
from dlperf.plan.values import Backend, Framework, Memory, NodeName


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
        "that takes no longer than this, as estimated for two cores; in a round on GPUs, for one "
        "of them. Sizes that are searched are replayed one after another, as long as all of a "
        "group stay within it. 0: nothing is checked.",
        examples=[600],
    )
    gigabytes: float = Field(
        default=8.0,
        ge=0,
        description="And if its weights and moments take no more memory than this: in float64; on "
        "a GPU in float32. A size that is searched on CPUs is taken to need three times the "
        "`memory_limit` of its devices.",
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
