"""TensorFlow 2's rows of matrix.py: traced steps, and what their operations are on a GPU."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tf_steps
from gpu_packages import TENSORFLOW
from gpu_steps import Step
from tf_checks import problems

FOLDER = "traced_for_gpu"
#: What steps there are beside the standard ones: a workload's own layouts and dimensions. Ranks
#: meet before they trace, so there is one.
LAYOUTS = {
    "resnet50": [(1, {}, {}), (1, {"accumulation": 2}, {})],
    "bert": [(1, {}, {})],
    "wide_deep": [(1, {}, {}), (1, {}, {"adam": "dense"})],
    "electra": [(1, {}, {}), (1, {"accumulation": 2}, {})],
    "electra_squad": [(1, {}, {})],
    "gpt": [(1, {}, {})],
    "insightface": [(1, {}, {}), (1, {}, {"backbone": "y1"})],
}
COMPILERS = ("none", "xla")
#: Columns of the table, and the titles of those that docs/gpu-results.md shows.
COLUMNS = (
    "operations",
    "compiled",
    "products",
    "float32_products",
    "convolutions",
    "casts",
    "transposes",
    "read",
)
TITLES = {
    "operations": "operations",
    "products": "products",
    "float32_products": "float32 products",
    "casts": "casts",
    "transposes": "transposes",
    "read": "read by the host",
}
RELEASED: dict[str, str] = {}  # of its steps, reports show nothing


def ranks(devices: int, layout: Mapping[str, Any]) -> tuple[int, ...]:
    return (0,)


@contextlib.contextmanager
def maker() -> Iterator[Callable[[Step, Path], str]]:
    """What makes a step in a folder, and returns why it cannot be made, or ""."""
    python = TENSORFLOW.python()

    def trace_into(step: Step, folder: Path) -> str:
        try:
            tf_steps.trace_into(folder, step, python)
        except (tf_steps.TraceError, subprocess.TimeoutExpired) as error:
            return str(error)
        return ""

    yield trace_into


def row(step: Step, folder: Path) -> dict[str, Any]:
    """What the operations in a folder are; `breaks`: the checks that the step does not pass."""
    made = tf_steps.read(folder, step)
    return {
        "operations": len(made.operations),
        "compiled": sum(each["compiled"] for each in made.operations),
        "products": len(made.products),
        "float32_products": sum(each["types"].get("T") == "float32" for each in made.products),
        "convolutions": made.count(*tf_steps.CONVOLUTIONS),
        "casts": made.count("Cast"),
        "transposes": made.count("Transpose"),
        "read": sum(len(each["from_device"]) for each in made.operations),
        "breaks": problems(made),
    }
