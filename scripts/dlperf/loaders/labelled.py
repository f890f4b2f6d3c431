"""Reads labelled images that are small enough for memory, in the quality scenario.

The input is a folder with train.npz and test.npz (`images`, uint8, (n, side, side); `labels`) and
their manifest, which says the mean and deviation of the pixels. The output is float32 images of
`image_size` pixels, a multiple of the side, each pixel repeated, in three equal channels; and int32
labels. Nothing is cropped or turned: of a digit that would make another one. Each epoch is a
shuffle; its remainder that fills no global batch is left out. Two ranks of 8 see what one of 16
sees.

Runs in every framework's interpreter: Python 3.7, the standard library and NumPy.
"""

import itertools
import os

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.images import LAYOUTS, digest, dtype_of, empty_images, noise
from dlperf.loaders.manifest import sha256_of_file, verify
from dlperf.loaders.prefetch import Prefetched, check, share

ORDER, NOISE = 21, 22  # the first numbers after the seed: each stream has its own


def open_batches(input, layout="NHWC", prefetch=None):
    """The batches to train on, as of batches.open_batches; behind `input.warmup` of noise.

    Those behind the noise come once `begin` has been called: nothing of them is read before.
    Raises DataError for every mistake that can be found before the first batch.
    """
    check(input)
    return Labelled(input, layout, prefetch)


class Set:
    """The images of a folder, as the input asks for them."""

    def __init__(self, input, layout):
        if layout not in LAYOUTS:
            raise DataError(f"layout {layout!r} is not known; it is one of {', '.join(LAYOUTS)}")
        self._input, self._layout = input, layout
        self._path = os.path.join(input.data_dir, "manifest.json") if input.data_dir else ""
        self._manifest = verify(self._path)
        self.manifest_sha256 = sha256_of_file(self._path)

    def read(self, name):
        """(a function from indices to images, the labels) of 'train' or 'test'."""
        with np.load(os.path.join(self._input.data_dir, name + ".npz")) as arrays:
            pixels, labels = arrays["images"], arrays["labels"]
        px, side = self._input.dimensions["image_size"], pixels.shape[1]
        if px % side:
            raise DataError(
                f"image_size is {px}, but the images of {self._path} have {side} pixels a side: "
                f"a multiple of {side} is needed"
            )
        grey = (pixels.astype(np.float32) - np.float32(self._manifest["mean"])) / np.float32(
            self._manifest["deviation"]
        )

        def images(indices):
            found, view = empty_images(len(indices), px, self._layout)
            large = grey[indices].repeat(px // side, 1).repeat(px // side, 2)
            view[...] = large[..., None]
            return found.astype(dtype_of(self._input), copy=False)

        return images, labels


class Labelled(Prefetched):
    def __init__(self, input, layout, prefetch=None):
        self._input, self._layout = input, layout
        self._images, self._labels = None, None
        self._set = Set(input, layout)
        self.manifest_sha256 = self._set.manifest_sha256
        self._whole = input.parts * input.batch_size
        self._noises = np.random.RandomState([input.seed, NOISE, input.part])
        size = input.batch_size * input.dimensions["image_size"] ** 2 * 3 * 4
        super().__init__(size, input.batches, prefetch, input.warmup)

    def tests(self):
        """[(a batch's arrays, how many samples of it count)]: this part's share of the test set."""
        images, labels = self._set.read("test")
        shared = share(self._input, len(labels))
        return [((images(places), labels[places]), own) for places, own in shared]

    def _noise(self):
        return noise(self._input, self._layout, self._noises, classes=10)

    def _batches(self):
        size = self._input.batch_size
        images, labels = self._set.read("train")
        if len(labels) < self._whole:
            raise DataError(
                f"{self._input.data_dir} has {len(labels)} images to train on, fewer than the "
                f"{self._whole} of one global batch ({self._input.parts} ranks x batch size "
                f"{size}): ask for a smaller batch size"
            )
        for epoch in itertools.count():
            order = np.random.RandomState([self._input.seed, ORDER, epoch]).permutation(len(labels))
            for start in range(0, len(order) - self._whole + 1, self._whole):
                own = order[start + self._input.part * size :][:size]
                yield images(own), labels[own]

    def _digest(self, batch):
        return digest([batch], self._layout)
