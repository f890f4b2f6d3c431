"""PaddlePaddle with NVIDIA DALI; dali.py has the pipeline.

DALI's own iterator for PaddlePaddle needs a GPU and gives tensors of static programs. This one does
what it does, by DLPack and without copies: the tensors are DALI's until they are no longer used.
"""

import paddle
from paddle.utils.dlpack import from_dlpack

from dlperf.loaders.readers import Reader, Shards, dali
from dlperf.loaders.readers.paddlepaddle import arrays


def open_images(run, layout, epoch=0):
    shards = Shards(run)
    made = dali.open_pipeline(run, shards, layout, epoch)
    return Reader(batches(run, made), shards, dali.parity(run), arrays)


def batches(run, pipeline):
    while True:
        # The stream waits until DALI has filled them.
        stream = paddle.device.cuda.current_stream(0).cuda_stream if run.cuda else None
        tensors = [each.as_tensor() for each in pipeline.run()]
        yield tuple(from_dlpack(each.__dlpack__(stream=stream)) for each in tensors)
