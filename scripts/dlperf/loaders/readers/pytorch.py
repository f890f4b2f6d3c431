"""PyTorch: DALI if it is installed, else DataLoader over class folders, decoded by Pillow in worker
processes.

A worker passes on a whole batch of uint8 pixels, which is a quarter of the bytes of float32. They
are normalised in this process, or on the GPU. On a GPU, batches are copied from pinned memory on a
stream of their own, one batch ahead, as in NVIDIA's DeepLearningExamples. The sampler never ends,
so that workers stay and no epoch starts with empty queues. This has not run on a GPU.

Pillow's bilinear is antialiased (loaders/images.py).
"""

import torch
from torch.utils.data import DataLoader, Dataset

from dlperf.loaders.images import MEAN, SCALE
from dlperf.loaders.readers import AHEAD, Reader, Shards, counted, files, has_dali


class Batches(Dataset):
    """An item is a batch: one of `Images.keys`."""

    def __init__(self, images):
        self.images = images

    def __getitem__(self, key):
        pixels, labels = self.images.read(key)
        return torch.from_numpy(pixels), torch.from_numpy(labels)


class Keys:
    """The sampler."""

    def __init__(self, images, epoch):
        self.images, self.epoch = images, epoch

    def __iter__(self):
        return self.images.keys(self.epoch)


def open_images(run, layout, epoch=0):
    if not has_dali():
        return with_loader(run, Shards(run), epoch)
    from dlperf.loaders.readers import pytorch_dali

    return pytorch_dali.open_images(run, layout, epoch)


def with_loader(run, shards, epoch):
    images = files.Images(run, shards)
    workers = worker_count(run)
    loader = DataLoader(
        Batches(images),
        sampler=Keys(images, epoch),
        batch_size=None,  # the sampler already makes whole batches
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        pin_memory=run.cuda,
    )
    read = iter(loader)  # workers start now, during the rest of the set-up
    batches = on_gpu(read) if run.cuda else on_cpu(read)
    parity = {
        "data_loader": "torch.utils.data.DataLoader, class folders, " + counted(workers, "worker")
    }
    return Reader(batches, shards, parity, arrays, batches.close)


def worker_count(run):
    """None on a single CPU core: there, passing batches on cost a third of the speed."""
    return 0 if run.cores_per_device == 1 and not run.cuda else run.cores_per_device


def on_cpu(read):
    for pixels, labels in read:
        # NHWC in memory is what channels_last means
        images = torch.from_numpy(files.normalised(pixels.numpy(), "NHWC"))
        yield images.permute(0, 3, 1, 2), labels


def on_gpu(read):
    stream = torch.cuda.Stream()
    mean, scale = (torch.from_numpy(each).cuda().view(1, 3, 1, 1) for each in (MEAN, SCALE))
    ahead = None
    for pixels, labels in read:
        with torch.cuda.stream(stream):
            images = pixels.cuda(non_blocking=True).permute(0, 3, 1, 2).float()
            batch = images.sub_(mean).mul_(scale), labels.cuda(non_blocking=True)
        if ahead is not None:
            yield ahead
        torch.cuda.current_stream().wait_stream(stream)
        for tensor in batch:
            tensor.record_stream(torch.cuda.current_stream())
        ahead = batch


def arrays(tensors):
    return [tensor.cpu().numpy() for tensor in tensors]
