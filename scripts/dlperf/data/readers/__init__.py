"""Each framework's own input pipeline for images: shards in its format -> batches on its device.

In goes a Run whose data_dir is a folder that dlperf.data.images made; out come batches without end
that a ResNet-50 implementation trains on as they are. What all pipelines do is the same: random
resized crop (CROP_AREA and CROP_ASPECT of data/batches.py), bilinear, a horizontal flip in half of
all cases, ImageNet's mean and standard deviation, float32; shuffled from the run's seed, each
image on one rank in an epoch. How, each framework's own operators decide: a module's docstring
says where they differ. So batches of two frameworks are alike, not equal: a digest would say
nothing.

A module has

    open_images(run, layout, epoch=0) -> Reader

`epoch` is that of a run that is resumed: class folders then give the very batches of that
epoch; the others, whose orders come from their own generators, another shuffle.

Python 3.7 and newer, as data/batches.py.
"""

import collections
import importlib
import json
import os
import time

from dlperf.data.formats import OF_FRAMEWORK
from dlperf.data.manifest import how_to_fix, sha256_of_file
from dlperf.data.prefetch import DataError

#: Batches that lie ready, or are being made, beside the one in use.
AHEAD = 2
#: Records that are shuffled among each other, where a framework has a window for that. Small: the
#: shards are stretches of a shuffle already, and the first batch waits until the window is full.
SHUFFLE = 1024


def open_batches(run, layout):
    """As every loader's (dlperf.data.loaders), of a Run."""
    return open_images(run, layout)


def open_images(run, layout, epoch=0):
    """The reader of the run's framework. Raises DataError as `Shards` does."""
    if run.framework not in OF_FRAMEWORK:
        raise DataError("%s has no reader of images; it is one of %s" % (run.framework, known()))
    module = importlib.import_module("dlperf.data.readers." + run.framework)
    return module.open_images(run, layout, epoch)


def known():
    return ", ".join(OF_FRAMEWORK)


def counted(number, what):
    return "%d %s%s" % (number, what, "" if number == 1 else "s")


class Reader:
    """Endless batches, ready for the step, and how long each was waited for.

    batches: an iterator of them. arrays: tensors of a batch -> NumPy arrays, once they are there.
    settle: called before the clock starts, where a batch would wait for the step before it, still
    queued on the same core: that is no time of the data's.
    """

    constant = False
    on_device = True
    first_batch_sha256 = None

    def __init__(self, batches, shards, parity, arrays, close=lambda: None, settle=lambda: None):
        self._batches, self._close, self._settle = batches, close, settle
        self._ready = collections.deque()
        self.arrays = arrays
        self.manifest_sha256 = shards.manifest_sha256
        self.parity = parity
        self.waited_seconds = 0.0

    def next(self):
        """The next batch: what the implementation's `put` would return."""
        if self._ready:
            return self._ready.popleft()
        self._settle()
        start = time.perf_counter()
        batch = next(self._batches)
        self.waited_seconds += time.perf_counter() - start
        return batch

    def fill(self):
        """Return when a batch is there: the framework goes on filling its buffers behind it."""
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
    """The shards of a run's data_dir, whole by their sizes: to hash 150 GB takes minutes.

    Raises DataError where they are missing, another framework's, or too few for the ranks.
    """

    def __init__(self, run):
        path = os.path.join(run.data_dir, "manifest.json")
        format = OF_FRAMEWORK[run.framework]
        how = "python -m dlperf.data.images --format %s --out %s" % (format, run.data_dir)
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
