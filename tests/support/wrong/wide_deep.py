"""The smallest wrong settings of Wide & Deep: of training, inference and time to quality.

Training has replicated tables, and sharded ones.
"""

from functools import partial

from edits import Replace, constant

from wrong import TIMED, Mutation, common

pytorch = partial(Mutation, "wide_deep", "pytorch")
mxnet = partial(Mutation, "wide_deep", "mxnet")
paddlepaddle = partial(Mutation, "wide_deep", "paddlepaddle")
mindspore = partial(Mutation, "wide_deep", "mindspore")

SUMMED = "summed(_table.grad._indices()[0], _table.grad._values())"
#: Where the dense layers' Adam gets its epsilon.
CORRECTED = "self.dense.param_groups[0]['eps'] = _epsilon / _root"
NUMBERS_FIRST = Replace(
    "WideDeep.forward", "torch.cat([_fields, _numbers], 1)", "torch.cat([_numbers, _fields], 1)"
)
WIDE_DEEP = [
    pytorch(
        "all rows move",
        Replace("Adam.step", SUMMED, "torch.arange(len(_table)), _table.grad.to_dense()"),
    ),
    pytorch(
        "places of a row squared singly",
        Replace(
            "Adam.step",
            "_second.addcmul_(_g, _g, value=_share)",
            "_second.add_(\n"
            "    summed(_table.grad._indices()[0], _table.grad._values() ** 2)[1], alpha=_share\n"
            ")",
            given=(SUMMED,),
        ),
    ),
    pytorch(
        "epsilon beside the corrected root",
        Replace("Adam.step", CORRECTED, CORRECTED.replace(" / _root", "")),
    ),
    pytorch(
        "epsilon beside the corrected root, of tables",
        Replace(
            "Adam.step",
            "_second.sqrt_().add_(_epsilon)",
            "_second.sqrt_().add_(_epsilon * _root)",
            given=(CORRECTED,),
        ),
    ),
    pytorch("epsilon 1e-8", constant("EPSILON", "1e-8", "optimizer")),
    pytorch(
        "a step ahead",
        Replace("Adam.step", "self.steps += 1", "self.steps += 1 + (self.steps == 0)"),
    ),
    pytorch(
        "no correction",
        Replace("Adam.step", "_rate * _root / (1 - _ ** self.steps)", "_rate"),
    ),
    pytorch(
        "a sum over the batch",
        Replace(
            "loss",
            "F.binary_cross_entropy_with_logits(...)",
            "F.binary_cross_entropy_with_logits(..., reduction='sum')",
        ),
    ),
    pytorch(
        "a mean of the crosses",
        Replace("WideDeep.forward", "_crosses.sum((1, 2))", "_crosses.mean((1, 2))"),
    ),
    pytorch(
        "no bias of the output",
        Replace("WideDeep.forward", "self.output(_x)", "F.linear(_x, self.output.weight)"),
    ),
    pytorch(
        "one table for all fields",
        Replace("WideDeep.forward", "self.deep(_ids)", "self.deep(_ids % 600)"),
    ),
    pytorch(
        "a row of padding",
        Replace(
            "table",
            "nn.utils.skip_init(nn.Embedding, ...)",
            "nn.utils.skip_init(nn.Embedding, ..., padding_idx=0)",
        ),
    ),
    pytorch("numbers first", NUMBERS_FIRST),
    pytorch("no ReLU", Replace("WideDeep.forward", "F.relu(_x)", "_x")),
    pytorch("a leaky ReLU", Replace("WideDeep.forward", "F.relu(_x)", "F.leaky_relu(_x, 1e-3)")),
    pytorch("a smooth ReLU", Replace("WideDeep.forward", "F.relu(_x)", "F.softplus(_x, 100)")),
    pytorch(
        "gradients of tables added up over ranks",
        Replace("exchange.gather", "_mine._values() / run.ranks", "_mine._values()"),
        layout="dp2",
        tier="float64-gradient",
    ),
    pytorch(
        "gradients of tables stay on their rank as they are timed",
        Replace(
            "exchange.gather",
            "_table.grad = gradient(...)",
            "if run.float64:\n    _table.grad = gradient(...)",
        ),
        layout="dp2",
        tier="timed-gradient",
        **TIMED,
    ),
    pytorch(
        "no dropout behind the layers",
        Replace("WideDeep.forward", "self.dropout(_x)", "_x"),
        tier="timed-dropout",
        **TIMED,
    ),
]
sharded = partial(pytorch, layout="dp2", variant="sharded")
sharded_in_mxnet = partial(mxnet, layout="dp2", variant="sharded")
sharded_in_mindspore = partial(mindspore, layout="dp2", variant="sharded", **TIMED)
SHARDED = [
    sharded(
        "gradients added up over ranks, of sharded tables",
        Replace("Lookup.backward", "_rows / run.ranks", "_rows"),
        tier="float64-gradient",
    ),
    sharded(
        "gradients added up over ranks as they are timed, of sharded tables",
        Replace(
            "Lookup.backward", "_rows / run.ranks", "_rows / (run.ranks if run.float64 else 1)"
        ),
        tier="timed-gradient",
        **TIMED,
    ),
    sharded(
        "two columns swapped, of sharded tables",
        Replace(
            "Lookup.forward",
            "return _rows.reshape(*_ids.shape, _shard.width)",
            "looked_up = _rows.reshape(*_ids.shape, _shard.width)\n"
            "order = [1, 0, *range(2, _shard.width)]\n"
            "return looked_up[..., order] if _shard.width > 1 else looked_up",
        ),
        tier="float64-loss",
    ),
    sharded(
        "gradients of the next rank's columns, of sharded tables",
        Replace(
            "Lookup.backward",
            "to_and_fro(_rows.contiguous())",
            "to_and_fro(_rows.flip(0).contiguous())",
        ),
        tier="float64-gradient",
    ),
    sharded_in_mxnet(
        "gradients added up over ranks, of sharded tables",
        Replace(
            "Trainer.step",
            "dict(..., rescale_grad=_share)",
            "dict(..., rescale_grad=2 * _share)",
        ),
        tier="float64-gradient",
    ),
    sharded_in_mxnet(
        "gradients of the next rank's columns, of sharded tables",
        Replace(
            "Shares.given_back",
            "_shard.rank * _shard.shape[1]",
            "(_shard.rank + 1) % _shard.ranks * _shard.shape[1]",
        ),
        tier="float64-gradient",
    ),
    sharded_in_mxnet(
        "rows of other ranks looked up as the first one",
        Replace(
            "Shares.lookup",
            "_shard.block * mx.nd.ones_like(_x)",
            "0 * mx.nd.ones_like(_x)",
        ),
        tier="float64-loss",
    ),
    sharded_in_mindspore(
        "gradients added up over ranks, of sharded tables",
        Replace("Columns.bprop", "_own / self.ranks", "_own"),
        tier="timed-gradient",
    ),
    sharded_in_mindspore(
        "gradients of the next rank's columns, of sharded tables",
        Replace(
            "Columns.bprop",
            "self.rank * self.columns",
            "(self.rank + 1) % self.ranks * self.columns",
        ),
        tier="timed-gradient",
    ),
    sharded_in_mindspore(
        "gradients of other ranks' rows, of sharded tables",
        Replace("Rows.bprop", "_gradient * _own / self.ranks", "_gradient / self.ranks"),
    ),
    sharded_in_mindspore(
        "rows of other ranks looked up as the first one",
        Replace(
            "Sharded.construct",
            "ops.full_like(_ids, self.block)",
            "ops.zeros_like(_ids)",
        ),
    ),
]
INFER = [
    pytorch("dropout", common.TRAINING_MODE, variant="infer"),
    pytorch(
        "no crosses",
        Replace("WideDeep.forward", "_deep + _crosses.sum((1, 2))", "_deep"),
        variant="infer",
    ),
    pytorch("numbers first", NUMBERS_FIRST, variant="infer"),
]
#: Tables have moments beside the optimiser's own.
QUALITY = [
    pytorch(
        "moments of tables that stay",
        Replace("Adam.forget", "_moment.zero_()", "pass"),
        variant="quality",
        tier="float64-again",
    ),
    pytorch(
        "a rate of the tables that stays",
        Replace("Adam.step", "self.param_groups[0]['lr']", "self.defaults['lr']"),
        variant="quality",
        tier="float64-losses",
    ),
    mxnet(
        "moments of tables that stay, of MXNet",
        Replace("Trainer.forget", "_moment[:] = 0", "pass"),
        variant="quality",
        tier="float64-again",
    ),
    paddlepaddle(
        "steps that go on, of PaddlePaddle",
        Replace("Adam.forget", "self.steps = 0", "pass"),
        variant="quality",
        tier="float64-again",
    ),
]
