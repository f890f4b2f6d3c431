"""PyTorch with NVIDIA DALI, if its environment has it: class folders, read by C++ and CUDA.

On a GPU, the GPU decodes (nvJPEG), resizes and normalises the images. On a CPU threads do so, one
for each core. The first epoch has the same order as with PyTorch's other reader; DALI shuffles each
epoch after it. This has not run on a GPU.

DALI's bilinear is antialiased, like Pillow's.
"""

import nvidia.dali
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator

from dlperf.loaders.images import CROP_AREA, CROP_ASPECT, MEAN, SCALE
from dlperf.loaders.readers import AHEAD, Reader, counted, files
from dlperf.loaders.readers.pytorch import arrays


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
        device_id=0 if run.cuda else None,  # a rank sees only its own card
        seed=run.seed + epoch + 1000 * run.rank,  # for crops and flips
        prefetch_queue_depth=AHEAD,
    )
    iterator = DALIGenericIterator([made], ["images", "labels"])
    name = "NVIDIA DALI %s, class folders, " % nvidia.dali.__version__
    parity = {"data_loader": name + counted(threads, "thread")}
    return Reader(batches(iterator), shards, parity, arrays)


def batches(iterator):
    for (batch,) in iterator:
        # NHWC in memory is what channels_last means
        yield batch["images"].permute(0, 3, 1, 2), batch["labels"].view(-1).long()
