"""GPT pre-training in PaddlePaddle.

The decoder of frameworks/paddlepaddle/transformer.py, the head by the word embedding, AdamW in one
kernel a tensor, the clip in place. A rank has the layers of its stage; a tensor group divides them,
the embedding and the head by frameworks/paddlepaddle/parallel.py, in which layers are compiled one
by one. On the CPU: to_static without oneDNN. On the GPU, which this has
not run on: level O2 (narrow weights, fp32 master weights) under AMP, with fp32 gradients for the
clip's norm, and the causal flash attention.
"""

import paddle
from paddle import nn

from dlperf.frameworks.paddlepaddle import parallel, transformer
from dlperf.frameworks.paddlepaddle import training as framework
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
    """A stage of the model; of one stage, the mean cross-entropy of all next tokens of a batch."""

    def __init__(self, run):
        super().__init__()
        self.fused = run.amp
        width, grid, stage = run.dimensions["width"], run.mesh, run.coordinates.pipeline
        self.group = parallel.TensorGroup(run)
        is_first, is_last = stage == 0, stage == grid.pipeline - 1
        if is_first or is_last:  # the head is the word embedding
            self.word_embedding = embedding(facts.VOCABULARY // grid.tensor, width)
        if is_first:
            self.position_embedding = embedding(run.dimensions["sequence_length"], width)
            self.dropout = nn.Dropout(facts.DROPOUT)
        numbers = facts.layers_of_stage(run.dimensions, stage, grid.pipeline)
        self.layers = nn.LayerDict({str(number): self.layer(run, width) for number in numbers})
        if is_last:
            self.norm = layer_norm(facts, width)

    def layer(self, run, width):
        heads = run.dimensions["heads"]
        if parallel.is_split(run):
            return parallel.DecoderLayer(run, facts, width, heads, self.group)
        return DecoderLayer(facts, width, heads, self.fused)

    def enter(self, tokens):
        """(batch, tokens) -> (batch, tokens, width), before the first layer."""
        x = self.group.looked_up(self.word_embedding, tokens)
        return self.dropout(x + self.position_embedding(paddle.arange(tokens.shape[1])))

    def bias(self, x):
        return None if self.fused else causal_bias(x.shape[1], x.dtype)

    def decode(self, x):
        bias = self.bias(x)
        for layer in self.layers.values():
            x = layer(x, bias)
        return x

    def hidden(self, tokens):
        """(batch, tokens) -> (batch, tokens, width), behind the last norm."""
        return self.norm(self.decode(self.enter(tokens)))

    def head(self, x):
        x = self.group.enter(x)
        return paddle.matmul(x, self.word_embedding.weight, transpose_y=True)

    def loss(self, x, labels):
        """The mean cross-entropy, of what the last layer gives."""
        scores = self.head(self.norm(x)).flatten(0, 1)
        return self.group.cross_entropy(scores, labels.reshape([-1, 1]))

    def forward(self, tokens, labels):
        return self.loss(self.decode(self.enter(tokens)), labels)


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
    named = {canonical(own): parameter for own, parameter in network.named_parameters()}
    return (parallel if parallel.is_split(run) else framework).Weights(run, named)


def optimizer(run, network):
    own = (run, network.parameters(), facts, facts.CLIP_NORM)
    if not parallel.is_split(run):
        return transformer.adamw(*own)
    return transformer.adamw(*own, clip=parallel.clip(run, weights(run, network).named))


def attention(run):
    return transformer.attention_of(run) + ", causal"


def training(run):
    products(run)
    network = model(run)
    parity = {"attention": attention(run), "optimizer": "AdamW", "clip": "global norm"}
    own = (optimizer(run, network), weights(run, network))
    if parallel.is_split(run):
        return parallel.train(run, network, *own, framework.put, parity)
    return transformer.train(run, network, loss, *own, empty, parity)


def inference(run):
    network = model(run)
    network.eval()
    spec = transformer.spec(run, empty)[:1]
    own = (outputs, weights(run, network), spec)
    return transformer.infer(run, network, *own, attention(run))


def outputs(run, network):
    return Next(network)
