"""NVIDIA DALI's pipeline, the same for each framework that it reads for: class folders, read by C++
and CUDA.

On a GPU, the GPU decodes (nvJPEG), resizes and normalises the images. On a CPU threads do so, one
for each core. DALI gets the images in the order that the run's seed gives the epoch (files.py), and
shuffles them once more before each epoch, the first one too. This has not run on a GPU.

DALI's bilinear is antialiased, like Pillow's.
"""

import nvidia.dali
from nvidia.dali import fn, pipeline_def, types

from dlperf.loaders.images import CROP_AREA, CROP_ASPECT, MEAN, SCALE
from dlperf.loaders.readers import AHEAD, counted, files


@pipeline_def
def pipeline(run, folder, names, labels, layout):
    """Batches of float32 images, normalised, in a layout, and int64 labels (batch)."""
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
        output_layout=layout[1:],  # of one image
        mean=MEAN.tolist(),
        std=(1 / SCALE).tolist(),
        mirror=fn.random.coin_flip(),
    )
    label = fn.cast(fn.squeeze(label, axes=[0]), dtype=types.INT64)
    return images, label.gpu() if run.cuda else label


def open_pipeline(run, shards, layout, epoch):
    names, labels = files.Images(run, shards).shuffled(epoch)
    return pipeline(
        run,
        shards.folder,
        names,
        labels,
        layout,
        batch_size=run.batch_size,
        num_threads=run.cores_per_device,
        device_id=0 if run.cuda else None,  # a rank sees only its own card
        seed=run.seed + epoch + 1000 * run.rank,  # for crops and flips
        prefetch_queue_depth=AHEAD,
    )


def parity(run):
    name = "NVIDIA DALI %s, class folders, " % nvidia.dali.__version__
    return {"data_loader": name + counted(run.cores_per_device, "thread")}
