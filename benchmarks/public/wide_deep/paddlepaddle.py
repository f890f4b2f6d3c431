"""Paddle's own way to such models (PaddleRec's models/rank/wide_deep): a static program.

One nn.Embedding with sparse gradients for each of the two parts, plain nn.Linear layers, and Adam
with lazy_mode, which updates touched rows. With dropout, and crosses in the wide part, as ours;
PaddleRec has none, and numbers there.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.wide_deep import facts

SOURCE = "paddlepaddle 3.3.1, static program, sparse nn.Embedding, Adam lazy_mode (PaddleRec's way)"
REQUIREMENTS = []
SEPARATE = True  # static mode is of a whole process


class WideDeep(nn.Layer):
    def __init__(self, dimensions):
        super().__init__()
        rows = dimensions["vocabulary"]
        self.wide = nn.Embedding(rows, 1, sparse=True)
        self.deep = nn.Embedding(rows, dimensions["width"], sparse=True)
        sizes = [facts.inputs(dimensions)] + dimensions["layers"] * [facts.UNITS]
        self.hidden = nn.LayerList([nn.Linear(*each) for each in zip(sizes, sizes[1:])])  # noqa: B905
        self.last = nn.Linear(facts.UNITS, 1)

    def forward(self, numbers, wide, deep):
        x = paddle.concat([self.deep(deep).flatten(1), numbers], 1)
        for layer in self.hidden:
            x = F.dropout(F.relu(layer(x)), facts.DROPOUT)
        return self.last(x) + self.wide(wide).sum(1)


def training(run):
    paddle.set_flags({"FLAGS_use_onednn": False})  # the default, and right: see our page
    paddle.enable_static()
    main, start = paddle.static.Program(), paddle.static.Program()
    batches = open_batches(run)
    with paddle.static.program_guard(main, start):
        size = run.batch_size
        numbers = paddle.static.data("numbers", [size, facts.NUMBERS], "float32")
        wide = paddle.static.data("wide", [size, facts.CROSSES], "int64")
        deep = paddle.static.data("deep", [size, facts.FIELDS], "int64")
        labels = paddle.static.data("labels", [size], "float32")
        network = WideDeep(run.dimensions)
        logits = network(numbers, wide, deep)
        value = F.binary_cross_entropy_with_logits(logits, labels.unsqueeze(1))
        paddle.optimizer.Adam(
            facts.learning_rate(run.global_batch_size),
            facts.BETA1,
            facts.BETA2,
            facts.EPSILON,
            lazy_mode=True,
        ).minimize(value)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(start)
    names = "numbers", "wide", "deep", "labels"

    def put(*batch):
        kinds = "float32", "int64", "int64", "float32"
        return [each.astype(kind) for each, kind in zip(batch, kinds)]  # noqa: B905

    next_batch = feed(batches, put)

    def step():
        given = dict(zip(names, next_batch()))  # noqa: B905
        return executor.run(main, given, [value])[0]

    return Work(
        step=step,
        wait=lambda: None,
        loss=float,
        parameters=sum(int(np.prod(p.shape)) for p in network.parameters()),
        batches=batches,
        parity={},
    )
