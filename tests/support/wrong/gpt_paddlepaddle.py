"""The smallest wrong settings of GPT in PaddlePaddle: of one device, and split."""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation
from wrong.gpt_deepspeed import AS_FIRST
from wrong.gpt_jax import BY_RANK

paddlepaddle = partial(Mutation, "gpt", "paddlepaddle")

GPT_PADDLEPADDLE = [
    paddlepaddle(
        "GELU by the error function",
        Replace("DecoderLayer.forward", "F.gelu(_x, approximate=True)", "F.gelu(_x)"),
    ),
    paddlepaddle("epsilon of norms 1e-6", constant("LAYER_NORM_EPSILON", "1e-6", "layer_norm")),
    paddlepaddle(
        "a mask one token late",
        Replace("causal_bias", "paddle.triu(_x, 1)", "paddle.triu(_x, 2)"),
    ),
    paddlepaddle(
        "tied gradient without the head's",
        Replace("GPT.head", "self.word_embedding.weight", "self.word_embedding.weight.detach()"),
    ),
    paddlepaddle("no clip", Replace("optimizer", "facts.CLIP_NORM", "None")),
    paddlepaddle("decay on biases", Replace("adamw", "_p.ndim > 1", "_p.ndim > 0")),
    paddlepaddle(
        "micro-steps summed",
        Replace("train.backward", "_value / run.accumulation", "_value"),
        layout="acc2",
        **TIMED,
    ),
]
#: Of a model that is split; the first two are in `make test`.
SPLIT = [
    paddlepaddle(
        "a clip by a rank's own part",
        Replace("Clip._dygraph_clip", "sum_over(_squares, _group)", "_squares"),
        layout="tp2",
    ),
    paddlepaddle(
        "the tied gradient of one copy alone",
        Replace("exchange", "sum_over(_parameter.grad, _own.tied)", "None"),
        layout="pp2acc2",
    ),
    paddlepaddle(
        "a clip by a stage",
        Replace(
            "Clip._dygraph_clip",
            "(groups(_run).tensor, groups(_run).pipeline)",
            "(groups(_run).tensor,)",
        ),
        layout="pp2acc2",
    ),
    paddlepaddle(
        "a clip that counts what all ranks have twice",
        Replace("Clip._counts", "_name in _divided or _place.tensor == 0", "True"),
        layout="tp2",
    ),
    paddlepaddle(
        "a clip that counts both copies of the table",
        Replace(
            "Clip._counts",
            "_place.pipeline == self._stages[_name][0]",
            "_place.pipeline in self._stages[_name]",
        ),
        layout="pp2acc2",
    ),
    paddlepaddle(
        "gradients of norms not summed over ranks",
        Replace(
            "DecoderLayer.computed",
            "_group.enter(self.norm1(_x))",
            "self.norm1(_group.enter(1 * _x))",
        ),
        layout="tp2",
    ),
    paddlepaddle(
        "a bias that each rank adds",
        Replace(
            "DecoderLayer.computed",
            "_group.leave(_own) + self.projection.bias",
            "_group.leave(_own + self.projection.bias)",
        ),
        layout="tp2",
    ),
    paddlepaddle(
        "a softmax over a rank's own words",
        Replace(
            "TensorGroup.cross_entropy",
            "self.leave(_scores.exp().sum(-1, keepdim=True))",
            "_scores.exp().sum(-1, keepdim=True)",
        ),
        layout="tp2",
    ),
    paddlepaddle(
        "summed over micro-batches",
        Replace(
            "Pipeline._forward",
            "_network.loss(_out, _labels) / self._run.accumulation",
            "_network.loss(_out, _labels)",
        ),
        layout="pp2acc2",
        **TIMED,  # a clip hides it from Adam
    ),
    paddlepaddle(
        "averaged twice",
        Replace(
            "Pipeline._forward",
            "_loss / self._run.accumulation",
            "_loss / self._run.accumulation**2",
        ),
        layout="pp2acc2",
        **TIMED,
    ),
    paddlepaddle(
        "summed over replicas",
        Replace(
            "exchange",
            "hybrid_parallel_util.fused_allreduce_gradients_with_group(_named, _group)",
            "hybrid_parallel_util.fused_allreduce_gradients_with_group(_named, _group, scale=1.0)",
        ),
        layout="dp2tp2",
        **TIMED,
    ),
    paddlepaddle(
        "replicas do not exchange",
        Replace(
            "exchange", "hybrid_parallel_util.fused_allreduce_gradients_with_group(...)", "None"
        ),
        layout="dp2tp2",
    ),
    paddlepaddle(
        "batches by rank",
        Replace("train", "open_batches(run)", "open_batches(by_rank(run))", definitions=BY_RANK),
        layout="tp2",
    ),
    paddlepaddle(
        "one part owned twice",
        Replace(
            "Weights.__init__",
            "workloads.parts_of(run)",
            "workloads.parts_of(as_first(run))",
            definitions=AS_FIRST,
        ),
        layout="tp2",
    ),
    paddlepaddle(
        "a stage whose layers add nothing",
        Replace(
            "Pipeline._forward",
            "_network.decode(_x)",
            "_network.decode(_x) if self._before is None else _x + 0 * _network.decode(_x)",
        ),
        layout="pp2acc2",
    ),
    paddlepaddle(
        "the first micro-batch again",
        Replace(
            "train.step",
            "[_next() for _ in range(run.accumulation)]",
            "[_next()] * run.accumulation",
        ),
        layout="pp2acc2",
    ),
    paddlepaddle(
        "the gradient of another micro-batch",
        Replace("Pipeline.gradients", "_going.popleft()", "_going.pop()", times=2),
        layout="pp2acc2",
    ),
]
#: What passes.
RIGHT = [
    paddlepaddle("as it is", None, layout=layout, **TIMED)
    for layout in ("tp2pp2acc2", "1", "dp2", "acc2", "tp2", "pp2acc2", "dp2tp2", "dp2pp2acc2")
    + ("ckpt1", "tp2ckpt1", "pp2ckpt1acc2")
] + [paddlepaddle("as it is, dygraph", None, layout="tp2pp2acc2", other_compiler="none", **TIMED)]
