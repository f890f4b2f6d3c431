"""Answers of a trained model and the weights that they are of: what a replay of them needs.

In: the batches of two tests of the quality scenario, the last one and the one that first met the
target, as they are answered and counted; and the training's weights. Out: of each test of one
batch, which is drawn, its number, its sha256, and of each sample's answers the norm and their
projections (contract/projection.py); and a file of the weights and of batch-norm's running
statistics. All of that is made behind the window, but the file of the weights that met the target,
for which the clock stops. While a model is tested, a number is drawn for each batch, behind its
answer: nobody who answers knows whether it is replayed.
"""

import dataclasses
import functools
import hashlib
import json
import math
import os
import random

from dlperf import workloads
from dlperf.contract.draws import BITS
from dlperf.contract.ownership import as_part
from dlperf.contract.projection import summary
from dlperf.contract.timer import perf_counter
from dlperf.contract.work import Table, parts
from dlperf.workloads import drawn

#: What a file has before the tensors of each kind.
WEIGHT, STATISTIC = "weight", "statistic"
#: The folder, among the weights behind the last test, for those that first met the target.
TARGET = "target"


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
        found = {
            "rank": run.rank,
            "batch": number,
            "sha256": sha256_of(batch),
            "signs": signs,
            **summary_of(outputs[:own], signs),
        }
        model = drawn.of(run.workload)
        if model:
            found["drawn"] = model.words(outputs[:own], batch).tolist()
        return found


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


class AtTarget:
    """The test that first met the target, before the last one: its Drawn, and its weights.

    Ranks test a share each: they tell each other what counts by files in `run.weights_dir`, and all
    know then whether the target is met. seconds, computed: how long the clock stood still for that,
    and the user time of the rank's processes meanwhile.
    """

    def __init__(self, run, work, stopwatch):
        self._run, self._work, self._stopwatch = run, work, stopwatch
        self.seconds = self.computed = 0.0
        self.drawn = None

    def tested(self, number, drawn, sums, count):
        """Behind a test that is not the last one: keep it if it is the first to meet the target.

        number: of the step that it was behind. sums, count: what counts of this rank's answers.
        """
        if self._run.ranks == 1 and self.drawn:
            return
        self._tell(number, sums, count)
        begun, computed = perf_counter(), self._stopwatch.taken().user
        if not self.drawn and self._is_met(self._of_all(number, sums)):
            self.drawn = drawn
            self._work.weights.keep(os.path.join(self._run.weights_dir, TARGET))
        # all of them, also if one could not read what others told
        self._meet("kept %d" % number)
        self.computed += self._stopwatch.taken().user - computed
        self.seconds += perf_counter() - begun

    def _is_met(self, sums):
        judge = workloads.of(self._run.workload).quality
        return bool(sums) and judge.score.reached(judge.value(sums), self._run.target)

    def _tell(self, number, sums, count):
        if self._run.ranks == 1:
            return
        try:
            os.makedirs(self._run.weights_dir, exist_ok=True)
            path = self._path_of(number, self._run.rank)
            with open(path, "w", encoding="utf-8") as stream:
                json.dump([sums, count], stream)
        except OSError:  # as on a full disk: the others find nothing
            pass
        self._meet("tested %d" % number)

    def _of_all(self, number, sums):
        """The sums of all ranks; [] where those of another one cannot be read."""
        if self._run.ranks == 1:
            return sums
        paths = [self._path_of(number, rank) for rank in range(self._run.ranks)]
        try:
            told = [_read_json(path) for path in paths]
        except (OSError, ValueError):
            return []
        return functools.reduce(added, (own for own, tested in told if tested), [])

    def _path_of(self, number, rank):
        return os.path.join(self._run.weights_dir, "tested%d.rank%d.json" % (number, rank))

    def _meet(self, name):
        if self._run.ranks > 1:
            self._stopwatch.meet(name)


def _read_json(path):
    with open(path, encoding="utf-8") as stream:
        return json.load(stream)


def added(sums, more):
    """What counts of two tests together; [] counts nothing."""
    return [float(one + other) for one, other in zip(sums or [0.0] * len(more), more)]


def path_of(folder, rank):
    """The file of a rank's weights."""
    return os.path.join(folder, "rank%d" % rank)


def keeping(run, work):
    """The same Work, whose weights are written to `run.weights_dir` as they are read.

    So the file has what the record has the sha256 of, and nothing is read once more. They have
    `keep(folder)` too, which writes them there.
    """
    return dataclasses.replace(work, weights=_Kept(run, work.weights))


class _Kept:
    """Weights of a Work. Ranks have the same ones: the first one's are kept, and all statistics."""

    def __init__(self, run, weights):
        self._run, self._weights = run, weights

    def __getattr__(self, name):
        return getattr(self._weights, name)

    def read(self):
        return self._kept(self._run.weights_dir)

    def keep(self, folder):
        for _, array in self._kept(folder):
            for _ in parts(array):
                pass

    def _kept(self, folder):
        file = _File(path_of(folder, self._run.rank))
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
