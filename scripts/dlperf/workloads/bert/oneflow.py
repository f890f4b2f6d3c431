"""BERT-Base pre-training in OneFlow.

As fast as it gets: the encoder of frameworks/oneflow/transformer.py, the decoder at predicted
positions only, nn.Graph with updates and additions fused; on the CPU eager with an own clip. On the
GPU, which this has not run on, in eager mode a multi-tensor AdamW.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.frameworks.oneflow import training as framework
from dlperf.frameworks.oneflow import transformer
from dlperf.frameworks.oneflow.transformer import (
    Embedded,
    encoded,
    layer_norm,
    layers,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.bert.input import empty
from dlperf.workloads.encoders.layers import canonical


class Bert(Embedded):
    """Scores of words at predicted positions, and of sentence pairs."""

    def __init__(self, fused=False, padding=0):
        super().__init__(facts, fused)
        self.padding = padding  # columns behind the vocabulary in the decoder's product
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH, fused)
        self.mlm = framework.Linear(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm(facts, facts.WIDTH, fused)
        self.mlm_bias = nn.Parameter(flow.zeros(facts.VOCABULARY))
        self.pooler = framework.Linear(facts.WIDTH, facts.WIDTH)
        self.nsp = framework.Linear(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        return encoded(self.layers, self.embed(tokens, segments), mask)

    def forward(self, tokens, segments, mask, positions):
        x = self.encode(tokens, segments, mask)
        hidden = self.mlm_norm(F.gelu(self.mlm(flow._C.batch_gather(x, positions))))
        table, bias = self.word_embedding.weight, self.mlm_bias
        if self.padding:
            table = F.pad(table, (0, 0, 0, self.padding))
            bias = F.pad(bias, (0, self.padding), value=facts.PADDING_SCORE)
        words = flow._C.matmul(hidden, table, transpose_b=True)
        return words + bias, self.nsp(flow.tanh(self.pooler(x[:, 0])))


def model(run):
    return framework.place(run, Bert(run.cuda, facts.padding(run.dimensions)))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = network.named_parameters()
    return framework.Weights(run, {canonical(own): parameter for own, parameter in named})


def loss(run, network, tokens, segments, mask, positions, labels, predicted, follows):
    """Masked words and sentence pairs; of a batch of several ranks, the mean over ranks."""
    words, pairs = network(tokens, segments, mask, positions)
    each = F.cross_entropy(words.flatten(0, 1), labels.flatten(), reduction="none")
    # a row a rank: each divides by its own number of predictions
    rows = run.ranks if run.compiler == "graph" else 1
    each, predicted = each.reshape(rows, -1), predicted.reshape(rows, -1)
    language = (each * predicted).sum(1) / predicted.sum(1)
    return language.mean() + F.cross_entropy(pairs, follows)


def optimizer(run, network):
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    return transformer.adamw(run, network, facts, clip_norm)


def training(run):
    network = model(run)
    parity = dict(
        transformer.adamw_of(run, run.dimensions["clip"]),
        padded_columns=facts.padding(run.dimensions),
    )
    own = (loss, optimizer(run, network), weights(run, network), empty, parity)
    return transformer.train(run, network, *own, schedule=facts.schedule(run), outputs=tested)


def inference(run):
    network = model(run).eval()
    return transformer.infer(run, network, outputs, weights(run, network), empty)


def outputs(run, network, tokens, segments, mask, *_):
    return network.encode(tokens, segments, mask)


def tested(run, network, tokens, segments, mask, positions, *_):
    """In the quality scenario: what the masked words' softmax takes."""
    words, _ = network(tokens, segments, mask, positions)
    return words
