"""JAX: threads that decode images, as its users do who do not use TensorFlow. It has no reader.

One thread for each core reads whole batches from class folders with Pillow and NumPy, which work
without Python's lock. AHEAD batches beyond those being read are put on the device, which copies
them during the step. With several ranks, each puts its part of a global array, as the step expects
it.

Pillow's bilinear is antialiased (loaders/images.py).
"""

import collections
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dlperf.loaders.readers import AHEAD, Reader, Shards, counted, files


def open_images(run, layout, epoch=0):
    shards = Shards(run)
    images = files.Images(run, shards)
    pool = ThreadPoolExecutor(run.cores_per_device, "dlperf-data")
    put = put_on_device(run)

    def read(key):
        pixels, labels = images.read(key)
        return put(files.normalised(pixels, layout)), put(labels.astype(np.int32))

    def batches():
        keys = images.keys(epoch)
        count = AHEAD + run.cores_per_device - 1
        waiting = collections.deque(pool.submit(read, next(keys)) for _ in range(count))
        while True:
            batch = waiting.popleft().result()
            waiting.append(pool.submit(read, next(keys)))  # before the step, not after it
            yield batch

    parity = {"data_loader": "Pillow, class folders, " + counted(run.cores_per_device, "thread")}
    return Reader(batches(), shards, parity, arrays, lambda: pool.shutdown(wait=True))


def put_on_device(run):
    """As the implementation does: see workloads/resnet50/jax.py."""
    if jax.process_count() == 1:
        return jax.device_put
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("ranks",)), PartitionSpec("ranks"))
    return lambda array: jax.make_array_from_process_local_data(sharding, array)


def arrays(tensors):
    return [np.asarray(tensor.addressable_data(0)) for tensor in tensors]
