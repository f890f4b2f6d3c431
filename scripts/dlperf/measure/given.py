"""Batches that a framework's own reader gave in a window, as they were, for its replay.

No other reader could give the same ones again: each decodes, crops and shuffles by its own
operators. So the reader keeps them (loaders/readers), and a spot run writes them down.
"""

import base64
import zlib


def told(batches):
    """What a document says of the batches of a window, lists of arrays; None of those that were
    not kept. Raises ValueError where a window took none."""
    if batches == []:
        raise ValueError("no batch of the reader was taken in a window")
    return batches and [[_text(array) for array in batch] for batch in batches]


def read(document):
    """The same batches: images (batch, 3, height, width) in float32 and labels (batch,) in int64,
    whatever layout and types the framework has."""
    return [_as_loaded(*map(_array, batch)) for batch in document]


def _text(array):
    content = base64.b64encode(zlib.compress(array.tobytes(), 1)).decode()
    return {"type": str(array.dtype), "shape": list(array.shape), "zlib": content}


def _array(text):
    import numpy as np  # not for the plan

    content = zlib.decompress(base64.b64decode(text["zlib"]))
    return np.frombuffer(content, text["type"]).reshape(text["shape"])


def _as_loaded(images, labels):
    if images.shape[-1] == 3:
        images = images.transpose(0, 3, 1, 2)
    return images.astype("float32"), labels.reshape(-1).astype("int64")
