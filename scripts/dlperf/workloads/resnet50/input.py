"""The sample photographs, as loaders/images.py reads them; the reference gets coefficients too.

What trains gets these with its steps (mixup.py), whatever reads its images.
"""

from dlperf.loaders import images
from dlperf.workloads.resnet50 import mixup


def open_batches(input, layout="NHWC", prefetch=None):
    """As of loaders.images; those of the reference of mixed images are mixup.Told's.

    A rank's input says of which kind the data are, and the reference's does not.
    """
    batches = images.open_batches(input, layout, prefetch)
    if input.kind is None and input.held_out and input.dimensions["mixup"]:
        return mixup.Told(batches, input)
    return batches
