"""Batches of faces and their identities, the same for every framework.

In: a folder with train.rec and train.idx in InsightFace's layout, and a case. Out: images, float32
(float64 where the input says so), each pixel (p - 127.5) / 128, flipped in half of all cases, and
int32 labels. Where `facts.GIVEN_SAMPLE` is not 0 and the head samples centres, a third array says
which: int32, (num_classes,), 1 for each that the global batch's step takes. `synthetic` draws
labels over all identities.

InsightFace's layout: record 0 has the labels (N + 1, N + 1 + identities); pictures are 1 to N,
whose label may be an array, of which the first counts; then comes a record for each identity. Of
data that have fewer identities than the case, labels are spread over all: number i of n is
i * num_classes // n.

Runs in every framework's interpreter: Python 3.7, the standard library, NumPy and Pillow.
"""

import functools
import io
import os

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.images import (
    LAYOUTS,
    digest,
    dtype_of,
    empty_images,
    import_pillow,
    normal_images,
)
from dlperf.loaders.manifest import how_to_fix, sha256_of_file, verify
from dlperf.loaders.pool import Pool
from dlperf.loaders.prefetch import Prefetched, check
from dlperf.loaders.record_files import Records
from dlperf.workloads.insightface import facts, sampling

MIDDLE, SCALE = np.float32(127.5), np.float32(1 / 128)
RECORDS = "train.rec"
# The first number after the seed: each stream has its own.
NOISE, ORDER, FLIP = 29, 30, 31


def open_batches(input, layout="NHWC", prefetch=None):
    """The batches of one reader (a contract.run.Input).

    Raises DataError for whatever can be known before the first batch.
    """
    check(input)
    if layout not in LAYOUTS:
        raise DataError(f"layout {layout!r} is not known; it is one of {', '.join(LAYOUTS)}")
    if input.data == "synthetic":
        return synthetic(input, layout)
    return Faces(input, layout, prefetch)


def is_sample_given(dimensions):
    """Whether batches say which centres a step takes."""
    return facts.GIVEN_SAMPLE and facts.is_sampled(dimensions)


def synthetic(input, layout):
    """Standard normal images, and labels that lie evenly over all identities."""
    draw, of_all = (functools.partial(each, input) for each in (noise, labels_of_all))
    return Pool(input, NOISE, functools.partial(draw, layout), digest_in(layout), of_all)


def digest_in(layout):
    return lambda batch: digest([batch], layout)


def noise(input, layout, random, of_all):
    """The next synthetic batch: this part's."""
    labels, *given = of_all
    return (normal_images(input, layout, random), labels[input.part], *given)


def labels_of_all(input, random):
    """Labels of a global batch, (parts, batch), and what its step samples where that is given."""
    # a stratum for each image, of which a part has every `parts`-th
    count = input.parts * input.batch_size
    places = (np.arange(count) + random.random_sample(count)) / count
    labels = (input.dimensions["num_classes"] * places).astype(np.int32)
    found = np.ascontiguousarray(labels.reshape(input.batch_size, input.parts).T)
    if not is_sample_given(input.dimensions):
        return (found,)
    return found, given_sample(input, random.randint(2**31), labels)


def given_sample(input, number, labels, seed=0):
    """1 for each centre that all ranks sample in a step of this number, int32, (num_classes,).

    labels: of the global batch.
    """
    given = np.zeros(input.dimensions["num_classes"], np.int32)
    for rank in range(input.parts):
        asked = (input.dimensions, seed, number, rank, input.parts)
        given[sampling.sample(*asked, labels)] = 1
    return given


class Faces(Prefetched):
    """Batches of pictures of a RecordIO file, decoded ahead of time by one background thread.

    One epoch is a shuffle of all; its remainder that fills no global batch is left out. Of each
    global batch a part takes its own slice, and whether a picture is flipped depends on the seed,
    the epoch and the picture alone: so 2 ranks of 8 together see the same batch as 1 rank of 16.
    """

    def __init__(self, input, layout, prefetch=None):
        self._input, self._layout, self._pillow = input, layout, import_pillow()
        manifest_path = os.path.join(input.data_dir, "manifest.json") if input.data_dir else ""
        verify(manifest_path)
        self.manifest_sha256 = sha256_of_file(manifest_path)
        self._records = Records(os.path.join(input.data_dir, RECORDS))
        first, last = self._ranges()
        self._count, self._identities = first - 1, last - first
        classes = input.dimensions["num_classes"]
        if self._identities > classes:
            raise DataError(
                f"num_classes is {classes}, but the data of {input.data_dir} have "
                f"{self._identities} identities: ask for as many or more, or for `data: synthetic`"
            )
        self._whole = input.parts * input.batch_size
        if self._count < self._whole:
            raise DataError(
                f"{input.data_dir} has {self._count} pictures, fewer than the {self._whole} of one "
                f"global batch ({input.parts} ranks x batch size {input.batch_size}): ask for a "
                "smaller batch size"
            )
        px = input.dimensions["image_size"]
        super().__init__(input.batch_size * px**2 * 3 * 4, input.batches, prefetch, input.warmup)

    def close(self):
        super().close()
        self._records.close()

    def _ranges(self):
        """The labels of record 0: behind the last picture, and behind the last identity."""
        labels, _ = self._records.read(0)
        ends = [int(each) for each in labels]
        if len(ends) != 2 or not 1 < ends[0] < ends[1] <= len(self._records):
            raise DataError(
                f"{os.path.join(self._input.data_dir, RECORDS)}: record 0 has the labels {labels}, "
                "where InsightFace's layout has the ends of its pictures and of its identities"
            )
        return ends

    def _batches(self):
        step, epoch = 0, 0
        while True:
            random = np.random.RandomState([self._input.seed, ORDER, epoch])
            order = 1 + random.permutation(self._count)
            for start in range(0, len(order) - self._whole + 1, self._whole):
                yield self._batch(epoch, step, order[start : start + self._whole])
                step += 1
            epoch += 1

    def _batch(self, epoch, step, numbers):
        """This part's slice of the pictures of a global batch."""
        size, dimensions = self._input.batch_size, self._input.dimensions
        own = numbers[self._input.part * size :][:size]
        images, view = empty_images(size, dimensions["image_size"], self._layout)
        labels = np.empty(size, np.int32)
        for place, number in enumerate(own):
            view[place], labels[place] = self._read(epoch, int(number))
        np.subtract(view, MIDDLE, out=view)
        np.multiply(view, SCALE, out=view)
        images = images.astype(dtype_of(self._input), copy=False)
        if not is_sample_given(dimensions):
            return images, labels
        together = np.array([self._label(int(number)) for number in numbers])
        return images, labels, given_sample(self._input, step, together, self._input.seed)

    def _label(self, number, labels=None):
        """The class of a picture, of all that the case has."""
        labels = labels or self._records.read(number)[0]
        identity = int(labels[0])
        if not 0 <= identity < self._identities:
            raise DataError(
                f"{os.path.join(self._input.data_dir, RECORDS)}: record {number} has the label "
                f"{identity}, which is not within 0 and {self._identities - 1}"
            )
        return identity * self._input.dimensions["num_classes"] // self._identities

    def _read(self, epoch, number):
        """A picture's pixels, uint8, the middle of what the file has, and its class."""
        labels, content = self._records.read(number)
        px, random = self._input.dimensions["image_size"], np.random.RandomState()
        random.seed([self._input.seed, FLIP, epoch, number])
        try:
            with self._pillow.open(io.BytesIO(content)) as image:
                pixels = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
        except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for broken ones
            raise DataError(
                f"{os.path.join(self._input.data_dir, RECORDS)}: record {number} is not a whole "
                f"picture ({error}); {how_to_fix(self._input.data_dir)}"
            )
        height, width = pixels.shape[:2]
        if min(height, width) < px:
            raise DataError(
                f"{os.path.join(self._input.data_dir, RECORDS)}: record {number} has {width} x "
                f"{height} pixels, fewer than an image_size of {px}"
            )
        top, left = (height - px) // 2, (width - px) // 2
        pixels = pixels[top : top + px, left : left + px]
        flipped = random.random_sample() < 0.5
        return (pixels[:, ::-1] if flipped else pixels), self._label(number, labels)

    def _digest(self, batch):
        return digest([batch], self._layout)
