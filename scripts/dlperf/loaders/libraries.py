"""Which data a library reads instead of a framework's own pipeline, and for which frameworks."""

#: Frameworks that NVIDIA DALI reads images for: readers/<framework>_dali.py.
DALI = ("pytorch", "paddlepaddle")
SUFFIX = "_dali"


def is_read_by_dali(data):
    """Whether this kind of data is read by NVIDIA DALI, whatever else a framework has."""
    return data.endswith(SUFFIX)


def by_dali(data):
    """The kind of data that is the same images, read by NVIDIA DALI."""
    return data if is_read_by_dali(data) else data + SUFFIX
