"""Wrong steps, each of which a check of compiled programs must refuse.

A control is named in a step. Its edit is made in the process that compiles, before JAX starts (a
flag of XLA) or just before the page's `training` is called.
"""

import functools
import os


def before_jax(name: str) -> None:
    flag = FLAGS.get(name)
    if flag:
        os.environ["XLA_FLAGS"] = " ".join(filter(None, [os.environ.get("XLA_FLAGS"), flag]))


def after_start(name: str, page) -> None:
    if name and name not in FLAGS:
        EDITS[name](page)


#: Control -> a flag of XLA that spoils the program.
FLAGS = {
    # every operation between two products is a kernel of its own
    "no fusion": "--xla_disable_hlo_passes=priority-fusion,multi_output_fusion,multi-output-fusion,"
    "fusion_merger,horizontal-loop-fusion-for-root,horizontal-input-fusion",
    # convolutions of NCHW images; written so in a page, XLA turns them into NHWC
    "channels first": "--xla_gpu_force_conv_nchw=true",
    # each exchange is waited for
    "no overlap": "--xla_gpu_enable_latency_hiding_scheduler=false "
    "--xla_gpu_disable_async_collectives=ALLCOLLECTIVES",
}


def host_callback(page) -> None:
    """A loss that Python is told of in each step. JAX asks the card's own client for that: it does
    not even compile here."""
    import jax

    def told(value):
        jax.debug.callback(lambda value: None, value)
        return value

    _behind_loss(page, told)


def host_loop(page) -> None:
    """A loop that ends when a number on the device says so: the host reads it in each turn."""
    _behind_loss(page, _halved)


def _halved(value):
    import jax

    def count(given):
        return given[0] / 2, given[1] + 1

    _, turns = jax.lax.while_loop(lambda given: given[0] > 1, count, (value, 0.0))
    return value + 0 * jax.lax.stop_gradient(turns)


def _behind_loss(page, done) -> None:
    original = page.loss

    @functools.wraps(original)
    def loss(*given):
        value, carried = original(*given)
        return done(value), carried

    page.loss = loss


def wide_products(page) -> None:
    """ResNet-50's convolutions in float32 under mixed precision; all else in bfloat16."""
    original = page.layers

    def layers(dtype, training, fold):
        return original(None, training, fold)[0], original(dtype, training, fold)[1]

    page.layers = layers


def wide_dense(page) -> None:
    """An encoder's first inner layer in float32 under mixed precision."""
    from dlperf.frameworks.jax import transformer

    original = transformer.dense

    def dense(outputs, dtype, name):
        return original(outputs, None if name == "ffn1" else dtype, name)

    transformer.dense = dense


def turned_rows(page) -> None:
    """Behind an encoder's first inner layer, tokens are brought into four other orders."""
    import jax

    from dlperf.frameworks.jax import transformer

    original = transformer.gelu

    def turned(x):
        for parts in (8, 16, 32, 64):
            rows = x.reshape(parts, -1, x.shape[1]).swapaxes(0, 1).reshape(x.shape)
            x = jax.lax.optimization_barrier(rows)  # or XLA would do it on the way
        return x

    transformer.gelu = lambda x: turned(original(x))


def tf32(page) -> None:
    """Products of float32 in TF32, though fp32 is asked for."""
    import jax

    jax.config.update("jax_default_matmul_precision", "default")


def exact_products(page) -> None:
    """Products of float32 in full, though TF32 is asked for."""
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")


def no_barrier(page) -> None:
    """Micro-steps that may overlap, so that what each one's forward pass gives is kept at once."""
    import jax

    jax.lax.optimization_barrier = lambda given: given


def frozen(page) -> None:
    """No gradient of most parameters: a step that does less than is asked."""
    import jax

    original = page.loss

    @functools.wraps(original)
    def loss(run, network, parameters, *rest):
        kept = sorted(parameters)[-1]
        still = {name: jax.lax.stop_gradient(each) for name, each in parameters.items()}
        return original(run, network, dict(still, **{kept: parameters[kept]}), *rest)

    page.loss = loss


def one_by_one(page) -> None:
    """Gradients are averaged each when the one before it is, so none can be taken together."""
    import jax

    from dlperf.contract.mesh import DATA
    from dlperf.frameworks.jax import training

    def mean_over_ranks(run, gradients):
        leaves, tree = jax.tree.flatten(gradients)
        means = []
        for leaf in leaves:
            if means:
                leaf, _ = jax.lax.optimization_barrier((leaf, means[-1]))
            means.append(jax.lax.pmean(leaf, DATA))
        return jax.tree.unflatten(tree, means)

    training.mean_over_ranks = mean_over_ranks


EDITS = {
    each.__name__.replace("_", " "): each
    for each in (
        host_callback,
        host_loop,
        wide_products,
        wide_dense,
        turned_rows,
        tf32,
        exact_products,
        no_barrier,
        frozen,
        one_by_one,
    )
}
