"""The config of an imported round: which CSV files, of which hardware.

In: a YAML file such as config/published/dlperf-v1.yaml. Out: an `Import`, or a ConfigError that
lists everything that is wrong.
"""

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dlperf.contract.choices import Pattern
from dlperf.contract.problems import explain, read_written, read_yaml
from dlperf.plan import ConfigError
from dlperf.plan.values import IMPORTED

ImportedName = Annotated[
    str,
    Pattern(
        f"'{IMPORTED}' and a word of letters, digits, '.', '_' and '-'",
        rf"{IMPORTED}[A-Za-z0-9][A-Za-z0-9._-]{{0,54}}",
    ),
]
Path_ = Annotated[str, Field(min_length=1)]


class Import(BaseModel):
    """One imported round."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    round: ImportedName = Field(
        description="Name of the round; everything is written to `results/<round>/`.",
        examples=["imported-dlperf-v1"],
    )
    title: str = Field(
        min_length=1,
        description="What tables and the report call the publication.",
        examples=["DLPerf v1.0"],
    )
    files: list[Path_] = Field(
        min_length=1,
        description="CSV files, in the tables' own form (config/published/README.md) or the tidy "
        "one (docs/importing.md).",
        examples=[["config/published/dlperf-v1-common.csv"]],
    )
    hardware: str = Field(
        default="",
        description="The device, where the rows do not name it.",
        examples=["V100-SXM2-16GB"],
    )
    publisher: str = Field(
        default="",
        description="Whose pages these are, where several rounds have them: numbers of one "
        "publisher are held against each other.",
        examples=["DLPerf"],
    )
    names: list[str] = Field(
        default=[],
        description="Frameworks, workloads, scenarios and precisions in the rows that this project "
        "does not know. Others are refused: they are mostly misspelt.",
        examples=[["vit"]],
    )
    versions: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="By implementation, as its rows call it, the version that the publication "
        "prints.",
        examples=[{"OneFlow": "0.2.0"}],
    )
    notes: dict[str, Annotated[str, Field(min_length=1)]] = Field(
        default={},
        description="By metric, what its published numbers really are, where that is not what "
        "their name says. It stands above each table of them.",
        examples=[{"latency": "the cycle of a pipelined loop"}],
    )


def load(path: Path) -> Import:
    """Read and validate a YAML file. Raises ConfigError, which lists every problem."""
    data, written = read_written(path, str(path))
    try:
        return Import.model_validate(data)
    except ValidationError as error:
        raise ConfigError(str(path), explain(error, Import, written, data)) from None


def is_import(path: Path) -> bool:
    """Whether a config is of an imported round, right or wrong: it has `files` and no workloads."""
    data = read_yaml(path, str(path))
    return "files" in data and "workloads" not in data


def dump(config: Import) -> str:
    return yaml.safe_dump(config.model_dump(), sort_keys=False, width=100)
