"""The smallest wrong settings of InsightFace in JAX: of its margin, and of its split heads."""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation

jax = partial(Mutation, "insightface", "jax", variant="y1")
model = partial(Mutation, "insightface", "jax", variant="y1-headmodel", layout="dp2")
sampled = partial(Mutation, "insightface", "jax", variant="y1-headpartial")

INSIGHTFACE_JAX = [
    model(
        "half of the features' gradient",
        Replace(
            "gather_backward",
            "jax.lax.psum_scatter(_gradient, DATA, tiled=True) * _ranks",
            "jax.lax.psum_scatter(_gradient, DATA, tiled=True)",
        ),
        tier="float64-gradient",
    ),
    model(
        "gradients of centres divided by the number of ranks",
        Replace(
            "head",
            "normalized(_x) @ normalized(_centres).T",
            "normalized(_x) @ normalized(\n"
            "    _centres / run.ranks\n"
            "    + jax.lax.stop_gradient(_centres - _centres / run.ranks)\n"
            ").T",
        ),
        tier="float64-gradient",
    ),
    model(
        "a softmax of a rank's own classes",
        Replace(
            "head",
            "split_head.cross_entropy(_scores, _places, run.ranks if _is_split else 1)",
            "split_head.cross_entropy(_scores, _places, 1)",
        ),
        tier="float64-loss",
    ),
    sampled(
        "all centres taken",
        Replace("head", "facts.is_sampled(_dimensions)", "False"),
        tier="float64-loss",
    ),
    jax(
        "a margin on the next class",
        Replace(
            "with_margin",
            "split_head.is_own(_cosines, _places)",
            "split_head.is_own(_cosines, (_places + 1) % _cosines.shape[1])",
        ),
        tier="float64-loss",
    ),
]
#: In mixed precision, what has to be in float32.
HALF = [
    jax(
        "a softmax in bfloat16",
        Replace(
            "head",
            "facts.SCALE * with_margin(...)",
            "jnp.asarray(\n"
            "    facts.SCALE * with_margin(...), framework.compute_dtype(run)\n"
            ").astype(_x.dtype)",
            given=("normalized(_x) @ _",),
        ),
        precision="amp",
        tier="timed-loss",
        **TIMED,
    ),
]
#: As it is, with every head and layout.
RIGHT = [
    each._replace(name="as it is", edit=None, tier="", **TIMED)
    for each in (
        model("", None),
        jax("", None),
        jax("", None, layout="dp2"),
        sampled("", None),
        sampled("", None, layout="dp2"),
        jax("", None, variant="r50"),
    )
]
