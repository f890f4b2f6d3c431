"""Answers of a trained model and the weights that they are of: what a replay of them needs.

In: the batches of the last test of the quality scenario, as they are answered and counted; and the
training's weights. Out: of one batch, which is drawn, its number, its sha256, and of each sample's
answers the norm and their projections (contract/projection.py); and a file of the weights and of
batch-norm's running statistics. All of that is made behind the window. While a model is tested, a
number is drawn for each batch, behind its answer: nobody who answers knows whether it is replayed.
"""

import dataclasses
import hashlib
import math
import os
import random

from dlperf.contract.draws import BITS
from dlperf.contract.ownership import as_part
from dlperf.contract.projection import summary
from dlperf.contract.work import Table, parts

#: What a file has before the tensors of each kind.
WEIGHT, STATISTIC = "weight", "statistic"


class Drawn:
    """One batch of those that were seen, each of them as likely as any other."""

    def __init__(self):
        self._dice, self._count, self._kept = random.SystemRandom(), 0, None

    def see(self, batch, own, outputs, counted):
        """Take this batch, or leave the one that was taken before.

        own: how many of its samples count. counted: what counts of the answers.
        """
        self._count += 1
        if not self._dice.randrange(self._count):
            self._kept = self._count - 1, batch, own, outputs, counted

    def shown(self, run, count):
        """What a rank tells of the batch; of a rank that tests nothing its number alone.

        count(run, batch, own, outputs): what counts of answers. Raises RuntimeError where that is
        not what was counted: whoever answers may still have the array.
        """
        import numpy as np  # not for the plan

        if self._kept is None:
            return {"rank": run.rank}
        number, batch, own, outputs, counted = self._kept
        if type(outputs) is not np.ndarray:
            raise TypeError("answers are no NumPy array: %s" % type(outputs).__name__)
        again = count(run, batch, own, outputs)
        for before, now in zip(counted, again):
            if np.asarray(before).tobytes() != np.asarray(now).tobytes():
                raise RuntimeError("the answers of a test were changed after they were counted")
        signs = self._dice.getrandbits(BITS)
        return {
            "rank": run.rank,
            "batch": number,
            "sha256": sha256_of(batch),
            "signs": signs,
            **summary_of(outputs[:own], signs),
        }


def summary_of(outputs, signs):
    """That of projection.py, with None for a sample whose answers are not finite: JSON has no word
    for that, and a training may diverge."""
    found = summary(outputs, signs)
    found["samples"] = [each if math.isfinite(each[0]) else None for each in found["samples"]]
    return found


def sha256_of(batch):
    """That of a batch's arrays; of images, the same whichever axis has the colours."""
    import numpy as np  # not for the plan

    digest = hashlib.sha256()
    for each in batch:
        if each.ndim == 4 and each.shape[1] == 3:
            each = each.transpose(0, 2, 3, 1)
        digest.update(("%s %s " % (each.dtype.str, each.shape)).encode())
        digest.update(np.ascontiguousarray(each))
    return digest.hexdigest()


def path_of(folder, rank):
    """The file of a rank's weights."""
    return os.path.join(folder, "rank%d" % rank)


def keeping(run, work):
    """The same Work, whose weights are written to `run.weights_dir` as they are read.

    So the file has what the record has the sha256 of, and nothing is read once more.
    """
    return dataclasses.replace(work, weights=_Kept(run, work.weights))


class _Kept:
    """Weights of a Work. Ranks have the same ones: the first one's are kept, and all statistics."""

    def __init__(self, run, weights):
        self._run, self._weights = run, weights

    def __getattr__(self, name):
        return getattr(self._weights, name)

    def read(self):
        file = _File(path_of(self._run.weights_dir, self._run.rank))
        for key, array in self._weights.read():
            if self._run.rank == 0:
                array = file.add(WEIGHT, key, array)
            yield key, array
        for key, array in self._weights.statistics():
            for _ in parts(file.add(STATISTIC, key, array)):
                pass
        file.close()


class _File:
    """A file of tensors, whole or not there: where it cannot be written, the replay says so.

    A line of kind and name, and an array as NumPy saves it, one behind the other.
    """

    def __init__(self, path):
        self._path, self._stream = path, None
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.exists(path):
                os.remove(path)
            self._stream = open(path + ".part", "wb")
        except OSError:
            pass

    def add(self, kind, key, array):
        """The same array, which is written: of a Table each part as it is read."""
        import numpy as np  # not for the plan

        part = as_part(key)
        if not part.is_whole:
            self._give_up()
        header = {"descr": "<f4", "fortran_order": False, "shape": tuple(array.shape)}
        self._try(lambda stream: stream.write(("%s %s\n" % (kind, part.name)).encode()))
        self._try(lambda stream: np.lib.format.write_array_header_1_0(stream, header))
        if isinstance(array, Table):
            return Table(array.shape, lambda: self._written(array))
        self._write(array)
        return array

    def _written(self, table):
        for first, last, rows in table.parts():
            self._write(rows)
            yield first, last, rows

    def _write(self, array):
        import numpy as np  # not for the plan

        self._try(lambda stream: stream.write(np.ascontiguousarray(array, "<f4")))

    def _try(self, write):
        if self._stream:
            try:
                write(self._stream)
            except OSError:
                self._give_up()

    def _give_up(self):
        if self._stream:
            stream, self._stream = self._stream, None
            try:
                stream.close()
            except OSError:
                pass
            os.remove(self._path + ".part")

    def close(self):
        self._try(lambda stream: stream.flush())
        if self._stream:
            self._stream.close()
            os.replace(self._path + ".part", self._path)


def read(path):
    """Pairs of kind and name, and float32 array, of a file. Raises OSError where there is none."""
    import numpy as np  # not for the plan

    with open(path, "rb") as stream:
        for line in iter(stream.readline, b""):
            kind, _, name = line.decode().strip().partition(" ")
            yield (kind, name), np.lib.format.read_array(stream)
