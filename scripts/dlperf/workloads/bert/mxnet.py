"""BERT-Base pre-training in MXNet's Gluon.

As fast as it gets: network and loss are one hybrid block with `static_alloc` and `static_shape`;
tokens lie before sequences, as the fused operators of self-attention want it; query, key and value
are one product, interleaved head by head for them; the decoder sees predicted positions only; a
fused operator updates each weight, with the clip as a factor of it. On a CPU, layer norm is put
together from products.
"""

import mxnet as mx
import numpy as np
from mxnet.gluon import nn

from dlperf.data.text import Batch
from dlperf.frameworks.mxnet import inference as answers
from dlperf.frameworks.mxnet import training as framework
from dlperf.workloads.bert import facts

HIDDEN = -1e9  # added to a score: the share is 0 exactly, and no infinity meets bfloat16


def dense(inputs, outputs):
    # the stopwatch writes all weights
    return nn.Dense(outputs, in_units=inputs, weight_initializer="zeros")


class LayerNorm(nn.LayerNorm):
    """On a CPU by products: MXNet's own sums and broadcasts take three times as long there."""

    def __init__(self, run):
        super().__init__(epsilon=facts.LAYER_NORM_EPSILON, in_channels=facts.WIDTH)
        self.cuda = run.cuda

    def hybrid_forward(self, F, x, gamma, beta):
        if self.cuda:
            return super().hybrid_forward(F, x, gamma, beta)
        across, down = F.ones_like(gamma), F.ones_like(F.slice_axis(x, axis=1, begin=0, end=1))
        spread, mean = across.reshape((1, -1)), across.reshape((-1, 1)) / facts.WIDTH
        x = F.elemwise_sub(x, F.dot(F.dot(x, mean), spread))
        scale = F.rsqrt(F.dot(F.square(x), mean) + self._epsilon)
        x = F.elemwise_mul(x, F.dot(scale, spread))
        x = F.elemwise_mul(x, F.dot(down, gamma.reshape((1, -1))))
        return F.elemwise_add(x, F.dot(down, beta.reshape((1, -1))))


def gelu(F, x, run):
    if run.float64:  # MXNet's own is exact, but computes in float32
        erf = F.erf(x * 0.5**0.5)
        # and has sqrt(pi) in float32 in erf's derivative: the value stays, the gradient gets right
        more = float(np.float32(np.pi**0.5)) / np.pi**0.5 - 1
        return 0.5 * x * (1 + erf + more * (erf - F.BlockGrad(erf)))
    return F.LeakyReLU(x, act_type="gelu")


def scores(F, qkv, run):
    """(tokens, batch, heads x 3 x head width) -> (batch x heads, tokens, tokens), scaled."""
    if run.float64:  # the fused operators know float32 only
        query, key, _ = heads(F, qkv)
        return F.batch_dot(query * facts.HEAD_WIDTH**-0.5, key, transpose_b=True)
    return F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=facts.HEADS)


def mix(F, qkv, shares, run):
    """Values by their shares: (tokens, batch, width)."""
    if run.float64:
        mixed = F.batch_dot(shares, heads(F, qkv)[2]).reshape((-4, -1, facts.HEADS, 0, 0))
        return mixed.transpose((2, 0, 1, 3)).reshape((0, 0, -3))
    return F.contrib.interleaved_matmul_selfatt_valatt(qkv, shares, heads=facts.HEADS)


def heads(F, qkv):
    qkv = qkv.reshape((0, 0, facts.HEADS, 3, -1)).transpose((3, 1, 2, 0, 4))
    return F.split(qkv.reshape((0, -3, 0, 0)), num_outputs=3, axis=0, squeeze_axis=True)


class Layer(nn.HybridBlock):
    def __init__(self, run):
        super().__init__()
        self.run = run
        self.qkv = dense(facts.WIDTH, 3 * facts.WIDTH)
        self.projection = dense(facts.WIDTH, facts.WIDTH)
        self.norm1 = LayerNorm(run)
        self.ffn1 = dense(facts.WIDTH, facts.INNER_WIDTH)
        self.ffn2 = dense(facts.INNER_WIDTH, facts.WIDTH)
        self.norm2 = LayerNorm(run)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.attention_dropout = nn.Dropout(facts.ATTENTION_DROPOUT)

    def hybrid_forward(self, F, x, bias):
        """x (tokens x batch, width), as dense layers are fastest."""
        qkv = self.qkv(x)
        if self.run.amp and not self.run.cuda:  # there the fused operators know no bfloat16
            qkv = F.amp_cast(qkv, dtype="float32")
        qkv = qkv.reshape((-1, self.run.batch_size, 3 * facts.WIDTH))
        shares = F.softmax(F.elemwise_add(scores(F, qkv, self.run), bias))
        mixed = mix(F, qkv, self.attention_dropout(shares), self.run).reshape((-3, 0))
        x = self.norm1(F.elemwise_add(x, self.dropout(self.projection(mixed))))
        inner = self.ffn2(gelu(F, self.ffn1(x), self.run))
        return self.norm2(F.elemwise_add(x, self.dropout(inner)))


class Bert(nn.HybridBlock):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, run):
        super().__init__()
        self.run = run
        self.word_embedding = self.embedding("word_embedding", facts.VOCABULARY)
        self.position_embedding = self.embedding("position_embedding", facts.POSITIONS)
        self.segment_embedding = self.embedding("segment_embedding", facts.SEGMENTS)
        self.embedding_norm = LayerNorm(run)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.layers = nn.HybridSequential()
        for _ in range(facts.LAYERS):
            self.layers.add(Layer(run))
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = LayerNorm(run)
        self.mlm_bias = self.params.get("mlm_bias", shape=(facts.VOCABULARY,), init="zeros")
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def embedding(self, name, entries):
        return self.params.get(name, shape=(entries, facts.WIDTH), init="zeros")

    def encode(self, F, tokens, segments, mask, own):
        """(tokens x batch, width)"""
        word, segment = own["word_embedding"], own["segment_embedding"]
        length = self.run.dimensions["sequence_length"]
        x = F.Embedding(tokens.transpose(), word, facts.VOCABULARY, facts.WIDTH)
        x = x + F.Embedding(segments.transpose(), segment, facts.SEGMENTS, facts.WIDTH)
        position = F.slice_axis(own["position_embedding"], axis=0, begin=0, end=length)
        x = F.broadcast_add(x, position.expand_dims(1)).reshape((-3, 0))
        x = self.dropout(self.embedding_norm(x))
        # a row a head and query: the sum of two equal shapes is five times as fast as one that
        # broadcasts, and softmax with lengths is slower still
        bias = F.repeat((mask - 1) * -HIDDEN, facts.HEADS, axis=0).expand_dims(1)
        bias = F.broadcast_axis(bias, axis=1, size=length)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def hybrid_forward(self, F, *inputs, **own):
        tokens, segments, mask, rows, labels, predicted, follows = inputs
        word, batch = own["word_embedding"], self.run.batch_size
        x = self.encode(F, tokens, segments, mask, own)
        hidden = self.mlm_norm(gelu(F, self.mlm(F.take(x, rows.reshape((-1,)))), self.run))
        words = F.FullyConnected(hidden, word, own["mlm_bias"], num_hidden=facts.VOCABULARY)
        hits = F.pick(F.log_softmax(words), labels.reshape((-1,)))
        language = F.sum(hits * predicted.reshape((-1,))) / F.sum(predicted)
        pairs = self.nsp(F.tanh(self.pooler(F.slice_axis(x, axis=0, begin=0, end=batch))))
        return -(language + F.mean(F.pick(F.log_softmax(pairs), follows)))


class Encoder(Bert):
    """The encoder's output, (batch, tokens, width)."""

    def hybrid_forward(self, F, tokens, segments, mask, **own):
        x = self.encode(F, tokens, segments, mask, own)
        return x.reshape((-1, self.run.batch_size, facts.WIDTH)).transpose((1, 0, 2))


def model(run, kind=Bert):
    network = framework.initialized(run, kind(run))
    for parameter in network.collect_params().values():
        if len(parameter.shape) == 1:
            parameter.wd_mult = 0.0
    return network


class Weights(framework.Weights):
    """The operators of attention want query, key and value of a head side by side."""

    def own(self, name, array):
        return regrouped(array, 3, facts.HEADS) if ".qkv." in name else array

    def canonical(self, name, array):
        return regrouped(array, facts.HEADS, 3) if ".qkv." in name else array


def regrouped(array, first, second):
    """Rows (first, second, head width) -> (second, first, head width)."""
    split = array.reshape((first, second, facts.HEAD_WIDTH) + array.shape[1:])
    return split.swapaxes(0, 1).reshape(array.shape)


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    own = framework.named(network)
    return Weights({name.replace("layers.", "layer"): parameter for name, parameter in own})


def loss(run, network):
    return network


class AdamW(mx.optimizer.Optimizer):
    """Clip and update of all tensors in one call; MXNet has the operator, but no optimiser to it.

    The operator corrects no bias and adds its epsilon to the root of the uncorrected moment: both
    corrections go into its rate and its epsilon. They are those of the float32 that it computes
    its averages with: 1 - 0.999 differs by 1e-5.
    """

    def __init__(self, clip_norm, many, **settings):
        super().__init__(**settings)
        self.beta1, self.beta2 = float(np.float32(facts.BETA1)), float(np.float32(facts.BETA2))
        self.epsilon, self.clip_norm = facts.EPSILON, clip_norm
        self.many = many  # tensors an operator updates
        self.aggregate_num = len(facts.parameters({}))  # in one call: the norm is of all

    def create_state(self, index, weight):
        return mx.nd.zeros_like(weight), mx.nd.zeros_like(weight)

    def update_multi_precision(self, indices, weights, gradients, states):
        self._update_count(indices)
        steps = self._index_update_count[indices[0]]
        root = (1 - self.beta2**steps) ** 0.5
        rate = root / (1 - self.beta1**steps)
        scale = mx.nd.full(1, self.rescale_grad, weights[0].context)
        if self.clip_norm:
            # stays on the device: nothing waits for it, and no gradient is written again
            scale = mx.nd.minimum(self.clip_norm / norm(gradients).astype("float32"), scale)
        shared = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon * root}
        etas, decays = self._get_lrs(indices), self._get_wds(indices)
        if weights[0].dtype == np.float64:  # of which the operator for many changes nothing
            for w, g, (m, v), eta, decay in zip(weights, gradients, states, etas, decays):
                settings = dict(shared, lr=rate, eta=eta, wd=decay)
                mx.nd.contrib.adamw_update(w, g, m, v, scale, out=w, **settings)
            return
        means, variances = zip(*states)
        for first in range(0, len(weights), self.many):
            part = slice(first, first + self.many)
            tensors = weights[part], gradients[part], means[part], variances[part]
            settings = dict(shared, lrs=[rate] * len(tensors[0]), etas=etas[part], wds=decays[part])
            mx.nd.contrib.multi_adamw_update(*tensors, scale, out=tensors[0], **settings)


def norm(arrays):
    """Of all arrays together, on their device."""
    if arrays[0].context.device_type == "gpu":
        return mx.nd.multi_sum_sq(*arrays, num_arrays=len(arrays)).sum().sqrt()
    # On a CPU that operator adds float32 one by one, and is 5 % off for the largest; so would a
    # single dot product of that one be, by 3e-4.
    parts = [array[row : row + 1024] for array in arrays for row in range(0, len(array), 1024)]
    flat = [part.reshape((-1,)) for part in parts]
    return mx.nd.add_n(*[mx.nd.dot(part, part) for part in flat]).sqrt()


def optimizer(run, network):
    adam = AdamW(
        clip_norm=facts.CLIP_NORM if run.dimensions["clip"] else None,
        many=45 if run.cuda else 1,  # on a CPU one by one takes 10 % less time
        learning_rate=facts.learning_rate(run.global_batch_size),
        wd=facts.WEIGHT_DECAY,
    )
    return framework.trainer(run, network, adam)


def put(run, *batch):
    """A text.Batch -> arrays: int32, and what is multiplied in the model's type.

    For positions come rows of (tokens x batch, width); AMP breaks the `arange` of a graph.
    """
    batch = Batch(*batch)
    rows = batch.positions * len(batch.tokens) + np.arange(len(batch.tokens))[:, None]
    dtype = "float64" if run.float64 else "float32"
    multiplied = ("mask", "predicted")
    return [
        framework.put(run, array, dtype if name in multiplied else "int32")
        for name, array in batch._replace(positions=rows)._asdict().items()
    ]


def training(run):
    network = model(run)
    trainer = optimizer(run, network)
    return framework.train(
        run,
        network,
        loss,
        trainer,
        weights(run, network),
        put,
        inputs=len(Batch._fields),
        parity={
            "attention": attention(run),
            "optimizer": "AdamW, fused, %d tensors an operator" % trainer.optimizer.many,
            "clip": "global norm" if run.dimensions["clip"] else "none",
        },
    )


def attention(run):
    return "batch_dot" if run.float64 else "interleaved_matmul_selfatt"


def inference(run):
    network = model(run, Encoder)
    return answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        put,
        inputs=3,
        parity={"attention": attention(run)},
    )


def outputs(run, network):
    return network
