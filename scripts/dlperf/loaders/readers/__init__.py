"""Each framework's own input pipeline for images: shards in its format -> batches on its device.

The input is a Run whose data_dir is a folder that dlperf.prepare.images made. The output is endless
batches that a ResNet-50 implementation can train on. All pipelines do the same: a random resized
crop (CROP_AREA and CROP_ASPECT of loaders/images.py), bilinear, a horizontal flip in half of all
cases, ImageNet's mean and standard deviation, float32. Images are shuffled from the run's seed, and
each is on one rank in an epoch. But each pipeline uses its framework's own operators, and a
module's docstring says how they differ. So the batches of two frameworks are similar and not equal,
and a digest could not compare them.

A module has

    open_images(run, layout, epoch=0) -> Reader

`epoch` is the epoch in which a run is resumed. Class folders then give exactly the batches of that
epoch. DALI and the other formats use generators of their own and give another shuffle.

Python 3.7 and newer, as loaders/images.py.
"""

import collections
import importlib
import json
import os
import time

import numpy as np

from dlperf.contract import draws
from dlperf.loaders import DataError, libraries
from dlperf.loaders.formats import OF_FRAMEWORK
from dlperf.loaders.images import NOISE, noise
from dlperf.loaders.manifest import how_to_fix, sha256_of_file
from dlperf.loaders.photos import Photos
from dlperf.loaders.prefetch import Batches

#: How many batches are ready or being made in addition to the one in use.
AHEAD = 2
#: How many records are shuffled with each other, if a framework has a window for that. It is small,
#: because the shards are shuffled already and the first batch waits until the window is full.
SHUFFLE = 1024


def open_batches(run, layout, kind):
    """The same function as every loader has (workloads/inputs.py), for a Run.

    kind: what the workload declares of these data, a contract.dimension.Data.
    """
    return Later(run, layout, kind) if run.scenario == "quality" else open_images(run, layout)


def open_images(run, layout, epoch=0):
    """The reader of the run's framework, or NVIDIA DALI if the data say so.

    Raises DataError as `Shards` does, and if DALI is asked for and not there.
    """
    if run.framework not in OF_FRAMEWORK:
        raise DataError("%s has no reader of images; it is one of %s" % (run.framework, known()))
    name = run.framework
    if libraries.is_read_by_dali(run.data):
        if name not in libraries.DALI:
            raise DataError(
                "data %r: NVIDIA DALI reads here for %s, not for %s"
                % (run.data, " and ".join(libraries.DALI), name)
            )
        if not has_dali():
            raise DataError(
                "data %r needs NVIDIA DALI, which %s does not have; the environment for CUDA has "
                "it, and `environments: interpreters: %s` can name another one"
                % (run.data, run.interpreter, name)
            )
        name += "_dali"
    module = importlib.import_module("dlperf.loaders.readers." + name)
    reader = module.open_images(run, layout, epoch)
    reader.room = draws.kept_steps(run.dimensions, run.batch_size, run.accumulation)
    return reader


def has_dali():
    """Whether this environment has NVIDIA DALI. If it has and it cannot be imported, that is an
    error."""
    try:
        import nvidia.dali  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name in ("nvidia", "nvidia.dali"):
            return False
        raise
    return True


class Later(Batches):
    """In the quality scenario: noise, and once it begins, what the framework's reader gives.

    The reader is opened then, and not before: nothing is read ahead of the clock.
    """

    on_device = True
    first_batch_sha256 = None

    def __init__(self, run, layout, kind):
        self.manifest_sha256, self._kind = Shards(run).manifest_sha256, kind
        self._run, self._layout, self._reader = run, layout, None
        self._noises = np.random.RandomState([run.seed, NOISE, run.rank])
        self._left = run.input.warmup

    def noise(self):
        """The next batch of it, NumPy arrays; None behind the last one."""
        if self._reader or not self._left:
            return None
        self._left -= 1
        return noise(self._run.input, self._layout or "NHWC", self._noises)

    def begin(self):
        self._reader = open_images(self._run, self._layout)

    def next(self):
        return self._reader.next()

    def tests(self):
        return Photos(self._run.input._replace(kind=self._kind), self._layout or "NHWC")

    def fill(self):
        """Nothing may be read yet."""

    def close(self):
        if self._reader:
            self._reader.close()

    @property
    def waited_seconds(self):
        return self._reader.waited_seconds if self._reader else 0.0

    @property
    def parity(self):
        return self._reader.parity if self._reader else {}


def known():
    return ", ".join(OF_FRAMEWORK)


def counted(number, what):
    return "%d %s%s" % (number, what, "" if number == 1 else "s")


class Reader(Batches):
    """Endless batches, ready for the step, and how long each was waited for.

    batches: an iterator of them. arrays: tensors of a batch -> NumPy arrays, once they are
    complete. settle: called before the clock starts, if a batch would have to wait for the step
    before it that is still queued on the same core. That wait is not for data. keep: what to hold
    of a batch so that it stays as it is; None: nothing does. room: of so many steps.

    The batches of a window are held, in every run alike, if there is room for all of them: a spot
    run tells them to its replay.
    """

    on_device = True
    first_batch_sha256 = None

    room = 0

    def __init__(
        self,
        batches,
        shards,
        parity,
        arrays,
        close=lambda: None,
        settle=lambda: None,
        keep=lambda batch: batch,
    ):
        self._batches, self._close, self._settle, self._keep = batches, close, settle, keep
        self._ready, self._given = collections.deque(), None
        self.arrays = arrays
        self.manifest_sha256 = shards.manifest_sha256
        self.parity = parity
        self.waited_seconds = 0.0

    def next(self):
        """The next batch, as the implementation's `put` would return it."""
        if self._ready:
            batch = self._ready.popleft()
        else:
            self._settle()
            start = time.perf_counter()
            batch = next(self._batches)
            self.waited_seconds += time.perf_counter() - start
        if self._given is not None:
            self._given.append(self._keep(batch))
        return batch

    def redraw(self, seed, steps):
        """A window begins, of so many steps; 0: it is not known of how many."""
        self._given = [] if self._keep and 0 < steps <= self.room else None

    def given(self):
        """The arrays of each batch of the window; None: they were not kept."""
        return None if self._given is None else [self.arrays(each) for each in self._given]

    def fill(self):
        """Return when a batch is ready; the framework continues to fill its buffers."""
        if not self._ready:
            self._ready.append(next(self._batches))

    def close(self):
        self._ready.clear()
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class Shards:
    """The shards of a run's data_dir. Only their sizes are checked: hashing 150 GB takes minutes.

    Raises DataError if they are missing, of another framework, or too few for the ranks.
    """

    def __init__(self, run):
        path = os.path.join(run.data_dir, "manifest.json")
        format = OF_FRAMEWORK[run.framework]
        how = "python -m dlperf.prepare.images --format %s --out %s" % (format, run.data_dir)
        if not run.data_dir:
            raise DataError(
                "settings key 'data_dir' is empty; data %r needs a folder of shards: %s"
                % (run.data, how.replace("--out ", "--out FOLDER"))
            )
        try:
            with open(path, encoding="utf-8") as stream:
                manifest = json.load(stream)
            found, files = manifest.get("format"), manifest["files"]
            shards = [file for file in files if "samples" in file]
            sizes = [(os.path.join(run.data_dir, file["path"]), file["bytes"]) for file in files]
        except OSError as error:
            raise DataError("%s: %s; make it: %s" % (path, os.strerror(error.errno), how))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError("%s: not a manifest of shards (%r); make it: %s" % (path, error, how))
        if found != format:
            raise DataError(
                "%s: its format is %r, and %s reads %r: %s"
                % (path, found, run.framework, format, how)
            )
        for name, size in sizes:
            if not os.path.isfile(name) or os.path.getsize(name) != size:
                raise DataError(
                    "%s: missing, or not of %d bytes as %s says; %s"
                    % (name, size, path, how_to_fix(run.data_dir))
                )
        self.folder = run.data_dir
        self.paths = [os.path.join(run.data_dir, file["path"]) for file in shards]
        self.counts = [file["samples"] for file in shards]
        self.samples = sum(self.counts)
        self.manifest_sha256 = sha256_of_file(path)
        if self.samples < run.global_batch_size:
            raise DataError(
                "%s: %d images, fewer than the %d of one global batch (%d ranks x batch size %d)"
                % (path, self.samples, run.global_batch_size, run.ranks, run.batch_size)
            )
