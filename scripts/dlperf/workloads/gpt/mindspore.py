"""GPT pre-training in MindSpore.

As fast as it gets: the decoder of frameworks/mindspore/transformer.py, the head by the word
embedding; the whole step, clip, update and reduction included, in one graph. A tensor group divides
layers, embedding and head by frameworks/mindspore/parallel.py.
"""

import mindspore as ms
from mindspore import nn, ops

from dlperf.frameworks.mindspore import parallel, transformer
from dlperf.frameworks.mindspore import training as framework
from dlperf.frameworks.mindspore.adamw import AdamW
from dlperf.frameworks.mindspore.transformer import (
    ADAMW,
    DecoderLayer,
    causal_bias,
    layer_norm,
    loss,
    mean_cross_entropy,
    prepared,
    zeros,
)
from dlperf.workloads.encoders.layers import canonical
from dlperf.workloads.gpt import facts

ATTENTION = transformer.ATTENTION + ", causal"


class GPT(nn.Cell):
    """The mean cross-entropy of all next tokens of a batch."""

    def __init__(self, run):
        super().__init__()
        width, heads = run.dimensions["width"], run.dimensions["heads"]
        tokens, layers = run.dimensions["sequence_length"], range(run.dimensions["layers"])
        tensors = parallel.tensor_group(run)
        self.word_embedding = zeros(facts.VOCABULARY // tensors.size, width)
        self.position_embedding = zeros(tokens, width)
        self.dropout = nn.Dropout(p=facts.DROPOUT)
        self.layers = nn.CellList([DecoderLayer(facts, width, heads, tensors) for _ in layers])
        self.norm = layer_norm(facts, width)
        self.product = ops.MatMul(transpose_b=True)
        self.bias = causal_bias(tokens)
        self.looked_up, self.enter = parallel.LookedUp(tensors), parallel.enter(tensors)
        self.cross_entropy = mean_cross_entropy(tensors)

    def hidden(self, tokens):
        """(batch, tokens) -> (batch x tokens, width), behind the last norm."""
        x = self.looked_up(self.word_embedding, tokens) + self.position_embedding
        x = self.dropout(x).reshape((-1, x.shape[-1]))
        bias = self.bias.astype(x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return self.norm(x)

    def head(self, x):
        """Scores of all words, or of a rank's own ones."""
        return self.product(self.enter(x), self.word_embedding).astype(ms.float32)

    def construct(self, tokens, labels):
        return self.cross_entropy(self.head(self.hidden(tokens)), labels.reshape(-1))


class Next(GPT):
    """Scores of the token that follows each sequence."""

    def construct(self, tokens, labels):
        return self.head(self.hidden(tokens).reshape((*tokens.shape, -1))[:, -1])


def model(run, kind=GPT):
    return prepared(run, kind(run))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {canonical(own): parameter for own, parameter in network.parameters_and_names()}
    return framework.Weights(named, parts=parallel.parts(run))


def optimizer(run, network):
    rate, parameters = facts.learning_rate(run.global_batch_size), network.trainable_params()
    norm = parallel.norm(run, weights(run, network).named, parameters)
    return AdamW(facts, parameters, rate, facts.CLIP_NORM, norm=norm)


def training(run):
    network = model(run)
    parity = {"attention": ATTENTION, "optimizer": ADAMW, "clip": "global norm"}
    own = (loss, optimizer(run, network), weights(run, network), parity)
    return transformer.train(run, network, *own)


def inference(run):
    network = model(run, Next).set_train(False)
    return transformer.infer(run, network, outputs, weights(run, network), ATTENTION)


def outputs(network, *batch):
    return network(*batch)
