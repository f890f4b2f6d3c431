"""NPZ: NumPy's archives, with an array for each field (see columns.py).

They are not compressed, because zlib's bytes differ between its versions. NumPy dates all members
1980, so the same samples give the same bytes.
"""

import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dlperf.loaders import DataError
from dlperf.prepare.formats import columns

SUFFIX = ".npz"


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        np.savez(path, **columns.collect(samples, Path(folder)))


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Raises DataError if the archive is incomplete or the checksum of an array is wrong."""
    try:
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a whole NPZ archive ({error})") from None
    yield from columns.samples(arrays)
