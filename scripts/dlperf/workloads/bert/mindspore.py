"""BERT-Base pre-training in MindSpore.

As fast as it gets: one product for query, key and value, the decoder at predicted positions only;
the whole step, clip, update and reduction included, in one graph. On a CPU `ops.Adam` and a decay
beside it take less than half the time of `ops.AdamWeightDecay`, a sum of squares by rows a third of
one over all axes. Attention is written out: the fused operators are for Ascend only.
"""

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore.common.initializer import initializer

from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import mindspore as framework
from dlperf.workloads.bert import facts


def dense(inputs, outputs, dtype):
    # the stopwatch writes all weights
    return nn.Dense(inputs, outputs, weight_init="zeros", bias_init="zeros", dtype=dtype)


class Float64LayerNorm(nn.LayerNorm):
    """The operator takes float64 and computes it in float32."""

    def construct(self, x):
        x = x - x.mean(-1, True)
        x = x * ops.rsqrt(ops.square(x).mean(-1, True) + self.epsilon)
        return x * self.gamma + self.beta


def layer_norm(dtype):
    kind = Float64LayerNorm if dtype == ms.float64 else nn.LayerNorm
    return kind((facts.WIDTH,), epsilon=facts.LAYER_NORM_EPSILON, dtype=dtype)


def embedding(entries, dtype):
    return Parameter(initializer("zeros", (entries, facts.WIDTH), dtype))


def gelu(x):
    return ops.gelu(x, approximate="none")


class Layer(nn.Cell):
    def __init__(self, dtype):
        super().__init__()
        self.qkv = dense(facts.WIDTH, 3 * facts.WIDTH, dtype)
        self.projection = dense(facts.WIDTH, facts.WIDTH, dtype)
        self.norm1 = layer_norm(dtype)
        self.ffn1 = dense(facts.WIDTH, facts.INNER_WIDTH, dtype)
        self.ffn2 = dense(facts.INNER_WIDTH, facts.WIDTH, dtype)
        self.norm2 = layer_norm(dtype)
        # each with a seed of its own: one for all would drop the same elements
        self.dropout = nn.Dropout(p=facts.DROPOUT)
        self.dropout1 = nn.Dropout(p=facts.DROPOUT)
        self.dropout2 = nn.Dropout(p=facts.DROPOUT)
        self.scores = ops.BatchMatMul(transpose_b=True)
        self.heads, self.head_width = facts.HEADS, facts.HEAD_WIDTH

    def construct(self, x, bias):
        """x: (batch x tokens, width); bias: (batch, 1, 1, tokens)."""
        batch, tokens = bias.shape[0], bias.shape[3]
        qkv = self.qkv(x).reshape((batch, tokens, 3, self.heads, self.head_width))
        query, key, value = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)))
        scores = self.scores(query * self.head_width**-0.5, key) + bias
        mixed = ops.bmm(self.dropout(ops.softmax(scores)), value)
        mixed = self.projection(ops.transpose(mixed, (0, 2, 1, 3)).reshape(x.shape))
        x = self.norm1(x + self.dropout1(mixed))
        inner = self.ffn2(gelu(self.ffn1(x)))
        return self.norm2(x + self.dropout2(inner))


class Bert(nn.Cell):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, dtype):
        super().__init__()
        self.word_embedding = embedding(facts.VOCABULARY, dtype)
        self.position_embedding = embedding(facts.POSITIONS, dtype)
        self.segment_embedding = embedding(facts.SEGMENTS, dtype)
        self.embedding_norm = layer_norm(dtype)
        self.dropout = nn.Dropout(p=facts.DROPOUT)
        self.layers = nn.CellList([Layer(dtype) for _ in range(facts.LAYERS)])
        self.mlm = dense(facts.WIDTH, facts.WIDTH, dtype)
        self.mlm_norm = layer_norm(dtype)
        self.decoder = ops.MatMul(transpose_b=True)
        self.mlm_bias = Parameter(initializer("zeros", (facts.VOCABULARY,), dtype))
        self.pooler = dense(facts.WIDTH, facts.WIDTH, dtype)
        self.nsp = dense(facts.WIDTH, 2, dtype)
        self.type = ms.float64 if dtype == ms.float64 else ms.float32  # of losses

    def construct(self, tokens, segments, mask, positions, labels, predicted, follows):
        batch, length = tokens.shape
        x = ops.gather(self.word_embedding, tokens, 0)
        x = x + ops.gather(self.segment_embedding, segments, 0)
        x = x + self.position_embedding[:length]
        x = self.embedding_norm(x.reshape((batch * length, -1)))
        x = self.dropout(x)
        bias = (mask.reshape((batch, 1, 1, length)) - 1).astype(x.dtype) * 1e4  # exp(-1e4) is 0
        for layer in self.layers:
            x = layer(x, bias)

        first = ops.arange(0, batch * length, length)  # of each sequence
        hidden = ops.gather(x, (first.reshape((batch, 1)) + positions).reshape(-1), 0)
        hidden = self.mlm_norm(gelu(self.mlm(hidden)))
        words = self.decoder(hidden, self.word_embedding) + self.mlm_bias
        each = ops.cross_entropy(words.astype(self.type), labels.reshape(-1), reduction="none")
        predicted = predicted.reshape(-1).astype(self.type)
        language = (each * predicted).sum() / predicted.sum()
        pairs = self.nsp(ops.tanh(self.pooler(ops.gather(x, first, 0))))
        return language + ops.cross_entropy(pairs.astype(self.type), follows)


def model(run):
    network = Bert(ms.float64 if run.float64 else ms.float32).set_train()
    dropouts = [each for _, each in network.cells_and_names() if isinstance(each, nn.Dropout)]
    for index, each in enumerate(dropouts):  # ranks drop other elements
        each.dropout = ops.Dropout(1 - each.p, run.seed + run.rank, index)
    if run.amp:
        network = ms.amp.auto_mixed_precision(network, "auto", dtype=ms.float16)
    return network


def weights(network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.parameters_and_names():
        name = own.replace("layers.", "layer")
        named[name.replace(".gamma", ".weight").replace(".beta", ".bias")] = parameter
    return framework.Weights(named)


class AdamW(nn.Cell):
    """The rate and epsilon that `ops.Adam` is given hold the bias correction of both moments.

    Its own adds epsilon beside the root of the second moment before the correction.
    """

    def __init__(self, parameters, rate, clip_norm):
        super().__init__()
        self.parameters = ParameterTuple(parameters)
        self.decayed = tuple(each.ndim > 1 for each in parameters)  # dense weights, embeddings
        self.first = self.parameters.clone("first", init="zeros")
        self.second = self.parameters.clone("second", init="zeros")
        self.type = parameters[0].dtype
        self.steps = Parameter(Tensor(0, self.type), name="steps")
        betas = np.array([facts.BETA1, facts.BETA2], ms.dtype_to_nptype(self.type))
        # Of the betas as the operator has them: 1 - float32(0.999) is off by 1e-5, and where the
        # correction is too, both cancel.
        logarithms = [math.log(beta) for beta in betas]
        # a graph keeps Python's numbers in float32
        constants = [*betas, *logarithms, rate, rate * facts.WEIGHT_DECAY, facts.EPSILON]
        self.constants = tuple(Tensor(each, self.type) for each in constants)
        self.clip_norm = None if clip_norm is None else Tensor(clip_norm, self.type)
        self.none = Tensor(0, self.type)  # for the operator's own bias correction
        self.adam, self.shrink = ops.Adam(), ops.ApplyGradientDescent()
        self.map = ops.HyperMap()

    def construct(self, gradients):
        beta1, beta2, log1, log2, rate, decay, epsilon = self.constants
        ops.assign_add(self.steps, ops.ones_like(self.steps))
        correction1 = -ops.expm1(self.steps * log1)
        root2 = ops.sqrt(-ops.expm1(self.steps * log2))
        if self.clip_norm is not None:
            norm = ops.sqrt(ops.addn(self.map(sum_of_squares, gradients)))
            scale = ops.minimum(self.clip_norm / norm, 1)
            gradients = self.map(ops.partial(ops.mul, scale), gradients)
        one = ops.partial(
            self.one, beta1, beta2, rate * root2 / correction1, decay, epsilon * root2
        )
        return self.map(one, self.parameters, self.first, self.second, self.decayed, gradients)

    def one(self, beta1, beta2, rate, decay, epsilon, weight, first, second, decayed, gradient):
        if decayed:
            self.shrink(weight, decay, weight)
        if self.type == ms.float64:  # the operator has none
            ops.assign(first, beta1 * first + (1 - beta1) * gradient)
            ops.assign(second, beta2 * second + (1 - beta2) * gradient * gradient)
            ops.assign_sub(weight, rate * first / (ops.sqrt(second) + epsilon))
        else:
            none = self.none
            self.adam(weight, first, second, none, none, rate, beta1, beta2, epsilon, gradient)
        return True


def sum_of_squares(x):
    """Rows first: the sum over all axes at once is slower and adds up its rounding."""
    return ops.reduce_sum(ops.reduce_sum(ops.square(x), -1))


def optimizer(run, network):
    return AdamW(
        network.trainable_params(),
        facts.learning_rate(run.global_batch_size),
        facts.CLIP_NORM if run.dimensions["clip"] else None,
    )


def training(run):
    network = model(run)
    adam = optimizer(run, network)
    reduce = mean_over_ranks(run, adam.parameters)
    scaler = ms.amp.DynamicLossScaler(2**16, 2, 2000) if run.amp else None

    def forward(*batch):
        value = network(*batch)
        return value if scaler is None else scaler.scale(value)

    gradients_of = ms.value_and_grad(forward, None, adam.parameters)

    def update(*batch):
        value, gradients = gradients_of(*batch)
        if reduce is not None:
            gradients = reduce(gradients)
        if scaler is None:
            adam(gradients)
        else:
            value, gradients = scaler.unscale(value), scaler.unscale(gradients)
            finite = ms.amp.all_finite(gradients)
            if finite:
                adam(gradients)
            scaler.adjust(finite)
        return value

    if run.compiler == "graph":
        update = ms.jit(update, fullgraph=True)
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, put)

    return Work(
        step=lambda: update(*next_batch()),
        wait=lambda: framework.synchronize(run),
        loss=lambda value: float(value.asnumpy()),
        parameters=sum(p.size for p in network.trainable_params()),
        batches=batches,
        parity={
            "attention": "products and softmax",
            "optimizer": "ops.Adam, decay apart",
            "clip": "global norm" if run.dimensions["clip"] else "none",
            "loss_scaling": "dynamic" if run.amp else "none",
            "compute_dtype": "float16" if run.amp else "float32",
        },
        weights=weights(network),
    )


def mean_over_ranks(run, parameters):
    if not run.distributed:
        return None
    return nn.DistributedGradReducer(parameters, mean=True, degree=run.ranks)


def put(*batch):
    return [Tensor(each) for each in batch]
