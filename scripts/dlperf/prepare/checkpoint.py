"""A published checkpoint, by the names of the workload that starts from it.

In: a file `model.safetensors`, whose tensors are named as the workload's facts say (`CHECKPOINT`,
`names_in_checkpoint`). Out: an NPZ of float32 arrays by canonical name. What a fine-tuning adds,
its heads, is not in it: they start from the seed.
"""

import json
from pathlib import Path
from types import ModuleType

import numpy as np

from dlperf.loaders import DataError

TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}
LARGEST_HEADER = 100 << 20


def convert(source: Path, out: Path, facts: ModuleType) -> None:
    """Write the NPZ of the tensors that a workload's facts name.

    Raises DataError where one is missing or of another shape.
    """
    fix = f"a file model.safetensors of {facts.CHECKPOINT} is needed"
    tensors = read(source, fix)
    found = {}
    for name, tensor in facts.parameters({}).items():
        if facts.of_head(name):
            continue
        names = facts.names_in_checkpoint(name)
        for each in names:
            if each not in tensors:
                types = ", ".join(TYPES)
                raise DataError(f"{source}: has no tensor {each} of type {types}; {fix}")
        parts = [tensors[each] for each in names]
        array = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if array.shape != tensor.shape:
            raise DataError(
                f"{source}: {names[0]} gives {name} the shape {array.shape}, not "
                f"{tensor.shape}; {fix}"
            )
        if not np.isfinite(array).all():
            raise DataError(f"{source}: {names[0]} has values that are not finite")
        found[name] = array.astype(np.float32)
    np.savez(out, **found)


def read(path: Path, fix: str) -> dict[str, np.ndarray]:
    """The tensors of floating-point numbers of a safetensors file by name, mapped from it.

    Others are left out: older checkpoints have the positions' numbers, too. Eight bytes say how
    long the header is; it is JSON, and says each tensor's type, shape and place
    (github.com/huggingface/safetensors, Format). Raises DataError for any other file.
    """
    try:
        size = path.stat().st_size
        with open(path, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 2 <= length <= min(LARGEST_HEADER, size - 8):
                raise ValueError(f"its header would have {length} bytes")
            header = json.loads(stream.read(length))
        found = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, stop = entry["data_offsets"]
            if not 0 <= start <= stop <= size - 8 - length:
                raise ValueError(f"{name} does not fit into it")
            if entry["dtype"] not in TYPES:
                continue
            kind, shape = np.dtype(TYPES[entry["dtype"]]), tuple(entry["shape"])
            count = int(np.prod(shape, dtype=np.int64))
            if stop - start != count * kind.itemsize:
                raise ValueError(f"{name} is not as long as its shape says")
            found[name] = np.memmap(path, kind, "r", 8 + length + start, (count,)).reshape(shape)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; {fix}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: not a safetensors file ({error}); {fix}") from None
    return found
