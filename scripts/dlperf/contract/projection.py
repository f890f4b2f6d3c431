"""How far tensors went, in a few numbers that can be compared with another program's.

Of a change its norm, PROJECTIONS sums of its values with signs, and its product with what the
tensor was. The last one shows weight decay, which goes straight along the weights: before a
normalization a gradient is orthogonal to them (van Laarhoven 2017). Signs come from a hash of a
seed, the tensor's name and a value's place in the canonical array: so sums of a tensor's parts add
up to those of the whole, and nobody can make them come out who does not know the seed. The root
mean square of the differences of two changes' projections estimates the norm of their difference
(Johnson and Lindenstrauss 1984, with the signs of Achlioptas 2003): with 8 of them, within a factor
of 1.6 in 95 % of cases.
"""

import hashlib
import math

from dlperf.contract.ownership import Part
from dlperf.contract.work import side_by_side

PROJECTIONS = 8
#: Values at a time: a core's cache holds their hashes, and BLAS starts no threads for so few, which
#: on a busy machine would wait for cores.
BLOCK = 1 << 13


def projected(part, shape, array, begin, seed):
    """Of array - begin, of a rank's Part of a tensor: the sum of squares, the [sums with signs],
    the product with begin, and how many rows of it are not 0.

    shape: of the canonical tensor. array, begin: the part's own arrays, or Tables.
    """
    import numpy as np  # not for the plan

    key, by_byte, place = _key(np, seed, part.name), np.zeros(256), 0
    squares = along = 0.0
    changed = 0
    for rows, before in side_by_side(array, begin):
        if rows.ndim == 2:
            changed += int((rows != before).any(axis=1).sum())
        rows, before = (np.reshape(each, -1) for each in (rows, before))
        for first in range(0, rows.size, BLOCK):
            gone = rows[first : first + BLOCK].astype("float64")
            was = before[first : first + BLOCK]
            gone -= was
            at = _canonical(np, part, shape, place + first, place + first + gone.size)
            squares += float(gone @ gone)
            along += float(gone @ was)
            by_byte += np.bincount(_hash(np, at, key), gone, 256)  # a byte is eight signs
        place += rows.size
    # not by @, for which OpenBLAS takes 32 MB, which a process at its limit of memory lacks
    sums = (by_byte[:, None] * _signs(np)).sum(0)
    return squares, sums.tolist(), along, changed


def summary(outputs, signs):
    """{shape, samples: [[norm, projections] of each sample's outputs]}.

    Where a sample has a single one, of all together: a logit may be next to 0.
    """
    import numpy as np  # not for the plan

    rows = outputs.reshape(len(outputs) if outputs.ndim > 1 else 1, -1)
    nothing, samples = np.zeros(rows.shape[1]), []
    for number, row in enumerate(rows):
        part = Part("sample %d" % number)
        squares, sums, *_ = projected(part, row.shape, row, nothing, signs)
        samples.append([math.sqrt(squares), sums])
    return {"shape": list(outputs.shape), "samples": samples}


def _signs(np):
    """A row of signs for each byte."""
    bits = np.arange(256)[:, None] >> np.arange(PROJECTIONS)
    return 1.0 - 2.0 * (bits & 1)


def _key(np, seed, name):
    digest = hashlib.sha256(("%d/%s" % (seed, name)).encode()).digest()
    return np.frombuffer(digest[:8], "<u8")[0]


def _canonical(np, part, shape, first, last):
    """The places in the canonical array, as one axis, of these places in the part's own."""
    at = np.arange(first, last, dtype=np.int64)
    if part.is_whole:
        return at
    own = np.concatenate([np.arange(*each, dtype=np.int64) for each in part.ranges])
    if part.axis < 0:  # the tensor's values in order
        return own[at]
    length, behind = shape[part.axis], 1
    for side in shape[part.axis + 1 :]:
        behind *= side
    above, rest = np.divmod(at, len(own) * behind)
    index, below = np.divmod(rest, behind)
    return (above * length + own[index]) * behind + below


def _hash(np, at, key):
    """A byte for each place: SplitMix64 (Steele, Lea and Flood 2014)."""
    mixed = (at.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + key
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed.astype(np.uint8)
