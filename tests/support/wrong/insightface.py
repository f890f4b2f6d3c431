"""The smallest wrong settings of InsightFace: of its backbone, its margin, its heads and its SGD.

The backbone is y1, but where a setting is of the ResNets alone.
"""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation

pytorch = partial(Mutation, "insightface", "pytorch", variant="y1")
model = partial(Mutation, "insightface", "pytorch", variant="y1-headmodel", layout="dp2")
sampled = partial(Mutation, "insightface", "pytorch", variant="y1-headpartial")

#: Behind the cosines in a head.
COSINES = "F.linear(F.normalize(_x), F.normalize(_centres))"
ARC = "_own * _margin.cos() - _sine * _margin.sin()"
#: The cheapest first: those are made in every run of the tests.
INSIGHTFACE = [
    pytorch(
        "a margin on the next class",
        Replace(
            "with_margin",
            "_places.clamp(min=0)[:, None]",
            "((_places + 1) % _cosines.shape[1])[:, None]",
            given=("_cosines.gather(1, _)",),
        ),
        tier="float64-loss",
    ),
    pytorch(
        "a gradient without the sine's factor",
        Replace(
            "with_margin",
            ARC,
            "_own + (_own * _margin.cos() - _sine * _margin.sin() - _own).detach()",
        ),
        tier="float64-gradient",
    ),
    model(
        "half of the features' gradient",
        Replace("Gather.backward", "_own * _ctx.ranks", "_own"),
        tier="float64-gradient",
    ),
    pytorch(
        "a monotone branch beyond pi - margin",
        Replace(
            "with_margin",
            ARC,
            "torch.where(\n"
            "    _own > -_margin.cos(),\n"
            "    _own * _margin.cos() - _sine * _margin.sin(),\n"
            "    _own - _margin * _margin.sin(),\n"
            ")",
        ),
        tier="float64-loss",
    ),
    pytorch(
        "an easy margin",
        Replace(
            "with_margin",
            ARC,
            "torch.where(_own > 0, _own * _margin.cos() - _sine * _margin.sin(), _own)",
        ),
        tier="float64-loss",
    ),
    pytorch("a margin of 0.35", constant("ARC_MARGIN", "0.35", "with_margin")),
    pytorch("a scale of 30", constant("SCALE", "30.0", "Head.forward")),
    pytorch(
        "features as they are",
        Replace("Head.forward", COSINES, "F.linear(_x / 10, F.normalize(_centres))"),
        tier="float64-loss",
    ),
    pytorch(
        "a slope for all channels",
        Replace("Activated.forward", "self.slope(_x)", "F.prelu(_x, self.slope.weight[:1])"),
        tier="float64-loss",
    ),
    pytorch(
        "ReLU for PReLU",
        Replace("Activated.forward", "self.slope(_x)", "_x.relu()"),
        tier="float64-loss",
    ),
    pytorch(
        "an epsilon of 1e-5",
        constant("MOBILE_EPSILON", "1e-5", "Bottleneck"),
        tier="float64-loss",
    ),
    pytorch(
        "the last norm's epsilon of 1e-3",
        Replace(
            "Output.__init__",
            "batch_norm(_width, facts.BATCH_NORM_EPSILON, nn.BatchNorm1d, affine=False)",
            "batch_norm(_width, 1e-3, nn.BatchNorm1d, affine=False)",
        ),
        tier="float64-loss",
    ),
    pytorch("momentum of norms 0.99", constant("BATCH_NORM_MOMENTUM", "0.99", "batch_norm")),
    pytorch(
        "decay apart from the gradient",
        Replace(
            "SGD.step",
            "self.dense.step()",
            "for each in self.dense.param_groups[0]['params']:\n"
            "    each.mul_(1 - _rate * self.defaults['weight_decay'])\n"
            "self.dense.param_groups[0]['weight_decay'] = 0.0\n"
            "self.dense.step()",
            given=("self.dense.param_groups[0]['lr'] = _rate",),
        ),
    ),
    pytorch(
        "no decay of scales, slopes and biases",
        Replace(
            "SGD.__init__",
            "torch.optim.SGD(_parameters, ...)",
            "torch.optim.SGD(\n"
            "    [\n"
            "        {'params': [one for one in _parameters if one.ndim > 1]},\n"
            "        {\n"
            "            'params': [one for one in _parameters if one.ndim == 1],\n"
            "            'weight_decay': 0.0,\n"
            "        },\n"
            "    ],\n"
            "    ...,\n"
            ")",
        ),
        tier="float64-gradient",
    ),
    pytorch(
        "Nesterov's momentum",
        Replace("SGD.__init__", "torch.optim.SGD(...)", "torch.optim.SGD(..., nesterov=True)"),
    ),
    Mutation(
        "insightface",
        "pytorch",
        "a margin of 0.35",
        constant("COSINE_MARGIN", "0.35", "with_margin"),
        variant="y1-cosface",
        tier="float64-loss",
    ),
    Mutation(
        "insightface",
        "pytorch",
        "an epsilon of 1e-5, of the ResNets",
        constant("BATCH_NORM_EPSILON", "1e-5", "Block"),
        variant="r50",
        tier="float64-loss",
    ),
    Mutation(
        "insightface",
        "pytorch",
        "a shortcut of what the first norm gives",
        Replace("Block.forward", "self.conv3(_x)", "self.conv3(self.bn0(_x))"),
        variant="r50",
    ),
    Mutation(
        "insightface",
        "pytorch",
        "no dropout",
        Replace("Output.forward", "self.dropout(_x)", "_x"),
        variant="r50",
        tier="timed-dropout",
        **TIMED,
    ),
]
HEADS = [
    model(
        "gradients of the features on their own rank alone",
        Replace(
            "Gather.backward",
            "dist.reduce_scatter_tensor(_own, _gradient.contiguous())",
            "_own.copy_(_gradient.chunk(_ctx.ranks)[dist.get_rank()])",
            given=("_own * _ctx.ranks",),
        ),
        tier="float64-gradient",
    ),
    model(
        "gradients of centres divided by the number of ranks",
        Replace(
            "CrossEntropy.backward",
            "_gradient / len(_less)",
            "_gradient / len(_less) / dist.get_world_size()",
        ),
        tier="float64-gradient",
    ),
    model(
        "rows of nobody counted",
        Replace(
            "Head.forward",
            "facts.SCALE * with_margin(...)",
            "F.pad(facts.SCALE * with_margin(...), (0, self.weight.shard.block - _count))",
            given=("places_of(_labels, _first, _count)",),
        ),
        tier="float64-loss",
    ),
    model(
        "a softmax of a rank's own classes",
        Replace(
            "Head.forward",
            "split_head.cross_entropy(run, _scores, _places, _split)",
            "split_head.cross_entropy(run, _scores, _places, False)",
        ),
        tier="float64-loss",
    ),
    sampled(
        "momentum and decay of centres that are not sampled",
        Replace(
            "SGD.step",
            "_ids, _rows = _table.grad._indices()[0], _table.grad._values()",
            "_ids, _rows = torch.arange(len(_table)), _table.grad.to_dense()",
        ),
        tier="float64-gradient",
    ),
    sampled(
        "momentum of centres that are not sampled",
        Replace(
            "SGD.step",
            "_velocity.index_copy_(0, _ids, _moved)",
            "_velocity.mul_(_momentum)\n_velocity.index_copy_(0, _ids, _moved)",
            given=("_moved = _velocity.index_select(0, _ids).mul_(_momentum)",),
        ),
        tier="float64-losses",
    ),
    sampled(
        "no decay of sampled centres",
        Replace(
            "SGD.step",
            "_moved.add_(_rows).add_(_values, alpha=_decay)",
            "_moved.add_(_rows)",
        ),
    ),
    sampled(
        "all centres taken",
        Replace(
            "Head.forward",
            "_given[_first:_first + _count].nonzero()[:, 0]",
            "torch.arange(_count)",
        ),
        tier="float64-loss",
    ),
    sampled(
        "the next rank's sample",
        Replace(
            "Head.forward",
            "_given[_first:_first + _count].nonzero()[:, 0]",
            "_given[:_count].nonzero()[:, 0]",
        ),
        layout="dp2",
        tier="float64-loss",
    ),
]
SAMPLERS = [
    sampled(
        "a sample that may lack an identity of the batch",
        Replace(
            "sampled", "_keys.index_fill_(0, _places.where(_places >= 0, _count), 2.0)", "pass"
        ),
        tier="sampler",
        **TIMED,
    ),
    sampled(
        "a sample that cuts off identities",
        Replace("sampled", "max(_rows, int((_keys == 2.0).sum()))", "_rows"),
        tier="sampler",
        **TIMED,
    ),
    sampled(
        "the same sample in each step",
        Replace(
            "sampled",
            "torch.rand(_count + 1, device=_places.device)",
            "torch.linspace(0, 1, _count + 1, device=_places.device)",
        ),
        tier="sampler",
        **TIMED,
    ),
]
#: In mixed precision, what has to be in float32.
HALF = [
    pytorch(
        "an output and a head in bfloat16",
        Replace(
            "Face.forward",
            "torch.autocast(self.device, enabled=False)",
            "torch.autocast(\n    self.device, enabled=torch.is_autocast_enabled(self.device)\n)",
        ),
        precision="amp",
        tier="timed-loss",
        **TIMED,
    ),
]
#: As it is, with every head and layout, and each backbone and loss.
RIGHT = [
    each._replace(name="as it is", edit=None, tier="", **TIMED)
    for each in (
        model("", None),
        pytorch("", None),
        pytorch("", None, layout="dp2"),
        sampled("", None),
        sampled("", None, layout="dp2"),
        pytorch("", None, variant="y1-cosface"),
        pytorch("", None, variant="r50"),
    )
]
