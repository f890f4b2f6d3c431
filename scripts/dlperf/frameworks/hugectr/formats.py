"""HugeCTR's files: training data as Norm and as Parquet, and weights, dense ones and tables.

In and out: NumPy arrays and paths. Each format is written and read here, so that tests can compare.
Sources, of HugeCTR 23.09: `DataSetHeader` in include/common.hpp and `read_a_batch` in
src/data_readers/data_reader_worker.cpp (Norm); docs/source/api/python_interface.md (Parquet, the
folder of a table); src/embeddings/distributed_slot_sparse_embedding_hash.cu (`key`, `emb_vector`).
"""

import json
import os

import numpy as np

from dlperf.contract.work import parts

FILE_LIST, METADATA = "_file_list.txt", "_metadata.json"
#: error_check (0: none), records, label_dim, dense_dim, slot_num, and three that are reserved.
HEADER = np.dtype("<i8")
HEADER_NUMBERS = 8
ROWS = 1 << 16  # of a table that are in memory at a time


def record(numbers, slots):
    """The NumPy type of a sample in Norm: a label, numbers, and a key in each slot."""
    slot = [("count", "<i4"), ("key", "<i8")]
    return np.dtype([("label", "<f4"), ("numbers", "<f4", numbers), ("slots", slot, slots)])


def write_list(folder, names):
    """Write the list of the data's files; return its path. A file may be in it several times."""
    path = os.path.join(folder, FILE_LIST)
    with open(path, "w") as stream:
        stream.write("\n".join([str(len(names))] + [os.path.join(folder, name) for name in names]))
        stream.write("\n")
    return path


def columns(batch):
    """(label, numbers, keys) of a clicks.Batch: the slots of the wide table come first."""
    return batch.labels, batch.numbers, np.concatenate([batch.wide, batch.deep], 1)


class Norm:
    """Writes one file in Norm, batch by batch; the header when it is closed."""

    suffix = "norm"

    def __init__(self, path):
        self._stream, self._records, self._sides = open(path, "wb"), 0, (0, 0)
        self._stream.write(bytes(HEADER.itemsize * HEADER_NUMBERS))

    def write(self, batch):
        labels, numbers, keys = columns(batch)
        self._sides = numbers.shape[1], keys.shape[1]
        samples = np.empty(len(labels), record(*self._sides))
        samples["label"], samples["numbers"] = labels, numbers
        samples["slots"]["count"], samples["slots"]["key"] = 1, keys
        self._stream.write(samples.tobytes())
        self._records += len(labels)

    def close(self):
        numbers, slots = self._sides
        self._stream.seek(0)
        header = np.array([0, self._records, 1, numbers, slots, 0, 0, 0], HEADER)
        self._stream.write(header.tobytes())
        self._stream.close()


def read_norm(path):
    """(label, numbers, keys) of a file in Norm. Raises ValueError where it is not whole."""
    with open(path, "rb") as stream:
        header = np.frombuffer(stream.read(HEADER.itemsize * HEADER_NUMBERS), HEADER)
        checked, records, labels, numbers, slots = header[:5]
        samples = np.frombuffer(stream.read(), record(int(numbers), int(slots)))
    if checked or labels != 1 or len(samples) != records or (samples["slots"]["count"] != 1).any():
        raise ValueError("%s: not a whole file of %d samples" % (path, records))
    return samples["label"], samples["numbers"], samples["slots"]["key"]


class Parquet:
    """Writes one file in Parquet, a row group a batch. It needs pyarrow, which the images have."""

    suffix = "parquet"

    def __init__(self, path):
        self._path, self._stream = path, None

    def write(self, batch):
        import pyarrow
        from pyarrow import parquet

        labels, numbers, keys = columns(batch)
        label, dense, categories = names(numbers.shape[1], keys.shape[1])
        arrays = [labels.astype(np.float32)]
        arrays += list(numbers.astype(np.float32).T) + list(keys.astype(np.int64).T)
        table = pyarrow.table(
            [pyarrow.array(each) for each in arrays], names=label + dense + categories
        )
        if self._stream is None:
            self._stream = parquet.ParquetWriter(self._path, table.schema)
        self._stream.write_table(table, row_group_size=len(labels))

    def close(self):
        if self._stream:
            self._stream.close()


def names(numbers, slots):
    """The columns' names in Parquet: (labels, numbers, categories)."""
    return (
        ["label"],
        ["I%d" % (each + 1) for each in range(numbers)],
        ["C%d" % (each + 1) for each in range(slots)],
    )


def write_metadata(folder, rows, numbers, slots):
    """Write `_metadata.json` of Parquet: the rows of each file by name, and what columns are."""
    found, place = {}, 0
    for kind, each in zip(("labels", "conts", "cats"), names(numbers, slots)):
        found[kind] = [
            {"col_name": name, "index": place + index} for index, name in enumerate(each)
        ]
        place += len(each)
    stats = [{"file_name": name, "num_rows": count} for name, count in rows.items()]
    with open(os.path.join(folder, METADATA), "w") as stream:
        json.dump(dict(file_stats=stats, **found), stream)


def write_dense(path, arrays):
    """Canonical arrays of the layers, in their order, as `load_dense_weights` takes them.

    One float32 after the other; of each layer the kernel, (inputs, outputs), then the bias.
    """
    with open(path, "wb") as stream:
        for array in arrays:
            turned = array.T if array.ndim == 2 else array
            stream.write(np.ascontiguousarray(turned, "<f4").tobytes())


def read_dense(path, shapes):
    """(name, canonical array) of each of `shapes`, from such a file. Raises ValueError for another
    model's."""
    flat, start = np.fromfile(path, "<f4"), 0
    if flat.size != sum(int(np.prod(shape)) for shape in shapes.values()):
        raise ValueError("%s has %d numbers: it is of another model" % (path, flat.size))
    for name, shape in shapes.items():
        values = flat[start : start + int(np.prod(shape))]
        start += values.size
        yield name, values.reshape(shape[::-1]).T if len(shape) == 2 else values


def write_table(folder, table):
    """An array or a Table (rows, width), as `load_sparse_weights` takes it: a row's key is its
    number."""
    os.makedirs(folder)
    np.arange(table.shape[0], dtype="<i8").tofile(os.path.join(folder, "key"))
    with open(os.path.join(folder, "emb_vector"), "wb") as stream:
        for _, _, rows in parts(table):
            for start in range(0, len(rows), ROWS):
                stream.write(np.ascontiguousarray(rows[start : start + ROWS], "<f4").tobytes())


def read_table(folder, shape):
    """The table of such a folder, whose keys may be in any order. Raises ValueError where it has
    not each row once."""
    rows, width = shape
    keys = np.fromfile(os.path.join(folder, "key"), "<i8")
    values = np.memmap(os.path.join(folder, "emb_vector"), "<f4", "r").reshape(-1, width)
    seen = np.zeros(rows, bool)
    inside = keys[(keys >= 0) & (keys < rows)]
    seen[inside] = True
    if len(keys) != rows or len(values) != rows or not seen.all():
        raise ValueError(
            "%s has %d rows of %d numbers, not each of %d once" % (folder, len(keys), width, rows)
        )
    table = np.empty(shape, np.float32)
    for start in range(0, rows, ROWS):
        table[keys[start : start + ROWS]] = values[start : start + ROWS]
    return table
