"""PyTorch's rows of matrix.py: steps that are driven on the null device, and what it was told."""

import contextlib
import gzip
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch_steps
from gpu_steps import Step, gigabytes
from torch_checks import problems

FOLDER = "on_null_device"
#: What steps there are beside the standard ones: a workload's own layouts and dimensions.
LAYOUTS = {
    "resnet50": [(1, {}, {}), (2, {}, {}), (1, {"accumulation": 2}, {})],
    "bert": [(1, {}, {}), (2, {}, {})],
    "wide_deep": [
        (1, {}, {}),
        (2, {}, {}),
        (2, {}, {"tables": "sharded"}),
        (1, {}, {"adam": "dense"}),
    ],
    "electra": [(1, {}, {}), (2, {}, {}), (1, {"accumulation": 2}, {})],
    "electra_squad": [(1, {}, {}), (2, {}, {})],
    "gpt": [
        (1, {}, {}),
        (2, {}, {}),
        (1, {"activation_checkpointing": True}, {}),
        (2, {"zero_stage": 1}, {}),
        (2, {"zero_stage": 2}, {}),
        (2, {"zero_stage": 3}, {}),
        (2, {"tensor_parallel": 2}, {}),
        (2, {"pipeline_parallel": 2, "accumulation": 4}, {}),
        (8, {"tensor_parallel": 2, "pipeline_parallel": 2, "accumulation": 4}, {}),
    ],
    "insightface": [
        (1, {}, {}),
        (2, {}, {}),
        (2, {}, {"head": "model"}),
        (2, {}, {"head": "partial"}),
        (1, {}, {"backbone": "y1"}),
        (2, {}, {"backbone": "y1"}),
    ],
}
COMPILERS = ("none", "inductor")
#: Columns of the table, and the titles of those that docs/gpu-results.md shows.
COLUMNS = (
    "work",
    "launches",
    "graphs",
    "products",
    "float32_products",
    "tf32_products",
    "convolutions",
    "convolutions_nhwc",
    "attention",
    "exchanges",
    "exchanges_behind",
    "exchanges_gb",
    "resident_gb",
    "peak_gb",
    "kept_gb",
)
TITLES = {
    "work": "kernels",
    "launches": "launches",
    "graphs": "graphs",
    "float32_products": "float32 products",
    "attention": "attention",
    "exchanges": "exchanges",
    "exchanges_behind": "behind",
    "resident_gb": "resident GB",
    "peak_gb": "peak GB",
    "kept_gb": "kept GB",
}
#: What reports show of them: the released table's column -> ours.
RELEASED = {
    "kernels": "work",
    "launches": "launches",
    "memory_gb": "peak_gb",
    "exchanges": "exchanges",
    "waited_for": "exchanges_behind",
}


def ranks(devices: int, layout: Mapping[str, Any]) -> tuple[int, ...]:
    """Those whose steps are driven: the first, and of a pipeline the last, which has the head."""
    return (0, devices - 1) if "pipeline_parallel" in layout else (0,)


@contextlib.contextmanager
def maker() -> Iterator[Callable[[Step, Path], str]]:
    """What makes a step in a folder, and returns why it cannot be made, or ""."""
    device = torch_steps.Device()

    def drive_into(step: Step, folder: Path) -> str:
        began = time.monotonic()
        try:
            device.drive(step, folder)
        except torch_steps.DriveError as error:
            return str(error)
        (folder / "seconds.txt").write_text(f"{time.monotonic() - began:.1f}\n")
        log = folder / "log.txt"
        (folder / "log.txt.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.unlink()
        return ""

    try:
        yield drive_into
    finally:
        device.close()


def row(step: Step, folder: Path) -> dict[str, Any]:
    """What the device was told in a step; `breaks`: the checks that it does not pass."""
    made = torch_steps.read(folder, step)
    told = made.log.step
    convolutions = [each for each in told.products if each.is_convolution]
    reduced = [each for each in told.exchanges if each.kind == "all-reduce"]
    return {
        "work": told.work,
        "launches": told.launches,
        "graphs": told.graphs,
        "products": len(told.products),
        "float32_products": sum("f32" in each.types[:2] for each in told.products),
        "tf32_products": sum(each.rounding == "tf32" for each in told.products),
        "convolutions": len(convolutions),
        "convolutions_nhwc": sum(each.layout == "NHWC" for each in convolutions),
        "attention": ", ".join(f"{n} {backend}" for backend, n in told.attention.items()),
        "exchanges": len(told.exchanges),
        "exchanges_behind": sum(not each.beside for each in reduced),
        "exchanges_gb": gigabytes(sum(each.bytes for each in told.exchanges)),
        "resident_gb": gigabytes(made.facts["resident_bytes"]),
        "peak_gb": gigabytes(made.peak_bytes),
        "kept_gb": gigabytes((step.limits or {}).get("kept")),
        "breaks": problems(made),
        "seconds": float((folder / "seconds.txt").read_text()),
    }
