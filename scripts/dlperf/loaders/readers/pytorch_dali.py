"""PyTorch with NVIDIA DALI, by DALI's own iterator for PyTorch; dali.py has the pipeline."""

from nvidia.dali.plugin.pytorch import DALIGenericIterator

from dlperf.loaders.readers import Reader, Shards, dali
from dlperf.loaders.readers.pytorch import arrays


def open_images(run, layout, epoch=0):
    shards = Shards(run)
    made = dali.open_pipeline(run, shards, "NHWC", epoch)
    iterator = DALIGenericIterator([made], ["images", "labels"])
    return Reader(batches(iterator), shards, dali.parity(run), arrays)


def batches(iterator):
    for (batch,) in iterator:
        # NHWC in memory is what channels_last means
        yield batch["images"].permute(0, 3, 1, 2), batch["labels"]
