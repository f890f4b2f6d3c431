"""Canonical layouts of weights, and the way there from frameworks that lay them out otherwise.

Canonical: a convolution's kernel is (outputs, inputs, height, width), a dense layer's (outputs,
inputs), as in PyTorch. Embeddings are (entries, width) everywhere.
"""


def channels_last(name, array):
    """Canonical -> kernels (height, width, inputs, outputs), dense weights (inputs, outputs)."""
    if array.ndim == 4:
        return array.transpose(2, 3, 1, 0)
    return array.T if _dense(name, array) else array


def canonical(name, array):
    """The inverse of `channels_last`."""
    if array.ndim == 4:
        return array.transpose(3, 2, 0, 1)
    return array.T if _dense(name, array) else array


def dense_transposed(name, array):
    """Canonical <-> dense weights (inputs, outputs), kernels as they are."""
    return array.T if _dense(name, array) else array


def _dense(name, array):
    return array.ndim == 2 and "embedding" not in name
