"""Wrong steps, each of which a check of traced operations must refuse.

A control is named in a step. Its edit is made in the process that traces, before the page's
`training` is called.
"""

import functools


def spoil(name: str, page) -> None:
    if name:
        EDITS[name](page)


def behind_loss(page, done) -> None:
    original = page.loss

    @functools.wraps(original)
    def loss(*given):
        return done(original(*given))

    page.loss = loss


def no_kernel(page) -> None:
    """A loss that goes through an operation which TensorFlow has for the CPU alone."""
    import tensorflow as tf

    def least(value):
        return tf.raw_ops.NthElement(input=tf.reshape(tf.stop_gradient(value), [1]), n=0)

    behind_loss(page, lambda value: value + 0 * least(value))


def host_branch(page) -> None:
    """A branch that is taken by a number of the device: the host reads it."""
    import tensorflow as tf

    behind_loss(page, lambda value: tf.cond(value > 1e30, lambda: value * 2, lambda: value))


def host_loop(page) -> None:
    """A loop that ends when a number of the device says so."""
    import tensorflow as tf

    def halved(value):
        (last,) = tf.while_loop(
            lambda each: each > 1, lambda each: [each / 2], [tf.stop_gradient(value)]
        )
        return value + 0 * last

    behind_loss(page, halved)


def told(page) -> None:
    """A loss that Python is told of in each step."""
    import tensorflow as tf

    def tell(value):
        (same,) = tf.py_function(lambda each: [each], [tf.stop_gradient(value)], [tf.float32])
        same.set_shape([])
        return value + 0 * same

    behind_loss(page, tell)


def counted_rows(page) -> None:
    """A size that depends on numbers: the host waits to know how much memory to take."""
    import tensorflow as tf

    def count(value):
        rows = tf.where(tf.reshape(tf.stop_gradient(value), [1]) > 0)
        return value + 0 * tf.cast(tf.reduce_sum(rows), tf.float32)

    behind_loss(page, count)


def wide_products(page) -> None:
    """All products in float32 under mixed precision."""
    import tensorflow as tf

    from dlperf.frameworks.tensorflow import training

    original = training.compute_dtype
    for module in (training, page):
        if getattr(module, "compute_dtype", None) is original:
            module.compute_dtype = lambda run: tf.float32


def channels_first(page) -> None:
    """Convolutions of NCHW images."""
    import tensorflow as tf

    original = tf.nn.conv2d

    def conv2d(x, filters, strides, padding, **named):
        if isinstance(strides, (list, tuple)) and len(strides) == 4:
            strides = [strides[0], strides[3], strides[1], strides[2]]
        if isinstance(padding, (list, tuple)):
            padding = [padding[0], padding[3], padding[1], padding[2]]
        turned = tf.transpose(x, [0, 3, 1, 2])
        named["data_format"] = "NCHW"
        found = original(turned, filters, strides, padding, **named)
        return tf.transpose(found, [0, 2, 3, 1])

    tf.nn.conv2d = conv2d


EDITS = {
    each.__name__.replace("_", " "): each
    for each in (
        no_kernel,
        host_branch,
        host_loop,
        told,
        counted_rows,
        wide_products,
        channels_first,
    )
}
