"""Stated peaks: the highest speed of a device, according to its manufacturer or the round's config.

The input is config/peaks.yaml and `peaks` of a config. The output is the dense TFLOP/s of one
device, by precision. Figures with sparsity are refused: they count products with zeros that no
framework here leaves out, so MFU would be half of the true value (docs/limits.md).
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
#: A config may state this much more than peaks.yaml, because data sheets round.
ROUNDING = 0.02

PeakPrecision = Annotated[str, OneOf("a precision", ("fp32", "tf32", "bf16", "fp16"))]
Teraflops = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DeviceName = Annotated[str, Field(min_length=1)]


class Gpu(BaseModel):
    """Cards of one kind. There must be no key for a figure with sparsity."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    names: list[DeviceName] = Field(
        min_length=1, description="The names as NVML spells them, without `NVIDIA ` and `Tesla `."
    )
    dense_tflops: dict[PeakPrecision, Teraflops] = Field(
        min_length=1, description="Dense TFLOP/s (without sparsity) by precision."
    )
    source: str = Field(min_length=1, description="Where the figures were published.")


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
                problem = Problem(f"gpus.{title}.names", repr(name), "occurs twice in this file")
                raise ConfigError(str(path), [problem])
            seen.add(name)
    return found


def known(device: str, path: Path = PEAKS) -> Stated | None:
    """The entry of a GPU in peaks.yaml. The full name counts, so an `H100 PCIe` is not an H100."""
    name = device.removeprefix("NVIDIA ").removeprefix("Tesla ")
    for gpu in read(path).gpus.values():
        if name in gpu.names:
            return Stated(gpu.dense_tflops, gpu.source)
    return None


def stated(device: str, config: "Config", path: Path = PEAKS) -> Stated | None:
    """The stated peak of one of the round's devices, if there is one; the config has priority.

    It is the peak of one GPU, or of `cores_per_device` cores of a CPU.
    """
    if own := config.peaks.get(device):
        cores = config.cores_per_device if config.device == "cpu" else 1
        tflops = {precision: value * cores for precision, value in own.items()}
        return Stated(tflops, "`peaks` in the round's config")
    return known(device, path)


def above_dense(config: "Config", path: Path = PEAKS) -> Iterator[Problem]:
    """Peaks in a config that are above those of peaks.yaml: with sparsity, or typing mistakes."""
    for device, own in config.peaks.items():
        dense = known(device, path)
        for precision, value in own.items() if dense else ():
            most = dense.tflops.get(precision) if dense else None
            if most is not None and value > most * (1 + ROUNDING):
                message = (
                    f"is above the dense peak of this GPU, {most:g} TFLOP/s ({path.name}); "
                    "a figure with sparsity does not apply to what is measured here"
                )
                yield Problem(f"peaks.{device}.{precision}", f"{value:g}", message)
