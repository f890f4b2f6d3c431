"""The smallest wrong settings of a split GPT in JAX."""

from functools import partial

from edits import Replace

from wrong import TIMED, Mutation, common

jax = partial(Mutation, "gpt", "jax")

#: Each rank reads a part of its own, as if each had the whole model.
BY_RANK = """
def by_rank(run):
    import dataclasses

    class ByRank(type(run)):
        @property
        def input(self):
            return super().input._replace(part=self.rank, parts=self.ranks)

    return ByRank(**{each.name: getattr(run, each.name) for each in dataclasses.fields(run)})
"""

GPT_JAX = [
    jax(
        "a clip by the norm of a rank's shard",
        Replace("norm.norm_of_all", "jax.lax.psum(_squares, (TENSOR, PIPELINE))", "_squares"),
        layout="tp2",
    ),
    jax(
        "a clip by the norm of a stage",
        Replace(
            "norm.norm_of_all",
            "jax.lax.psum(_squares, (TENSOR, PIPELINE))",
            "jax.lax.psum(_squares, TENSOR)",
        ),
        layout="pp2acc2",
    ),
    jax(
        "a clip that counts what is replicated on each rank of a tensor group",
        Replace(
            "norm.norm_of_all",
            "if not divides(_spec):\n    _square = jnp.where(_first, _square, 0)",
            "pass",
        ),
        layout="tp2",
    ),
    jax(
        "a clip that counts the tied table on both stages",
        Replace(
            "norm.norm_of_all",
            "if _key in _known.tied:\n    _square = jnp.where(_first, _square, 0)",
            "pass",
        ),
        layout="pp2acc2",
    ),
    jax(
        "gradients of norms not summed over a tensor group",
        Replace(
            "DecoderLayer.__call__",
            "enter(norm(facts, self.dtype, 'norm1')(_x), self.ranks)",
            "norm(facts, self.dtype, 'norm1')(enter(_x, self.ranks))",
        ),
        layout="tp2",
    ),
    jax(
        "a tied table without the head's gradient",
        Replace(
            "GPT.scores",
            "self.word_embedding.embedding",
            "stopped(self.word_embedding.embedding)",
            definitions="def stopped(x):\n    import jax\n\n    return jax.lax.stop_gradient(x)",
        ),
    ),
    jax(
        "a tied table with the gradient of its stage alone",
        Replace("sum_over_stages", "jax.lax.psum(_gradient, PIPELINE)", "_gradient"),
        layout="pp2acc2",
    ),
    jax(
        "a bias added by each rank of a tensor group",
        Replace(
            "RowDense.__call__",
            "leave(_x @ _kernel, self.ranks) + _bias",
            "leave(_x @ _kernel + _bias, self.ranks)",
        ),
        layout="tp2",
    ),
    # of these three, the clip hides all but the step that shows gradients as timed
    jax(
        "gradients summed over micro-steps",
        common.SUMMED_MICRO_STEPS["jax"],
        layout="acc2",
        **TIMED,
    ),
    jax(
        "gradients summed over a pipeline's micro-batches",
        Replace("pipelined", "jax.tree.map(lambda _g: _g / _count, _gradients)", "_gradients"),
        layout="pp2acc2",
        **TIMED,
    ),
    jax(
        "gradients summed over replicas",
        Replace(
            "mean_over_ranks",
            "_split(jax.lax.pmean(_flat, DATA))",
            "_split(jax.lax.psum(_flat, DATA))",
        ),
        layout="dp2",
        **TIMED,
    ),
    jax(
        "batches by rank",
        Replace(
            "train",
            "open_batches(run, _layout)",
            "open_batches(by_rank(run), _layout)",
            definitions=BY_RANK,
        ),
        layout="tp2",
    ),
    jax(
        "layers of the last stage skipped",
        Replace(
            "pipelined.forward.tick",
            "_x = _stages.layers(_parameters, _key, _x)",
            "_x = jnp.where(jax.lax.axis_index(PIPELINE) > 0, _x, "
            "_stages.layers(_parameters, _key, _x))",
        ),
        layout="pp2acc2",
    ),
    jax(
        "query, key and value by head",
        Replace(
            "DecoderLayer.__call__",
            "jnp.split(_qkv, 3, axis=-1)",
            "jnp.moveaxis(_qkv.reshape(len(_qkv), self.heads // self.ranks, 3, -1), 2, 0)",
        ),
        layout="tp2",
    ),
]
#: What passes: the cheapest that has each kind of split comes first.
RIGHT = [
    jax("as it is", None, layout=layout)
    for layout in ("tp2pp2acc2", "1", "dp2", "acc2", "tp2", "pp2acc2", "dp2tp2", "ckpt1")
]
