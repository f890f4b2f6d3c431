"""PyTorch by NVIDIA DALI, where its environment has that: class folders, all of it C++ and CUDA.

On a GPU its decoder takes JPEGs there (nvJPEG), and the GPU resizes and normalises them; on a CPU
threads do, one a core. The order of the first epoch is that of PyTorch's other reader; each epoch
after it is shuffled by DALI. The path of the GPU has not run.

DALI's bilinear is antialiased, as Pillow's.
"""

import nvidia.dali
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator

from dlperf.data.batches import CROP_AREA, CROP_ASPECT, MEAN, SCALE
from dlperf.data.readers import AHEAD, Reader, counted, files
from dlperf.data.readers.pytorch import arrays


@pipeline_def
def pipeline(run, folder, names, labels):
    """Batches of float32 images, NHWC, normalised, and int32 labels (batch, 1)."""
    device = "gpu" if run.cuda else "cpu"
    content, label = fn.readers.file(
        file_root=folder,
        files=names,
        labels=labels,
        shard_id=run.rank,
        num_shards=run.ranks,
        shuffle_after_epoch=True,
        name="reader",
    )
    images = fn.decoders.image_random_crop(
        content,
        device="mixed" if run.cuda else "cpu",
        random_area=list(CROP_AREA),
        random_aspect_ratio=list(CROP_ASPECT),
    )
    size = run.dimensions["image_size"]
    images = fn.resize(images, device=device, size=[size, size], interp_type=types.INTERP_LINEAR)
    images = fn.crop_mirror_normalize(
        images,
        device=device,
        dtype=types.FLOAT,
        output_layout="HWC",
        mean=MEAN.tolist(),
        std=(1 / SCALE).tolist(),
        mirror=fn.random.coin_flip(),
    )
    return images, label.gpu() if run.cuda else label


def open_images(run, shards, epoch):
    names, labels = files.Images(run, shards).shuffled(epoch)
    threads = run.cores_per_device
    made = pipeline(
        run,
        shards.folder,
        names,
        labels,
        batch_size=run.batch_size,
        num_threads=threads,
        device_id=0 if run.cuda else None,  # a rank sees its own card only
        seed=run.seed + epoch + 1000 * run.rank,  # of crops and flips
        prefetch_queue_depth=AHEAD,
    )
    iterator = DALIGenericIterator([made], ["images", "labels"])
    name = "NVIDIA DALI %s, class folders, " % nvidia.dali.__version__
    parity = {"data_loader": name + counted(threads, "thread")}
    return Reader(batches(iterator), shards, parity, arrays)


def batches(iterator):
    for (batch,) in iterator:
        # NHWC in memory, which is what channels_last says
        yield batch["images"].permute(0, 3, 1, 2), batch["labels"].view(-1).long()
