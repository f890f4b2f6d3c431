"""OneFlow: OFRecordReader and its decoders, which are operators of the framework.

A thread reads records ahead. Decoding, resizing and normalising are queued like any operator. On a
GPU, a batch is queued AHEAD of its step, and these operators run on the CPU during the step's
kernels. Python cannot see how long a step waits for them. On a CPU it can, because `next` waits for
its batch. This has not run on a GPU.

OneFlow itself deals the parts to its processes; it needs at least one for each, and the shares are
equal only if the numbers divide. Its shuffling window reaches into the next epoch, so within one
epoch a record can occur twice and another one not at all. OpenCV's bilinear has no antialiasing.
"""

import collections

import oneflow as flow

from dlperf.loaders import DataError
from dlperf.loaders.images import CROP_AREA, CROP_ASPECT, MEAN, SCALE
from dlperf.loaders.readers import AHEAD, SHUFFLE, Reader, Shards

HOW = {True: "ahead of the step", False: "before the step"}
synchronize = flow._oneflow_internal.eager.Sync


def open_images(run, layout, epoch=0):
    shards = Shards(run)
    if len(shards.paths) < run.ranks:
        raise DataError(
            "%s: %d parts; OneFlow needs one for each of %d ranks"
            % (shards.folder, len(shards.paths), run.ranks)
        )
    pipeline = Pipeline(run, shards, run.seed + epoch)
    parity = {"data_loader": "OFRecordReader, operators queued %s" % HOW[run.cuda]}
    if run.cuda:
        return Reader(ahead(pipeline), shards, parity, arrays)
    return Reader(ready(pipeline), shards, parity, arrays, settle=synchronize)


class Pipeline(flow.nn.Module):
    """Calling it queues the next batch. NCHW, or NHWC if ONEFLOW_ENABLE_NHWC says so."""

    def __init__(self, run, shards, seed):
        super().__init__()
        own = seed + 1000 * run.rank  # for what must differ between ranks
        size = run.dimensions["image_size"]
        self.run = run
        self.reader = flow.nn.OFRecordReader(
            shards.folder,
            batch_size=run.batch_size,
            data_part_num=len(shards.paths),
            part_name_prefix="part-",
            part_name_suffix_length=5,
            random_shuffle=True,
            shuffle_buffer_size=min(SHUFFLE, max(1, shards.samples // run.ranks)),
            shuffle_after_epoch=False,  # else a rank gets other parts, at a time of its own
            random_seed=seed,
        )
        self.label = flow.nn.OFRecordRawDecoder("class/label", shape=(), dtype=flow.int32)
        self.image = flow.nn.OFRecordImageDecoderRandomCrop(
            "encoded",
            color_space="RGB",
            random_seed=own,
            random_area=list(CROP_AREA),
            random_aspect_ratio=list(CROP_ASPECT),
        )
        self.resize = flow.nn.image.Resize(target_size=[size, size], interpolation_type="bilinear")
        self.flip = flow.nn.CoinFlip(run.batch_size, random_seed=own)
        self.normalise = flow.nn.CropMirrorNormalize(
            color_space="RGB",
            mean=[float(mean) for mean in MEAN],
            std=[float(1 / scale) for scale in SCALE],
        )

    def forward(self):
        record = self.reader()
        images = self.resize(self.image(record))[0]
        images = self.normalise(images, self.flip())
        labels = self.label(record).to(flow.int64)
        return on_device(self.run, images), on_device(self.run, labels)


def on_device(run, tensor):
    """Like the implementation's `put`: a graph's tensors span all ranks."""
    if run.cuda:
        tensor = tensor.pin_memory().to("cuda")
    if run.distributed and run.compiler == "graph":
        placement = flow.placement(run.device, ranks=list(range(run.ranks)))
        tensor = tensor.to_global(placement=placement, sbp=flow.sbp.split(0), check_meta=False)
    return tensor


def ready(pipeline):
    while True:
        batch = pipeline()
        synchronize()
        yield batch


def ahead(pipeline):
    waiting = collections.deque(pipeline() for _ in range(AHEAD))
    while True:
        waiting.append(pipeline())
        yield waiting.popleft()


def arrays(tensors):
    return [(each.to_local() if each.is_global else each).numpy() for each in tensors]
