"""TensorFlow: tf.data over TFRecord, with C++ operators on the rank's cores.

Files are dealt to the ranks, or records if the files do not divide evenly. Files are read in turns,
and records are shuffled in a window. Only the part of a JPEG that the crop needs is decoded. The
pipeline has its own threads, one for each core, so that the step has the framework's pool. On a
GPU, batches are copied ahead. This has not run on a GPU.

TensorFlow's decoder uses the fast integer DCT, and its bilinear has no antialiasing. If ten
attempts give no crop, it takes the whole image.
"""

import tensorflow as tf

from dlperf.loaders.images import CROP_AREA, CROP_ASPECT, MEAN, SCALE
from dlperf.loaders.readers import AHEAD, SHUFFLE, Reader, Shards, counted

FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}
FILES_AT_ONCE = 8  # records are taken from them in turns


def open_images(run, layout, epoch=0):
    shards = Shards(run)
    data = dataset(run, shards, epoch).with_options(options(run))
    if run.cuda:
        data = data.apply(tf.data.experimental.prefetch_to_device("/GPU:0", AHEAD))
    parity = {"data_loader": "tf.data, TFRecord, " + counted(run.cores_per_device, "thread")}
    return Reader(iter(data), shards, parity, lambda batch: [each.numpy() for each in batch])


def options(run):
    options = tf.data.Options()
    options.threading.private_threadpool_size = run.cores_per_device
    options.threading.max_intra_op_parallelism = 1
    options.deterministic = run.cores_per_device == 1  # else in the order in which they are ready
    return options


def dataset(run, shards, epoch):
    """Endless batches of float32 images in NHWC and int32 labels. Also for TensorFlow 1.15."""
    seed = run.seed + epoch
    cores = run.cores_per_device
    by_file = len(shards.paths) % run.ranks == 0
    data = tf.data.Dataset.from_tensor_slices(shards.paths)
    data = data.shard(run.ranks, run.rank) if by_file else data
    data = data.shuffle(len(shards.paths), seed)
    data = data.interleave(tf.data.TFRecordDataset, FILES_AT_ONCE)
    # the same order of files on all ranks is one more reason for one seed
    data = data if by_file else data.shard(run.ranks, run.rank)
    data = data.shuffle(min(SHUFFLE, shards.samples), seed).repeat()
    size, crop_seed = run.dimensions["image_size"], seed + 1000 * run.rank
    data = data.map(
        lambda record: decode(record, size, crop_seed),
        num_parallel_calls=cores if cores > 1 else None,
    )
    data = data.batch(run.batch_size, drop_remainder=True)
    return data.prefetch(AHEAD)


def decode(record, size, seed):
    """One training image, normalised, and its label."""
    parsed = tf.io.parse_single_example(record, FEATURES)
    content = parsed["image/encoded"]
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(content),
        tf.zeros([1, 0, 4]),
        seed=seed,
        min_object_covered=0.0,
        area_range=CROP_AREA,
        aspect_ratio_range=CROP_ASPECT,
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    # fancy_upscaling=False would take 5 % less time, and in TensorFlow 1.15 it corrupts memory
    window = tf.concat([begin[:2], extent[:2]], 0)
    image = tf.image.decode_and_crop_jpeg(content, window, channels=3)
    image = tf.raw_ops.ResizeBilinear(
        images=image[tf.newaxis], size=[size, size], half_pixel_centers=True
    )[0]
    image = tf.image.random_flip_left_right(image, seed)
    return (image - MEAN) * SCALE, tf.cast(parsed["image/class/label"], tf.int32)
