"""Wide & Deep on rows of Criteo: sizes, arithmetic and optimiser, the same for every framework.

The probability of a click, from 13 numbers, 2 crosses of categories (wide) and 26 categories
(deep). Sources: Cheng et al. 2016 for the model; the sizes of NVIDIA-Merlin/HugeCTR samples/wdl and
of Oneflow-Inc/DLPerf, which measured it.
"""

import math
from collections import OrderedDict

from dlperf.contract import mesh, tensor
from dlperf.contract.dimension import Data, Dimension, Score
from dlperf.contract.published import Published
from dlperf.contract.tensor import Tensor
from dlperf.contract.workload import Quality, Workload

DIMENSIONS = OrderedDict(
    vocabulary=Dimension(
        key="voc",
        standard=2322444,
        minimum=26,
        maximum=2**31 - 1,
        examples=(260000, [3200000, "max"]),
        granule=100000,  # 20 MB at a width of 16
        description="Rows of each of the two tables, on all devices together. 2,322,444 are those "
        "of Criteo's rows; 260,000 fit a laptop. Training takes 12 x rows x (width + 1) bytes.",
    ),
    width=Dimension(
        key="w",
        standard=16,
        minimum=1,
        maximum=1024,
        examples=(16, 32),
        description="Numbers of a row of the deep table.",
    ),
    layers=Dimension(
        key="l",
        standard=7,
        minimum=1,
        maximum=64,
        examples=(7, 2),
        description="Hidden layers, of 1024 units each. Published figures use 7 and 2.",
    ),
    adam=Dimension(
        key="adam",
        standard="lazy",
        words={
            "lazy": "Adam of touched rows only",
            "dense": "Adam of all rows",
        },
        examples=(["lazy"], ["lazy", "dense"]),
        description="Which rows of the tables a step updates. `lazy`: those that its batch looks "
        "up. `dense`: all, as their moments go on; it takes as long as the tables are large. The "
        "two never stand in one table.",
    ),
    tables=Dimension(
        key="",  # its words say it
        standard="replicated",
        words={
            "replicated": "whole tables on every device",
            "sharded": "tables shared out over the devices",
        },
        examples=(["replicated"], ["replicated", "sharded"]),
        description="What several devices have of the tables. `replicated`: all of both, and they "
        "exchange gradients of rows. `sharded`: columns of the deep table and rows of the wide "
        "one, so a device holds its share of their memory, and they exchange rows and gradients; "
        "the devices must divide `width`. It needs two devices or more, and `adam: lazy`. The two "
        "never stand in one table.",
    ),
)
DATA = OrderedDict(
    synthetic=Data(
        "",
        "input",
        "synthetic batches, on the device",
        "batches drawn anew before each window, whose ids lie over all rows of the tables",
    ),
    sample=Data(
        "criteo-sample-npz",
        "input",
        "rows in Criteo's form, drawn at random",
        "50,000 rows in Criteo's form, drawn at random, with 14,668 ids; needs no download",
        samples=50000,
        tests=8333,
        target=0.8,
        least={"vocabulary": 14668},
    ),
    criteo=Data(
        "criteo-npz",
        "input",
        "rows of Criteo's challenge",
        "rows of Criteo's challenge of 2014",
        samples=39291958,
        tests=6548659,
        target=0.8,
    ),
)

NUMBERS = 13
CROSSES = 2  # ids of a sample in the wide table
FIELDS = 26  # ids of a sample in the deep table
UNITS = 1024
DROPOUT = 0.5  # behind each hidden layer

#: What publications call it -> what is published of it under that name.
PUBLISHED = {"Wide&Deep": Published("criteo")}

TABLE_LIMIT = 0.05  # tables start uniform between this and its negative; biases at 0

LEARNING_RATE = 1e-3
BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-7  # beside the root of the second moment as it is, not of the corrected one


def base(case):
    """What a speed-up is over: the same work on one device, which has whole tables."""
    return case.on(1, 1).choosing(tables="replicated")


def unsupported(identity):
    """Why no framework can do a case, by its identity, or ""."""
    devices = identity["nodes"] * identity["devices_per_node"]
    if identity["tables"] != "sharded":
        return ""
    if devices == 1:
        return "one device has nothing to share out: ask for `tables: replicated`"
    if identity["adam"] != "lazy":
        return "sharded tables are updated where a batch looks them up: ask for `adam: lazy`"
    if identity["width"] % devices:
        return "tables are sharded by columns: %d devices do not divide a width of %d" % (
            devices,
            identity["width"],
        )
    return ""


def unsupported_in(framework, case):
    """Why `framework` cannot do a case, by its identity and its device, or ""."""
    lazy_amp = case["adam"] == "lazy" and case["precision"].startswith("amp")
    if framework == "mxnet" and lazy_amp and case["device"] == "cuda":
        return "MXNet's loss scaler looks for overflow in whole gradients, not in rows of tables"
    if framework == "mxnet" and case["vocabulary"] * case["width"] >= 2**31:
        return "MXNet 1.9 from PyPI counts the numbers of an array in 32 bits: a table has too many"
    if framework == "oneflow" and case["precision"].startswith("amp"):
        return "nn.Graph's AMP, which may narrow a whole table before each lookup, was never tried"
    if framework == "paddlepaddle" and lazy_amp:
        return "paddle.amp O2 narrows tables too, and its master weights are whole tables"
    return ""


def inputs(dimensions):
    """Columns that the first hidden layer takes: the fields' rows one by one, then the numbers."""
    return FIELDS * dimensions["width"] + NUMBERS


def parameters(dimensions):
    """Canonical name -> Tensor of everything that is trained, in the order of the forward pass.

    Dense weights are (outputs, inputs). There is no bias of the wide part: the output has one.
    Sharded tables are divided by replicas: the wide one by rows, the deep one by columns.
    """
    tensors, columns = OrderedDict(), inputs(dimensions)
    for name, width, axis in (("wide_embedding", 1, 0), ("deep_embedding", dimensions["width"], 1)):
        shape = (dimensions["vocabulary"], width)
        divided = {"axis": axis, "over": mesh.DATA} if sharded(dimensions) else {}
        tensors[name] = Tensor(shape, tensor.EMBEDDING, **divided)
    for layer in range(dimensions["layers"]):
        tensors.update(tensor.dense("hidden%d" % layer, columns, UNITS))
        columns = UNITS
    tensors.update(tensor.dense("output", columns, 1))
    return tensors


def sharded(dimensions):
    """Whether ranks share the tables out."""
    return dimensions["tables"] == "sharded"


def travel(run, way):
    """What the parity sheet says of sharded tables: how their rows travel between ranks."""
    return {"rows_of_tables": way} if sharded(run.dimensions) else {}


def sparse(dimensions):
    """The tensors whose rows are updated only where a batch touches them."""
    return ("wide_embedding", "deep_embedding") if dimensions["adam"] == "lazy" else ()


def initial(name, known, draw, dimensions):
    """What a tensor starts with, a float32 array or one number.

    Tables are uniform, dense weights as Glorot and Bengio 2010 have them ("Xavier"), biases 0.
    """
    if known.kind == tensor.EMBEDDING:
        return draw.uniform(known.shape, TABLE_LIMIT)
    if known.kind == tensor.DENSE:
        return draw.uniform(known.shape, math.sqrt(6.0 / sum(known.shape)))
    return 0.0


def learning_rate(global_batch_size):
    """The constant rate of a throughput run, whatever the batch: that of HugeCTR's sample."""
    return LEARNING_RATE


def schedule(run):
    """The rate of each step of the quality scenario, constant too; None of others."""
    if run.scenario != "quality":
        return None
    return [learning_rate(run.global_batch_size)]


def kept(logits, numbers, wide, deep, labels):
    """What a test keeps of each row."""
    return logits, labels


def tally(logits, labels):
    """[pairs of a click and another row that are in order, how many pairs there are].

    logits, labels: lists of arrays, which together have all rows that are tested with.
    A click with the higher logit is in order, one with the same counts half: the statistic U of
    Mann and Whitney 1947, which is exact; Hanley and McNeil 1982 for its being the area.
    """
    import numpy as np  # not above, as the plan reads this file

    logits, clicks = np.concatenate(logits), np.concatenate(labels) > 0.5
    ordered = np.argsort(logits, kind="stable")
    values, is_click = logits[ordered], clicks[ordered]
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))  # of each group of ties
    positive = np.add.reduceat(is_click.astype(np.float64), first)
    negative = np.diff(np.append(first, len(values))) - positive
    below = np.cumsum(negative) - negative
    return [float((positive * (below + negative / 2)).sum()), positive.sum() * negative.sum()]


def score(sums):
    """The AUC, a share of 1; where all rows are of one kind there is none, and 0.5 stands."""
    return sums[0] / sums[1] if sums[1] else 0.5


def flops_per_sample(dimensions, scenario):
    """FLOPs a sample: 40.4 MFLOP to train one at 7 layers and a width of 16.

    Counted are the products of the hidden layers and of the output, a multiply-add as 2; training
    is 3 x the forward pass. Left out are lookups, activations, dropout, loss and optimiser.
    """
    multiply_adds = inputs(dimensions) * UNITS + UNITS
    multiply_adds += (dimensions["layers"] - 1) * UNITS * UNITS
    return (2.0 if scenario == "infer" else 6.0) * multiply_adds


WORKLOAD = Workload(
    title="Wide & Deep",
    summary="clicks, from two tables of 2,322,444 rows and 7 layers of 1024.",
    unit="samples",
    dimensions=DIMENSIONS,
    data=DATA,
    ways=(),  # data parallel alone
    parameters=parameters,
    initial=initial,
    learning_rate=learning_rate,
    base=base,
    flops_per_sample=flops_per_sample,
    answers=(3,),  # labels
    has_dropout=True,
    schedule=schedule,
    sparse=sparse,
    unsupported=unsupported,
    # the devices together must divide the width of tables that they share out
    divided={"width": ("tables", "sharded")},
    quality=Quality(
        score=Score(
            "AUC",
            "%",
            "higher",
            "The area under the receiver operating characteristic of the test set, 0.5 for a "
            "guess.",
            scale=100,
            most=1.0,
        ),
        tally=tally,
        value=score,
        kept=kept,
    ),
    unsupported_in=unsupported_in,
    published=PUBLISHED,
)
