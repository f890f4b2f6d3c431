"""The types of single values of a config: names, words of a list, and numbers with bounds.

A value that is not one of its type is refused with what is allowed, and what was probably meant.
"""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from dlperf import frameworks
from dlperf.contract.case import DEVICES, PRECISIONS, SCENARIOS
from dlperf.contract.choices import Bytes, OneOf, OrMax, Pattern
from dlperf.plan.compilers import CompilerName

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
PositiveInt = Annotated[int, Field(ge=1, lt=2**31)]
BatchSize = Annotated[PositiveInt, OrMax()]
Memory = Annotated[int, Bytes()]


def split_topology(topology: str) -> tuple[int, int]:
    """Nodes and devices of a node: '2n8d' -> (2, 8)."""
    nodes, devices = topology.removesuffix("d").split("n")
    return int(nodes), int(devices)
