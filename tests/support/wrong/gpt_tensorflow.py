"""The smallest wrong settings of GPT in TensorFlow 2: of one device, and split by tensors."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation
from wrong.gpt import AS_FIRST
from wrong.gpt_jax import BY_RANK

tensorflow = partial(Mutation, "gpt", "tensorflow")

GPT_TENSORFLOW = [
    tensorflow(
        "GELU by the error function",
        Replace("DecoderLayer.__call__", "gelu_by_tanh(_x)", "gelu(_x)"),
    ),
    tensorflow("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "LayerNorm")),
    tensorflow(
        "a tied table without the head's gradient",
        Replace(
            "GPT.__call__",
            "tf.matmul(_x, _table, transpose_b=True)",
            "tf.matmul(_x, tf.stop_gradient(_table), transpose_b=True)",
        ),
    ),
    tensorflow("no clip", Replace("optimizer", "facts.CLIP_NORM", "None")),
]
#: The cheapest comes first.
SPLIT = [
    tensorflow(
        "a clip by a rank's own part",
        Replace("Gradients.norm", "self._tensors.sum(_x)", "_x"),
        layout="tp2",
    ),
    tensorflow(
        "a clip that counts what all ranks have twice",
        Replace(
            "Gradients.norm", "self._tensors.sum(_own) + _more", "self._tensors.sum(_own + _more)"
        ),
        layout="tp2",
    ),
    tensorflow(
        "gradients of norms not summed over ranks",
        Replace(
            "DecoderLayer.__call__",
            "self.group.enter(self.norm1(_x))",
            "self.norm1(self.group.enter(_x))",
        ),
        layout="tp2",
    ),
    tensorflow(
        "a tied part of a table without the head's gradient",
        Replace(
            "GPT.__call__",
            "tf.matmul(_x, _table, transpose_b=True)",
            "tf.matmul(_x, tf.stop_gradient(_table), transpose_b=True)",
        ),
        layout="tp2",
    ),
    tensorflow(
        "a bias that each rank adds",
        Replace(
            "RowDense.__call__",
            "_y = self.group.leave(_product)\nreturn tf.nn.bias_add(_y, _bias)",
            "return self.group.leave(tf.nn.bias_add(_product, _bias))",
        ),
        layout="tp2",
    ),
    tensorflow(
        "a softmax over a rank's own words",
        Replace("TensorGroup.cross_entropies", "self.leave(_pair)", "_pair"),
        layout="tp2",
    ),
    tensorflow(
        "query, key and value by head",
        Replace(
            "Layer.attention",
            "tf.reshape(_qkv, [_batch, _tokens, 3, _heads, _width])",
            "tf.transpose(tf.reshape(_qkv, [_batch, _tokens, _heads, 3, _width]), [0, 1, 3, 2, 4])",
        ),
        layout="tp2",
    ),
    tensorflow(
        "one part owned twice",
        Replace(
            "parts",
            "workloads.parts_of(run)",
            "workloads.parts_of(as_first(run))",
            definitions=AS_FIRST,
        ),
        layout="tp2",
    ),
    tensorflow(
        "batches by rank",
        Replace(
            "train",
            "open_batches(run, _layout)",
            "open_batches(by_rank(run), _layout)",
            definitions=BY_RANK,
        ),
        layout="tp2",
    ),
    # of these two, the clip hides all but the step that shows gradients as timed
    tensorflow(
        "summed over micro-steps",
        Replace(
            "train.differentiate",
            "_value / (run.data_parallel * run.accumulation)",
            "_value / run.data_parallel",
        ),
        layout="tp2acc2",
        **TIMED,
    ),
    tensorflow(
        "summed over replicas",
        Replace(
            "train.differentiate",
            "_value / (run.data_parallel * run.accumulation)",
            "_value / run.accumulation",
        ),
        layout="dp2tp2",
        **TIMED,
    ),
    tensorflow(
        "replicas do not exchange",
        Replace("Gradients.sum_over_replicas", "self._replicas.sum(_x)", "_x"),
        layout="dp2tp2",
    ),
]
#: What passes; the first is in `make test`.
RIGHT = [
    tensorflow("as it is", None, layout=layout, **TIMED)
    for layout in ("1", "dp2", "acc2", "tp2", "dp2tp2", "tp2acc2")
]
