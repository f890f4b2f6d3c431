"""HDF5 as NVIDIA's BERT reads it: a data set for each field, a row for each sample (columns.py).

The data sets have the names of the fields (input_ids, segment_ids, next_sentence_labels and so on,
as create_pretraining_data.py of NVIDIA/DeepLearningExamples writes them). They are not compressed,
because zlib's bytes differ between its versions. Each block of rows has a checksum.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py

from dlperf.loaders import DataError
from dlperf.prepare.formats import columns

SUFFIX = ".hdf5"
BLOCK = 256  # rows


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, h5py.File(path, "w") as file:
        for name, column in columns.collect(samples, Path(folder)).items():
            # a checksum needs blocks, and a block needs a row
            block = (min(BLOCK, len(column)), *column.shape[1:]) if column.size else None
            data = file.create_dataset(
                name,
                column.shape,
                column.dtype,
                chunks=block,
                fletcher32=bool(column.size),
                track_times=False,
            )
            for row in range(0, len(column), BLOCK):
                data[row : row + BLOCK] = column[row : row + BLOCK]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Raises DataError if the file is incomplete or a block's checksum differs."""
    try:
        with h5py.File(path, "r") as file:
            arrays = {name: file[name][...] for name in file}
    except (OSError, KeyError, RuntimeError) as error:
        raise DataError(f"{path}: not a whole HDF5 file ({error})") from None
    yield from columns.samples(arrays)
