"""Canonical layouts of weights, and the way there from frameworks that lay them out otherwise.

Canonical: a convolution's kernel is (outputs, inputs, height, width), a dense layer's (outputs,
inputs), as in PyTorch. Embeddings are (entries, width) everywhere.

A tensor's kind (contract/tensor.py) decides; None: of one that no facts have, which stays as it is.
All functions give new contiguous arrays, of `dtype` where one is named.
"""

from dlperf.contract.tensor import DENSE, KERNEL

BLOCK = 64  # rows that are transposed together: measured, 32 to 64 are best for 4 and 8 bytes


def channels_last(kind, array, dtype=None):
    """Canonical -> kernels (height, width, inputs, outputs), dense weights (inputs, outputs)."""
    if kind == KERNEL and array.ndim == 4:
        array = array.transpose(2, 3, 1, 0)
    return dense_transposed(kind, array, dtype)


def canonical(kind, array):
    """The inverse of `channels_last`."""
    if kind == KERNEL and array.ndim == 4:
        array = array.transpose(3, 2, 0, 1)
    return dense_transposed(kind, array)


def dense_transposed(kind, array, dtype=None):
    """Canonical <-> dense weights (inputs, outputs), kernels as they are."""
    import numpy as np  # the plan imports this module, without NumPy

    if kind != DENSE or array.ndim != 2:  # a wrong model's may have another number of axes
        return np.array(array, dtype, order="C")
    # By blocks, which a core's cache holds: NumPy alone takes up to six times as long where rows
    # are some thousand bytes apart, seconds of BERT-Base's certificates.
    new = np.empty(array.shape[::-1], dtype or array.dtype)
    for first in range(0, len(array), BLOCK):
        new[:, first : first + BLOCK] = array[first : first + BLOCK].T
    return new
