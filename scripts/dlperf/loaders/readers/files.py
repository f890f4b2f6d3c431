"""Reads class folders for the frameworks that decode in Python, with Pillow.

The order, the crop and the pixels of an image depend only on seed, epoch and image, as in
loaders/images.py. So they are the same for PyTorch, PaddlePaddle and JAX, for any number of
workers, and for a run that is resumed. The last images of an epoch are left out if they do not fill
a global batch.
"""

import os

import numpy as np

from dlperf.loaders.images import CROP, MEAN, ORDER, SCALE, decode, empty_images, import_pillow


class Images:
    """The images of class folders, which any process can read."""

    def __init__(self, run, shards):
        names, labels = [], []
        for listing in shards.paths:
            with open(listing, encoding="utf-8") as stream:
                for line in stream:
                    _, label, name = line.rstrip("\n").split("\t")
                    names.append(name.encode())
                    labels.append(int(label))
        # Arrays, not lists: a worker that counts references to a million objects copies them all.
        self._names, self._labels = np.array(names), np.array(labels, np.int64)
        self._folder, self._pillow = shards.folder, import_pillow()
        self._px, self._seed = run.dimensions["image_size"], run.seed
        self._batch_size, self._rank, self._ranks = run.batch_size, run.rank, run.ranks

    def order(self, epoch):
        """The numbers of all images in the order of an epoch."""
        random = np.random.RandomState([self._seed, ORDER, epoch])
        return random.permutation(len(self._names))

    def shuffled(self, epoch):
        """Paths within the folder and labels, as lists, in the order of an epoch."""
        order = self.order(epoch)
        names = [name.decode() for name in self._names[order]]
        return names, self._labels[order].tolist()

    def keys(self, epoch=0):
        """Endless (epoch, numbers of the images of this rank's next batch)."""
        global_batch_size = self._ranks * self._batch_size
        while True:
            order = self.order(epoch)
            for start in range(0, len(order) - global_batch_size + 1, global_batch_size):
                first = start + self._rank * self._batch_size
                yield epoch, order[first : first + self._batch_size]
            epoch += 1

    def read(self, key):
        """The pixels, uint8 (batch, px, px, 3), and labels, int64, of one of `keys`."""
        epoch, numbers = key
        pixels = np.empty((len(numbers), self._px, self._px, 3), np.uint8)
        random = np.random.RandomState()
        for place, number in enumerate(numbers):
            random.seed([self._seed, CROP, epoch, int(number)])
            path = os.path.join(self._folder, self._names[number].decode())
            pixels[place] = decode(self._pillow, path, self._px, random)
        return pixels, self._labels[numbers]


def normalised(pixels, layout):
    """Float32 images in the layout from uint8 pixels, (batch, px, px, 3)."""
    images, _ = empty_images(len(pixels), pixels.shape[1], layout)
    if layout == "NCHW":
        for channel in range(3):
            plane = images[:, channel]
            np.subtract(pixels[..., channel], MEAN[channel], out=plane)
            plane *= SCALE[channel]
        return images
    # Row by row, with a mean for each value. With three values at a time NumPy would take ten times
    # as long.
    row = pixels.shape[2] * 3
    mean, scale = np.tile(MEAN, pixels.shape[2]), np.tile(SCALE, pixels.shape[2])
    rows = images.reshape(-1, row)
    np.subtract(pixels.reshape(-1, row), mean, out=rows)
    rows *= scale
    return images
