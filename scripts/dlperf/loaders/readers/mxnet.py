"""MXNet: ImageRecordIter over RecordIO, with C++ threads that decode with OpenCV.

One iterator reads all shards: `path_imgrec` takes several files as if they were one, and this
module joins their indexes, so that an epoch is a shuffle of all records. The iterator deals
sections of the index to the ranks, and fills the last batch of an epoch from the next one. It gives
NCHW; the device transposes that to NHWC. On a GPU its buffers are pinned memory. This has not run
on a GPU.

OpenCV's bilinear has no antialiasing. The seed decides only the order of records. Crops and flips
come from a stream that is the same in every run and on every rank (`seed_aug` would give the n-th
image of every batch the same crop).
"""

import os
import tempfile

import mxnet as mx

from dlperf.loaders.images import CROP_AREA, CROP_ASPECT, MEAN, SCALE
from dlperf.loaders.readers import AHEAD, Reader, Shards, counted


def open_images(run, layout, epoch=0):
    shards = Shards(run)
    size = run.dimensions["image_size"]
    with tempfile.TemporaryDirectory() as folder:  # the index is read at once
        index = os.path.join(folder, "index")
        write_index(shards.paths, index)
        records = mx.io.ImageRecordIter(
            path_imgrec=";".join(shards.paths),
            path_imgidx=index,
            data_shape=(3, size, size),
            batch_size=run.batch_size,
            num_parts=run.ranks,
            part_index=run.rank,
            shuffle=True,
            seed=run.seed + epoch,
            preprocess_threads=run.cores_per_device,
            prefetch_buffer=AHEAD,
            device_id=0 if run.cuda else -1,
            verbose=False,
            random_resized_crop=True,
            min_random_area=CROP_AREA[0],
            max_random_area=CROP_AREA[1],
            min_aspect_ratio=CROP_ASPECT[0],
            max_aspect_ratio=CROP_ASPECT[1],
            inter_method=1,  # bilinear
            rand_mirror=True,
            **normalisation(),
        )
    parity = {
        "data_loader": "ImageRecordIter, RecordIO, " + counted(run.cores_per_device, "thread")
    }
    # The iterator waits for a step that still reads the buffer that it must fill next.
    settle = {} if run.cuda else {"settle": mx.nd.waitall}
    return Reader(batches(run, layout, records), shards, parity, arrays, keep=copied, **settle)


def write_index(paths, target):
    """Join the shards' indexes, with the offsets of records as if the files were one."""
    number, base = 0, 0
    with open(target, "w", encoding="utf-8") as stream:
        for path in paths:
            with open(os.path.splitext(path)[0] + ".idx", encoding="utf-8") as own:
                for line in own:
                    offset = int(line.split("\t")[1])
                    stream.write("%d\t%d\n" % (number, base + offset))
                    number += 1
            base += os.path.getsize(path)


def normalisation():
    values = {}
    for channel, mean, scale in zip("rgb", MEAN, SCALE):
        values["mean_" + channel] = float(mean)
        values["std_" + channel] = float(1 / scale)
    return values


def batches(run, layout, records):
    while True:
        for batch in records:
            images, labels = batch.data[0], batch.label[0]
            if run.cuda:
                images, labels = images.as_in_context(mx.gpu(0)), labels.as_in_context(mx.gpu(0))
            if layout == "NHWC":
                images = images.transpose((0, 2, 3, 1))
            yield images, labels
        records.reset()


def copied(batch):
    """The iterator fills its buffers again."""
    return [tensor.copy() for tensor in batch]


def arrays(tensors):
    return [tensor.asnumpy() for tensor in tensors]
