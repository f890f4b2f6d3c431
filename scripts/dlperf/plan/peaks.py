"""Stated peaks: what a device can do at most, as its maker says, or the round's config.

In: config/peaks.yaml, and `peaks` of a config. Out: TFLOP/s of one device, dense, by precision.
Only dense figures count: with sparsity a data sheet counts products with zeros that no framework
here leaves out, and an MFU over it would be half of the true one (docs/limits.md).
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dlperf.contract.choices import OneOf
from dlperf.contract.problems import ConfigError, Problem, explain, read_yaml

if TYPE_CHECKING:
    from dlperf.plan.config import Config

PEAKS = Path(__file__).resolve().parents[3] / "config/peaks.yaml"
#: A config may state this much more than peaks.yaml does: data sheets round.
ROUNDING = 0.02

PeakPrecision = Annotated[str, OneOf("a precision", ("fp32", "tf32", "bf16", "fp16"))]
Teraflops = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DeviceName = Annotated[str, Field(min_length=1)]


class Gpu(BaseModel):
    """Cards of one kind. There is no key for a figure with sparsity, and none may be added."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    names: list[DeviceName] = Field(
        min_length=1, description="As NVML spells them, without `NVIDIA ` and `Tesla `."
    )
    dense_tflops: dict[PeakPrecision, Teraflops] = Field(
        min_length=1, description="TFLOP/s by precision, dense: without sparsity."
    )
    source: str = Field(min_length=1, description="Where the figures stand.")


class Peaks(BaseModel):
    """config/peaks.yaml."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    gpus: dict[str, Gpu]


class Stated(NamedTuple):
    """Peaks of one device in TFLOP/s, and who says so."""

    tflops: dict[str, float]
    source: str


@cache
def read(path: Path = PEAKS) -> Peaks:
    """The file of peaks. Raises ConfigError, which lists every problem."""
    try:
        found = Peaks.model_validate(read_yaml(path, str(path)))
    except ValidationError as error:
        raise ConfigError(str(path), explain(error, Peaks)) from None
    seen: set[str] = set()
    for title, gpu in found.gpus.items():
        for name in gpu.names:
            if name in seen:
                problem = Problem(f"gpus.{title}.names", repr(name), "stands twice in this file")
                raise ConfigError(str(path), [problem])
            seen.add(name)
    return found


def known(device: str, path: Path = PEAKS) -> Stated | None:
    """What peaks.yaml says of a GPU; the whole name counts, so that an `H100 PCIe` is no H100."""
    name = device.removeprefix("NVIDIA ").removeprefix("Tesla ")
    for gpu in read(path).gpus.values():
        if name in gpu.names:
            return Stated(gpu.dense_tflops, gpu.source)
    return None


def stated(device: str, config: "Config", path: Path = PEAKS) -> Stated | None:
    """The stated peak of one of the round's devices, where there is one; the config's goes first.

    A GPU's is that of one GPU; a CPU's, of `cores_per_device` cores.
    """
    if own := config.peaks.get(device):
        cores = config.cores_per_device if config.device == "cpu" else 1
        tflops = {precision: value * cores for precision, value in own.items()}
        return Stated(tflops, "`peaks` in the round's config")
    return known(device, path)


def above_dense(config: "Config", path: Path = PEAKS) -> Iterator[Problem]:
    """Peaks in a config that are above what peaks.yaml has: those with sparsity, or misspelled."""
    for device, own in config.peaks.items():
        dense = known(device, path)
        for precision, value in own.items() if dense else ():
            most = dense.tflops.get(precision) if dense else None
            if most is not None and value > most * (1 + ROUNDING):
                message = (
                    f"is above the dense peak of this GPU, {most:g} TFLOP/s ({path.name}); "
                    "a figure with sparsity is no peak of what is measured here"
                )
                yield Problem(f"peaks.{device}.{precision}", f"{value:g}", message)
