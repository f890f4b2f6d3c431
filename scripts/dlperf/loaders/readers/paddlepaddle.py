"""PaddlePaddle: paddle.io.DataLoader over class folders, decoded by Pillow.

Without workers Paddle reads in a thread of its own. With workers, their processes pass batches on
through shared memory. On a GPU the loader copies ahead (`places`, its buffered reader). This has
not run on a GPU.

Pillow's bilinear is antialiased (loaders/images.py).
"""

import paddle
from paddle.io import BatchSampler, DataLoader, Dataset

from dlperf.loaders.readers import AHEAD, Reader, Shards, counted, files


class Batches(Dataset):
    """An item is a batch: one of `Images.keys`."""

    def __init__(self, images, layout):
        self.images, self.layout = images, layout

    def __getitem__(self, key):
        pixels, labels = self.images.read(key)
        return files.normalised(pixels, self.layout), labels

    def __len__(self):
        raise TypeError("it has no end")


class Keys(BatchSampler):
    """Batches of one item each, as `Images.keys` already makes whole batches."""

    def __init__(self, images, epoch):
        self.images, self.epoch = images, epoch

    def __iter__(self):
        return ([key] for key in self.images.keys(self.epoch))

    def __len__(self):
        raise TypeError("it has no end")


def open_images(run, layout, epoch=0):
    shards = Shards(run)
    images = files.Images(run, shards)
    workers = worker_count(run)
    loader = DataLoader(
        Batches(images, layout),
        batch_sampler=Keys(images, epoch),
        collate_fn=lambda items: items[0],
        num_workers=workers,
        prefetch_factor=AHEAD,
        places=[paddle.CUDAPlace(0) if run.cuda else paddle.CPUPlace()],
    )
    parity = {"data_loader": "paddle.io.DataLoader, class folders, " + counted(workers, "worker")}
    read = iter(loader)
    # Ranks exit without the interpreter's end, so workers would stay if that had to stop them.
    return Reader(read, shards, parity, arrays, read._try_shutdown_all)


def worker_count(run):
    """None on a single CPU core: there, passing batches on cost a third of the speed."""
    return 0 if run.cores_per_device == 1 and not run.cuda else run.cores_per_device


def arrays(tensors):
    return [tensor.numpy() for tensor in tensors]
