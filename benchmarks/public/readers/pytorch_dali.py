"""NVIDIA DALI's documented ImageNet pipeline, all of it on the CPU."""

import glob
import os

from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIClassificationIterator

SOURCE = "NVIDIA DALI 2.4.0's ImageNet example, device_id=None"
REQUIREMENTS = [
    "nvidia-dali-cuda120==2.4.0",
    "nvidia-nvimgcodec-cu12==0.9.0.20",
    "astunparse==1.6.3",
    "gast==0.6.0",
    "libcst==1.8.6",
    "makefun==1.16.0",
    "nvtx==0.2.17",
    "optree==0.20.0",
    "packaging==25.0",
    "pyyaml==6.0.3",
    "six==1.17.0",
    "typing_extensions==4.16.0",
]
FORMAT = "tfrecord"


@pipeline_def(num_threads=1, device_id=None)
def images(folder, size):
    from nvidia.dali import tfrecord

    read = fn.readers.tfrecord(
        path=sorted(glob.glob(os.path.join(folder, "*.tfrecord"))),
        index_path=sorted(glob.glob(os.path.join(folder, "*.idx"))),
        features={
            "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
            "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        },
        random_shuffle=True,
        name="reader",
    )
    decoded = fn.decoders.image_random_crop(
        read["image/encoded"],
        device="cpu",
        random_area=[0.08, 1.0],
        random_aspect_ratio=[3 / 4, 4 / 3],
    )
    resized = fn.resize(decoded, size=[size, size], interp_type=types.INTERP_LINEAR)
    normalised = fn.crop_mirror_normalize(
        resized,
        dtype=types.FLOAT,
        output_layout="CHW",
        mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
        std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
        mirror=fn.random.coin_flip(),
    )
    return normalised, read["image/class/label"]


def open_example(folder, batch_size, size):
    pipeline = images(folder, size, batch_size=batch_size)
    pipeline.build()
    return DALIClassificationIterator(pipeline, size=-1, auto_reset=True).__next__
