"""GPT pre-training: sizes, arithmetic and optimiser, the same for every framework.

A decoder that predicts the next token: GPT-2's model (Radford et al. 2019), as Megatron-LM trains
it (Shoeybi et al. 2019; Narayanan et al. 2021). It can be split over devices by tensors and by
layers, which says here what is divided and which stage has what.
"""

import math
from collections import OrderedDict

from dlperf.contract import tensor
from dlperf.contract.dimension import Data, Dimension
from dlperf.contract.layout import NAMES as WAYS
from dlperf.contract.published import Published
from dlperf.contract.tensor import Tensor
from dlperf.contract.workload import Workload
from dlperf.workloads.encoders import layers as encoders

DIMENSIONS = OrderedDict(
    width=Dimension(
        key="w",
        standard=768,
        minimum=8,
        maximum=65536,
        examples=(128, [768, 1536]),
        description="Width of a layer. Published figures use 768, 1536, 2304 and 3072; 128 fits a "
        "laptop. `heads` must divide it.",
    ),
    layers=Dimension(
        key="l",
        standard=12,
        minimum=1,
        maximum=1024,
        examples=(2, [12, 16]),
        description="Layers. `pipeline_parallel` must divide them.",
    ),
    heads=Dimension(
        key="h",
        standard=12,
        minimum=1,
        maximum=1024,
        examples=(4, [12, 16]),
        description="Heads of attention. `tensor_parallel` must divide them.",
    ),
    sequence_length=Dimension(
        key="seq",
        standard=1024,
        minimum=8,
        maximum=65536,
        examples=(64, 1024, 2048),
        description="Tokens of a sequence, and positions that the model has. Published figures use "
        "1024 and 2048.",
    ),
)
DATA = OrderedDict(
    synthetic=encoders.SYNTHETIC,
    sample=Data(
        "prose-tokens",
        "input",
        "English prose as tokens of a byte-level BPE",
        "English prose, as tokens of a byte-level BPE learned on it; needs no download",
    ),
    tokens=Data(
        "tokens",
        "input",
        "a file of tokens of your own, in Megatron-LM's form or flat",
        "a file of tokens",
    ),
)

#: 50,257 entries of GPT-2's, padded to 128 x 400 so that 16 tensor-parallel devices divide it, as
#: DLPerf states. The same in every layout; what pads is trained, and stays in the softmax.
VOCABULARY = 51200
LAYER_NORM_EPSILON = 1e-5
INITIAL_DEVIATION = 0.02  # of what ends a residual branch, over the root of two for each layer
DROPOUT = 0.1  # on embeddings, and on what both branches of a layer add
ATTENTION_DROPOUT = 0.1  # on attention's shares

OPTIMIZER_STATES = 2  # values that it keeps for each weight: both moments
LEARNING_RATE = 1.5e-4  # after warm-up
BETA1, BETA2 = 0.9, 0.999
EPSILON = 1e-8
WEIGHT_DECAY = 0.01  # on tensors of two dimensions, embeddings among them
CLIP_NORM = 1.0  # of all gradients of the model together, each value counted once


def base(case):
    """What a speed-up is over: one replica of the same layout."""
    devices = case.layout.devices_per_replica
    if devices <= case.devices_per_node:
        return case.on(1, devices)
    return case.on(-(-devices // case.devices_per_node), case.devices_per_node)


def unsupported(identity):
    """Why no framework can do a case, by its identity, or ""."""
    layout = identity["layout"]
    tensors, stages = layout["tensor_parallel"], layout["pipeline_parallel"]
    heads, layers, width = identity["heads"], identity["layers"], identity["width"]
    if width % heads:
        return "heads: %d do not divide a width of %d" % (heads, width)
    if heads % tensors:
        return "tensor_parallel: %d does not divide %d heads" % (tensors, heads)
    if VOCABULARY % tensors:
        return "tensor_parallel: %d does not divide a vocabulary of %d" % (tensors, VOCABULARY)
    if layers % stages:
        return "pipeline_parallel: %d does not divide %d layers" % (stages, layers)
    if layout["zero_stage"] >= 2 and stages > 1:
        return (
            "zero_stage: %d exchanges gradients in each micro-step of a pipeline: ask for 1"
            % (layout["zero_stage"])
        )
    return ""


def unsupported_in(framework, case):
    """Why `framework` cannot do a case, by its identity and its device, or ""."""
    graph = (framework, case["compiler"], case["device"]) == ("oneflow", "graph", "cpu")
    if graph and case["scenario"] in ("train", "quality"):
        return "on the CPU nn.Graph clips by a norm that is percents off: a running sum of float32"
    return ""


def parameters(dimensions):
    """Canonical name -> Tensor of everything that is trained, in the order of the forward pass.

    The head is the word embedding. 12 L h^2 + 13 L h + (V + s) h + 2 h values.
    """
    tensors, width = OrderedDict(), dimensions["width"]
    tensors["word_embedding"] = Tensor((VOCABULARY, width), tensor.EMBEDDING, axis=0)
    positions = (dimensions["sequence_length"], width)
    tensors["position_embedding"] = Tensor(positions, tensor.EMBEDDING)
    for layer in range(dimensions["layers"]):
        name = "layer%d." % layer
        tensors.update(encoders.layer(name, width, 4 * width, norms_first=True))
    tensors.update(tensor.norm("norm", width))
    return tensors


def layers_of_stage(dimensions, stage, stages):
    """The numbers of the layers of a pipeline's stage."""
    count = dimensions["layers"] // stages
    return range(stage * count, (stage + 1) * count)


def pipeline_stages(dimensions, count):
    """Name of each tensor -> the stages, of `count`, that have it: the tied table the first and
    the last."""
    found = OrderedDict()
    layer_stage = {
        layer: stage
        for stage in range(count)
        for layer in layers_of_stage(dimensions, stage, count)
    }
    for name in parameters(dimensions):
        if name == "word_embedding":
            found[name] = (0, count - 1)
        elif name == "position_embedding":
            found[name] = (0,)
        elif name.startswith("norm."):
            found[name] = (count - 1,)
        else:
            found[name] = (layer_stage[int(name[len("layer") : name.index(".")])],)
    return found


def initial(name, known, draw, dimensions):
    """What a tensor starts with, a float32 array or one number; `draw` draws.

    Weights and embeddings are normal, those that end a residual branch by a smaller deviation
    (Radford et al. 2019, section 2.3); scales 1, biases 0.
    """
    ends_branch = name.endswith(("projection.weight", "ffn2.weight"))
    share = 1 / math.sqrt(2 * dimensions["layers"]) if ends_branch else 1.0
    return encoders.initial(INITIAL_DEVIATION * share, known, draw)


def learning_rate(global_batch_size):
    """The constant rate of a throughput run: a hundredth of the rate after warm-up.

    A training warms up linearly over 3,200 steps; a window of some hundred steps lies at its start.
    """
    return LEARNING_RATE / 100


def flops_per_sample(dimensions, scenario):
    """FLOPs a sequence: 72 s L h^2 (1 + s / 6h + V / 12Lh) to train one, 3 x the forward pass.

    Narayanan et al. 2021, equation 3, without what is computed a second time: products of matrices,
    a multiply-add as 2, attention as if it were not causal. An inference scores the last position
    alone.
    """
    tokens = dimensions["sequence_length"]
    layers = recomputed_flops_per_sample(dimensions)
    head = 2.0 * dimensions["width"] * VOCABULARY
    if scenario == "infer":
        return layers + head
    return 3 * (layers + tokens * head)


def recomputed_flops_per_sample(dimensions):
    """The forward pass of all layers, which activation checkpointing computes a second time.

    24 s L h^2 (1 + s / 6h); the head is not computed again.
    """
    tokens, width = dimensions["sequence_length"], dimensions["width"]
    return 2.0 * encoders.multiply_adds(dimensions["layers"], tokens, width, 4 * width)


def published_flops_per_sample(row):
    """FLOPs that DLPerf counts of a sequence: 96 s L h^2 (1 + s / 6h + V / 16Lh).

    Narayanan et al. 2021, equation 3: each layer's forward pass is computed a second time.
    """
    tokens, layers, width = (int(row[key]) for key in ("seq_len", "layers", "hidden"))
    more = tokens / (6 * width) + VOCABULARY / (16 * layers * width)
    return 96 * tokens * layers * width**2 * (1 + more)


#: What publications call it -> what is published of it under that name.
PUBLISHED = {
    "GPT": Published(
        cases="parallelism, data x tensor x pipeline, global batch, width x layers",
        flops_per_sample=published_flops_per_sample,
    )
}
#: Columns of a published table -> our names of them.
PUBLISHED_COLUMNS = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "hidden": "width",
    "seq_len": "sequence_length",
}


def published_fields(row, columns):
    """What a row of a published table is of: fields of a value (analysis/publications).

    columns: dimensions that the table has columns of. A replica's batch in one micro-step is
    `batch_size` here.
    """
    own = {PUBLISHED_COLUMNS.get(name, name): value for name, value in columns.items()}
    return {"batch_size": own.pop("micro_batch", None), "dimensions": own}


WORKLOAD = Workload(
    title="GPT",
    summary="next tokens, a vocabulary of 51,200, any width and depth.",
    unit="sequences",
    dimensions=DIMENSIONS,
    data=DATA,
    ways=WAYS,
    parameters=parameters,
    initial=initial,
    learning_rate=learning_rate,
    base=base,
    flops_per_sample=flops_per_sample,
    answers=(1,),  # labels
    has_dropout=True,
    pipeline_stages=pipeline_stages,
    tokens_per_sample=encoders.tokens_per_sample,
    recomputed_flops_per_sample=recomputed_flops_per_sample,
    optimizer_states=OPTIMIZER_STATES,
    unsupported=unsupported,
    unsupported_in=unsupported_in,
    published=PUBLISHED,
    published_fields=published_fields,
)
