"""GPT pre-training in PaddlePaddle.

The decoder of frameworks/paddlepaddle/transformer.py, the head by the word embedding, AdamW in one
kernel a tensor, the clip in place. On the CPU: to_static without oneDNN. On the GPU, which this has
not run on: level O2 (narrow weights, fp32 master weights) under AMP, with fp32 gradients for the
clip's norm, and the causal flash attention.
"""

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.frameworks.paddlepaddle import transformer
from dlperf.frameworks.paddlepaddle.transformer import (
    DecoderLayer,
    causal_bias,
    embedding,
    layer_norm,
    loss,
    products,
)
from dlperf.workloads.encoders.layers import canonical
from dlperf.workloads.gpt import facts
from dlperf.workloads.gpt.input import empty


class GPT(nn.Layer):
    """The mean cross-entropy of all next tokens of a batch."""

    def __init__(self, run):
        super().__init__()
        self.fused = run.amp
        width, heads = run.dimensions["width"], run.dimensions["heads"]
        self.word_embedding = embedding(facts.VOCABULARY, width)
        self.position_embedding = embedding(run.dimensions["sequence_length"], width)
        self.dropout = nn.Dropout(facts.DROPOUT)
        layers = range(run.dimensions["layers"])
        self.layers = nn.LayerList([DecoderLayer(facts, width, heads, self.fused) for _ in layers])
        self.norm = layer_norm(facts, width)

    def hidden(self, tokens):
        """(batch, tokens) -> (batch, tokens, width), behind the last norm."""
        count = tokens.shape[1]
        x = self.word_embedding(tokens) + self.position_embedding(paddle.arange(count))
        x = self.dropout(x)
        bias = None if self.fused else causal_bias(count, x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return self.norm(x)

    def head(self, x):
        return paddle.matmul(x, self.word_embedding.weight, transpose_y=True)

    def forward(self, tokens, labels):
        scores = self.head(self.hidden(tokens)).flatten(0, 1)
        return F.cross_entropy(scores, labels.reshape([-1, 1]))


class Next(nn.Layer):
    """Scores of the token that follows each sequence."""

    def __init__(self, gpt):
        super().__init__()
        self.gpt = gpt

    def forward(self, tokens):
        return self.gpt.head(self.gpt.hidden(tokens)[:, -1])


def model(run):
    network = GPT(run)
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


def optimizer(run, network):
    return transformer.adamw(run, network.parameters(), facts, facts.CLIP_NORM)


def attention(run):
    return transformer.attention_of(run) + ", causal"


def training(run):
    products(run)
    network = model(run)
    parity = {"attention": attention(run), "optimizer": "AdamW", "clip": "global norm"}
    own = (optimizer(run, network), weights(run, network), empty, parity)
    return transformer.train(run, network, loss, *own)


def inference(run):
    network = model(run)
    network.eval()
    spec = transformer.spec(run, empty)[:1]
    own = (outputs, weights(run, network), spec)
    return transformer.infer(run, network, *own, attention(run))


def outputs(run, network):
    return Next(network)
