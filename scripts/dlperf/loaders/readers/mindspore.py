"""MindSpore: MindDataset over MindRecord, C++ operators that decode, crop and normalise.

Each operator has one thread for each core, and batches wait in queues of AHEAD. MindSpore deals
records to the ranks and shuffles over all shards. If the number of records is not a multiple of the
ranks, some are read twice. An iterator's tensors are in the host's memory and are copied to a GPU
when a step takes them. This has not run on a GPU.

Only the part of a JPEG that the crop needs is decoded. OpenCV's bilinear has no antialiasing. All
ranks draw the same crops, each for its own images, because order and crops have the same seed.
"""

import mindspore.dataset as ds
from mindspore.dataset import vision

from dlperf.loaders.images import CROP_AREA, CROP_ASPECT, MEAN, SCALE
from dlperf.loaders.readers import AHEAD, Reader, Shards, counted


def open_images(run, layout, epoch=0):
    shards = Shards(run)
    threads = run.cores_per_device
    ds.config.set_seed(run.seed + epoch)
    ds.config.set_prefetch_size(AHEAD)
    ds.config.set_num_parallel_workers(threads)
    data = ds.MindDataset(
        shards.paths,
        ["image", "label"],
        shuffle=True,
        num_shards=run.ranks,
        shard_id=run.rank,
    )
    images = [
        vision.RandomCropDecodeResize(
            run.dimensions["image_size"], CROP_AREA, CROP_ASPECT, vision.Inter.BILINEAR
        ),
        vision.RandomHorizontalFlip(0.5),
        vision.Normalize([float(mean) for mean in MEAN], [float(1 / scale) for scale in SCALE]),
    ]
    if layout == "NCHW":
        images.append(vision.HWC2CHW())
    data = data.map(images, ["image"])  # labels are int32 in the file
    data = data.batch(run.batch_size, drop_remainder=True)
    parity = {"data_loader": "MindDataset, MindRecord, each operator " + counted(threads, "thread")}
    return Reader(batches(data), shards, parity, arrays)


def batches(data):
    epochs = data.create_tuple_iterator(num_epochs=-1)
    while True:
        for images, labels in epochs:
            yield images, labels


def arrays(tensors):
    return [tensor.asnumpy() for tensor in tensors]
