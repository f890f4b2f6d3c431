"""In what precision a process multiplied: whose peak its limit is.

Apart from limits.py, as a machine with a framework alone can import it (benchmarks/first_gpu.py).
"""

from collections.abc import Mapping
from typing import Any


def peak_precision(parity: Mapping[str, Any], precision: str, device: str) -> str:
    """In what a process multiplied, from what it reported of itself: whose peak is its limit.

    "fp32", "tf32", "bf16" or "fp16"; "" where it did not say. On a GPU it is TF32 unless the
    process said that this is off, as a peak too low would show an MFU too high.
    """
    said = str(parity.get("compute_dtype") or {"fp32": "float32"}.get(precision, ""))
    if "float16" in said.replace("bfloat16", ""):
        return "fp16"
    if "bfloat16" in said:
        return "bf16"
    if "float32" not in said:
        return ""
    if device == "cpu":
        return "fp32"
    flags = [value for key, value in parity.items() if "tf32" in key]
    return "fp32" if flags and all(value in (False, "0") for value in flags) else "tf32"
