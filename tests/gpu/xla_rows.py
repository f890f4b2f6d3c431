"""JAX's rows of matrix.py: steps that are compiled for an H100, and what their programs have."""

import contextlib
import gzip
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import xla_steps
from gpu_packages import JAX
from gpu_steps import Step, gigabytes
from xla_checks import problems

from dlperf.contract.traffic import COUNTS

FOLDER = "compiled_for_gpu"
#: What steps there are beside the standard ones: a workload's own layouts and dimensions.
LAYOUTS = {
    "resnet50": [(1, {}, {}), (8, {}, {}), (1, {"accumulation": 2}, {})],
    "bert": [(1, {}, {}), (8, {}, {})],
    "wide_deep": [
        (1, {}, {}),
        (8, {}, {}),
        (8, {}, {"tables": "sharded"}),
        (1, {}, {"adam": "dense"}),
    ],
    "electra": [(1, {}, {}), (8, {}, {}), (1, {"accumulation": 2}, {})],
    "electra_squad": [(1, {}, {}), (8, {}, {})],
    "gpt": [
        (1, {}, {}),
        (8, {}, {}),
        (1, {"activation_checkpointing": True}, {}),
        (2, {"tensor_parallel": 2}, {}),
        (2, {"pipeline_parallel": 2, "accumulation": 4}, {}),
        (8, {"tensor_parallel": 2, "pipeline_parallel": 2, "accumulation": 4}, {}),
    ],
    "insightface": [
        (1, {}, {}),
        (8, {}, {}),
        (8, {}, {"head": "model"}),
        (8, {}, {"head": "partial"}),
    ],
}
COMPILERS = ("",)
COMPILER = "xla"
#: Columns of the table, and the titles of those that docs/gpu-results.md shows.
COLUMNS = (
    "kernels",
    "launches",
    "products",
    "float32_products",
    "tf32_products",
    "convolutions",
    "convolutions_nhwc",
    "copies",
    "copies_gb",
    "gb",
    "least_gb",
    "fused_gb",
    "eager_gb",
    "temporary_gb",
    "argument_gb",
    "collectives",
    "collectives_waited_for",
    "collectives_gb",
)
TITLES = {
    "kernels": "kernels",
    "copies": "copies",
    "gb": "GB",
    "least_gb": "least",
    "eager_gb": "separate",
    "temporary_gb": "temporary GB",
    "float32_products": "float32 products",
    "collectives": "exchanges",
    "collectives_waited_for": "waited for",
}
#: What reports show of them: the released table's column -> ours.
RELEASED = {
    **{name: name for name in ("kernels", "launches", "gb", "least_gb")},
    "separate_gb": "eager_gb",
    "memory_gb": "temporary_gb",
    "exchanges": "collectives",
    "waited_for": "collectives_waited_for",
}


def ranks(devices: int, layout: Mapping[str, Any]) -> tuple[int, ...]:
    """Those whose steps are compiled: all ranks have the same program."""
    return (0,)


@contextlib.contextmanager
def maker() -> Iterator[Callable[[Step, Path], str]]:
    """What makes a step in a folder, and returns why it cannot be made, or ""."""
    python = JAX.python()

    def compile_into(step: Step, folder: Path) -> str:
        try:
            xla_steps.compile_into(folder, step, python)
        except (xla_steps.CompileError, subprocess.TimeoutExpired) as error:
            return str(error)
        program = folder / "program.txt"
        (folder / "program.txt.gz").write_bytes(gzip.compress(program.read_bytes()))
        program.unlink()
        return ""

    yield compile_into


def row(step: Step, folder: Path) -> dict[str, Any]:
    """What the program in a folder has in it; `breaks`: the checks that it does not pass."""
    made = xla_steps.read(folder, step)
    program, limits = made.program, made.limits or {}
    convolutions = [each for each in program.products if each.kind == "convolution"]
    copies, moved = program.transposed
    return {
        "kernels": program.kernels,
        "launches": program.launches.total(),
        "products": len(program.products),
        "float32_products": sum("f32" in each.types for each in program.products),
        "tf32_products": sum(each.is_tf32 for each in program.products),
        "convolutions": len(convolutions),
        "convolutions_nhwc": sum(each.is_channels_last for each in convolutions),
        "copies": copies,
        "copies_gb": gigabytes(moved),
        "gb": gigabytes(program.bytes),
        **{f"{name}_gb": gigabytes(limits.get(name)) for name in COUNTS},
        "temporary_gb": gigabytes(made.temporary_bytes),
        "argument_gb": gigabytes(made.facts["argument_bytes"]),
        "collectives": len(program.collectives),
        "collectives_waited_for": sum(not each.asynchronous for each in program.collectives),
        "collectives_gb": gigabytes(sum(each.bytes for each in program.collectives)),
        "breaks": problems(made),
        "seconds": made.facts["seconds"],
    }
