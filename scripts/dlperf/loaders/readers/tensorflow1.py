"""TensorFlow 1.15: the pipeline of tensorflow.py as part of the session's graph.

The step takes its batch from a staging area in its own graph, so no array passes through Python.
`next` runs the operator that puts the dataset's next batch there, and measures how long that takes.
On a GPU, `prefetch_to_device` has copied the batch before. This has not run on a GPU.
"""

import tensorflow as tf
from tensorflow.contrib.staging import StagingArea

from dlperf.loaders.readers import AHEAD, Reader, Shards, counted
from dlperf.loaders.readers.tensorflow import dataset


def open_images(run, layout, epoch=0):
    """Adds itself to the default graph; `tensors` are the images and labels for the step."""
    shards = Shards(run)
    data = dataset(run, shards, epoch).with_options(options(run))
    device = "/gpu:0" if run.cuda else "/cpu:0"
    if run.cuda:
        data = data.apply(tf.data.experimental.prefetch_to_device(device, AHEAD))
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    parity = {
        "data_loader": "tf.data in the graph, TFRecord, " + counted(run.cores_per_device, "thread")
    }
    return Staged(iterator, layout, device, shards, parity)


class Staged(Reader):
    """`next` makes the batch ready in the graph. Call `connect` first."""

    def __init__(self, iterator, layout, device, shards, parity):
        with tf.device(device):
            images, labels = iterator.get_next()
            if layout == "NCHW":
                images = tf.transpose(images, [0, 3, 1, 2])
            shapes = [images.shape, labels.shape]
            area = StagingArea([images.dtype, labels.dtype], shapes, capacity=2)
            self._put, self.tensors = area.put([images, labels]), area.get()
        self._start, self._session = iterator.initializer, None
        # to take a batch out of the staging area would take it from the step
        super().__init__(self._staged(), shards, parity, self._run, keep=None)

    def connect(self, session):
        session.run(self._start)
        self._session = session

    def _staged(self):
        put = self._session.make_callable(self._put)
        while True:
            put()
            yield self.tensors

    def _run(self, tensors):
        return self._session.run(list(tensors))


def options(run):
    options = tf.data.Options()
    options.experimental_threading.private_threadpool_size = run.cores_per_device
    options.experimental_threading.max_intra_op_parallelism = 1
    options.experimental_deterministic = run.cores_per_device == 1
    return options
