"""The photographs that the quality scenario is tested with, the same ones for every framework.

The input is class folders of JPEG files that dlperf.prepare.images made (format `folders`), beside
the data that is trained on. The output is batches as of images.py: the shorter side is made 256
pixels long and 224 are taken from the middle, or as much of another `image_size`. Frameworks train
by readers of their own, but one program crops what they are judged by.

Runs in every framework's interpreter: Python 3.7, the standard library, NumPy and Pillow.
"""

import concurrent.futures
import os

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.images import MEAN, SCALE, dtype_of, empty_images, import_pillow
from dlperf.loaders.manifest import how_to_fix, read
from dlperf.loaders.prefetch import share

CROP = 224 / 256  # of the shorter side


class Photos:
    """[(a batch's arrays, how many of its samples count)], read anew each time: nothing is kept.

    input: a contract.run.Input, whose `kind` says how many there are and in which folder; a part
    has its own share. Raises DataError where the folder is missing or has not as many images as
    there are tests.
    """

    def __init__(self, input, layout):
        kind = input.kind
        self._input, self._layout, self._pillow = input, layout, import_pillow()
        self._folder = os.path.join(os.path.dirname(input.data_dir), kind.test_folder)
        path = os.path.join(self._folder, "manifest.json")
        manifest = read(path)
        self._files = []
        for file in manifest["files"]:
            if "samples" in file:
                with open(os.path.join(self._folder, file["path"]), encoding="utf-8") as stream:
                    lines = [line.rstrip("\n").split("\t") for line in stream]
                self._files += [(name, int(label)) for _, label, name in lines]
        if len(self._files) != kind.tests:
            raise DataError(
                f"{path}: {len(self._files)} images; data {input.data} is tested with {kind.tests}"
            )

    def __iter__(self):
        # as many threads as the rank has cores: Pillow decodes without Python's lock
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for places, own in share(self._input, len(self._files)):
                pixels = np.stack(list(pool.map(self._pixels, places)))
                labels = np.array([self._files[place][1] for place in places], np.int32)
                images, view = empty_images(len(places), pixels.shape[1], self._layout)
                np.subtract(pixels, MEAN, out=view)
                np.multiply(view, SCALE, out=view)
                yield (images.astype(dtype_of(self._input), copy=False), labels), own

    def _pixels(self, place):
        path = os.path.join(self._folder, self._files[place][0])
        return central(self._pillow, path, self._input.dimensions["image_size"])


def central(pillow, path, image_size):
    """The middle of an image, uint8, (image_size, image_size, 3), bilinear.

    Raises DataError naming the file where it is missing, truncated or not an image.
    """
    try:
        with pillow.open(path) as image:
            image = image.convert("RGB")
            side = CROP * min(image.size)
            left, top = ((each - side) / 2 for each in image.size)
            box = (left, 0, left + side, image.height)
            # columns, then rows: in one call, versions of Pillow round differently
            image = image.resize((image_size, image.height), pillow.BILINEAR, box=box)
            box = (0, top, image_size, top + side)
            image = image.resize((image_size, image_size), pillow.BILINEAR, box=box)
            return np.asarray(image)
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for broken files
        fix = how_to_fix(os.path.dirname(os.path.dirname(path)))
        raise DataError(f"{path}: not a whole image ({error}); {fix}") from None
