"""The batches that a rank trains on: the same ones, in the same order, for every framework.

In: what a run asks for (contract.run.Input). Out: images in float32 (float64 ones of the same
values for certificates in that precision), and int32 labels. `synthetic` is noise. `sample` is
decoded from the JPEG files of a manifest, randomly cropped, flipped and normalised by one
background thread, ahead of the timed window. Every random number comes from NumPy's RandomState,
whose stream never changes, so the bytes do not depend on the framework's NumPy: `python -m
dlperf.workloads.inputs` prints a digest to prove that.

Runs in every framework's interpreter: Python 3.7, the standard library, NumPy, and Pillow where
JPEG is decoded.
"""

import functools
import math
import os
import sys

import numpy as np

from dlperf.loaders import DataError
from dlperf.loaders.manifest import CLASSES, how_to_fix, sha256_of_arrays, sha256_of_file, verify
from dlperf.loaders.pool import Pool
from dlperf.loaders.prefetch import Prefetched, check

LAYOUTS = ("NHWC", "NCHW")

# RandomResizedCrop's and ImageNet's values, as in torchvision and in the published scripts.
CROP_AREA = (0.08, 1.0)
CROP_ASPECT = (3 / 4, 4 / 3)
MEAN = 255 * np.array([0.485, 0.456, 0.406], np.float32)
SCALE = 1 / (255 * np.array([0.229, 0.224, 0.225], np.float32))

#: Values of a batch of noise that are drawn.
NORMAL = 1 << 18

# The first number after the seed: each stream has its own.
ORDER, CROP, NOISE = 0, 1, 2


def open_batches(input, layout="NHWC", prefetch=None):
    """The batches of one reader; close them, or use `with`, when the run is over.

    input: a contract.run.Input. layout: "NHWC" or "NCHW". prefetch: batches held ready; by default
    all that the run needs, as far as they fit into PREFETCH_BYTES.

    `.next()` returns images, float32 (float64 where the input says so), C-contiguous, (batch, px,
    px, 3) or (batch, 3, px, px), and labels, int32, (batch,), 0 to 999. They belong to the caller,
    except where `.pooled` says that they come again.

    Raises DataError for every mistake that can be found before the first batch.
    """
    check(input)
    if layout not in LAYOUTS:
        raise DataError(f"layout {layout!r} is not known; it is one of {', '.join(LAYOUTS)}")
    return (
        synthetic(input, layout) if input.data == "synthetic" else Sample(input, layout, prefetch)
    )


def synthetic(input, layout):
    """Standard normal images, uniform labels, from the seed and the part."""
    draw = functools.partial(noise, input, layout)
    return Pool(input, NOISE, draw, lambda batch: digest([batch], layout))


def noise(input, layout, random, classes=CLASSES):
    """The next batch of standard normal images and uniform labels."""
    images = normal_images(input, layout, random)
    labels = random.randint(0, classes, input.batch_size).astype(np.int32)
    return images, labels


def normal_images(input, layout, random):
    """Standard normal images.

    To draw each value takes a second for a batch of 256 at 224 px. So each row of an image is a
    piece of NORMAL drawn values, from a drawn place on; those values are the batch's own.
    """
    px = input.dimensions["image_size"]
    images, view = empty_images(input.batch_size, px, layout)
    width = 3 * px
    drawn = random.standard_normal(min(NORMAL, view.size) + width).astype(np.float32)
    pieces = np.lib.stride_tricks.as_strided(
        drawn, (len(drawn) - width, width), 2 * drawn.strides, writeable=False
    )
    for image in view:  # one by one: there need not be room for all rows once more
        image[...] = pieces[random.randint(0, len(pieces), px)].reshape(image.shape)
    return images.astype(dtype_of(input), copy=False)


def dtype_of(input):
    return np.float64 if input.float64 else np.float32


class Sample(Prefetched):
    """Batches decoded from a manifest's JPEG files, ahead of time, by one background thread.

    One epoch is a shuffle of all images; its remainder that fills no global batch is left out. Of
    each global batch a part takes its own slice, and an image's crop depends on the seed, the
    epoch and the image only: so 2 ranks of 8 together see the same batch as 1 rank of 16.
    """

    def __init__(self, input, layout, prefetch=None):
        self._input, self._layout = input, layout
        self._pillow = import_pillow()
        manifest_path = os.path.join(input.data_dir, "manifest.json") if input.data_dir else ""
        manifest = verify(manifest_path)
        self.manifest_sha256 = sha256_of_file(manifest_path)
        self._files = manifest["files"]
        self._whole = input.parts * input.batch_size
        if len(self._files) < self._whole:
            images_per_class = math.ceil(self._whole / max(manifest["classes"], 1))
            raise DataError(
                f"{manifest_path} has {len(self._files)} images, fewer than the {self._whole} of "
                f"one global batch ({input.parts} ranks x batch size {input.batch_size}): ask for "
                f"a smaller batch size, for `data: synthetic`, or make a larger set: "
                f"PYTHONPATH=scripts python -m dlperf.prepare.sample --out {input.data_dir} "
                f"--images-per-class {images_per_class}"
            )
        self._image_size = input.dimensions["image_size"]
        size = input.batch_size * self._image_size**2 * 3 * 4
        self._noises = np.random.RandomState([input.seed, NOISE, input.part])
        super().__init__(size, input.batches, prefetch, input.warmup)

    def tests(self):
        from dlperf.loaders.photos import Photos  # which needs this module

        return Photos(self._input, self._layout)

    def _noise(self):
        return noise(self._input, self._layout, self._noises)

    def _batches(self):
        for epoch, indices in self._indices():
            yield self._read(epoch, indices)

    def _digest(self, batch):
        return digest([batch], self._layout)

    def _indices(self):
        """Endless (epoch, indices of this rank's next batch)."""
        size, part, epoch = self._input.batch_size, self._input.part, 0
        while True:
            random = np.random.RandomState([self._input.seed, ORDER, epoch])
            order = random.permutation(len(self._files))
            for start in range(0, len(order) - self._whole + 1, self._whole):
                first = start + part * size
                yield epoch, order[first : first + size]
            epoch += 1

    def _read(self, epoch, indices):
        px = self._image_size
        pixels = np.empty((len(indices), px, px, 3), np.uint8)
        labels = np.empty(len(indices), np.int32)
        random = np.random.RandomState()
        for position, index in enumerate(indices):
            file = self._files[index]
            random.seed([self._input.seed, CROP, epoch, int(index)])
            path = os.path.join(self._input.data_dir, file["path"])
            pixels[position] = decode(self._pillow, path, px, random)
            labels[position] = file["label"]
        images, view = empty_images(len(indices), px, self._layout)
        np.subtract(pixels, MEAN, out=view)
        np.multiply(view, SCALE, out=view)
        return images.astype(dtype_of(self._input), copy=False), labels


def decode(pillow, path, image_size, random):
    """One training image from a JPEG file: uint8, (image_size, image_size, 3).

    Random resized crop, bilinear, and a horizontal flip in half of all cases. JPEG is decoded at
    the smallest of its scales (1, 1/2, 1/4, 1/8) that still gives the crop no fewer pixels than
    are asked for: the same picture except for antialiasing, several times as fast.
    Raises DataError naming the file where it is missing, truncated or not a JPEG.
    """
    try:
        with pillow.open(path) as image:
            width, height = image.size
            left, top, crop_width, crop_height = crop_box(width, height, random)
            flip = random.random_sample() < 0.5

            reduction = min(crop_width, crop_height) // image_size
            if reduction >= 2 and image.format == "JPEG":
                _, (_, _, scaled_width, _) = image.draft(
                    "RGB", (width // reduction, height // reduction)
                )
                scale = scaled_width / width
            else:
                scale = 1
            image = image if image.mode == "RGB" else image.convert("RGB")
            left, top = scale * left, scale * top
            right, bottom = left + scale * crop_width, top + scale * crop_height
            x, y = math.floor(left), math.floor(top)
            image = image.crop((x, y, math.ceil(right), math.ceil(bottom)))
            # Rows, then columns: in one call, Pillow 13 takes them in the other order where that
            # is less work, which rounds differently from Pillow 12 and older.
            image = image.resize(
                (image_size, image.height),
                pillow.BILINEAR,
                box=(left - x, 0, right - x, image.height),
            )
            image = image.resize(
                (image_size, image_size),
                pillow.BILINEAR,
                box=(0, top - y, image_size, bottom - y),
            )
            pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for broken files
        raise DataError(
            f"{path}: not a whole JPEG image ({error}); "
            + how_to_fix(os.path.dirname(os.path.dirname(path)))
        )
    return pixels[:, ::-1] if flip else pixels


def crop_box(width, height, random):
    """(left, top, width, height) of a random resized crop within a width x height image.

    As torchvision's RandomResizedCrop.get_params: 10 attempts at a random area and aspect, then
    the largest central crop of an allowed aspect.
    """
    log_aspect = [math.log(aspect) for aspect in CROP_ASPECT]
    for _ in range(10):
        area = width * height * random.uniform(*CROP_AREA)
        aspect = math.exp(random.uniform(*log_aspect))
        crop_width = int(round(math.sqrt(area * aspect)))
        crop_height = int(round(math.sqrt(area / aspect)))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            left = int(random.random_sample() * (width - crop_width + 1))
            top = int(random.random_sample() * (height - crop_height + 1))
            return left, top, crop_width, crop_height
    crop_width = max(1, min(width, int(round(height * CROP_ASPECT[1]))))
    crop_height = max(1, min(height, int(round(width / CROP_ASPECT[0]))))
    return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height


def empty_images(batch_size, image_size, layout):
    """Images in the layout, and a view of the same memory as (batch, px, px, 3)."""
    if layout == "NHWC":
        images = np.empty((batch_size, image_size, image_size, 3), np.float32)
        return images, images
    images = np.empty((batch_size, 3, image_size, image_size), np.float32)
    return images, images.transpose(0, 2, 3, 1)


def digest(batches, layout):
    """sha256 of the batches' arrays; of images, the same for both layouts."""
    arrays = [each for batch in batches for each in batch]
    if layout == "NCHW":
        arrays = [each.transpose(0, 2, 3, 1) if each.ndim == 4 else each for each in arrays]
    return sha256_of_arrays(arrays)


def import_pillow():
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(
            f"{sys.executable} cannot import Pillow, which `data: sample` needs to decode JPEG "
            f"({error}): add pillow to the environment's file in envs/, or use `data: synthetic`"
        )
    return Image
