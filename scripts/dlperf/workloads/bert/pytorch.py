"""BERT-Base pre-training in PyTorch.

As fast as it gets: the encoder of frameworks/pytorch/transformer.py, the decoder at predicted
positions only, a fused AdamW.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.frameworks.pytorch import parallel, transformer
from dlperf.frameworks.pytorch import training as framework
from dlperf.frameworks.pytorch.transformer import (
    CLIP,
    PLAN,
    Embedded,
    attention_bias,
    dense,
    encoded,
    layer_norm,
    layers,
    loss,
)
from dlperf.workloads.bert import facts
from dlperf.workloads.encoders.layers import canonical


class Bert(Embedded):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, padding=0, apart=None):
        super().__init__(facts)
        self.padding = padding  # columns behind the vocabulary in the decoder's product
        self.layers = layers(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH, apart)
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm(facts, facts.WIDTH)
        self.mlm_bias = nn.Parameter(torch.zeros(facts.VOCABULARY))
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        x = self.embed(tokens, segments)
        return encoded(self.layers, x, attention_bias(mask, x.dtype))

    def words(self, x, positions):
        """What the language model's softmax takes at these positions."""
        index = positions[:, :, None].expand(-1, -1, facts.WIDTH)
        hidden = self.mlm_norm(F.gelu(self.mlm(x.gather(1, index))))
        table, bias = self.word_embedding.weight, self.mlm_bias
        if self.padding:
            table = F.pad(table, (0, 0, 0, self.padding))
            bias = F.pad(bias, (0, self.padding), value=facts.PADDING_SCORE)
        return F.linear(hidden, table, bias)

    def forward(self, tokens, segments, mask, positions, labels, predicted, follows):
        x = self.encode(tokens, segments, mask)
        words = self.words(x, positions)
        each = F.cross_entropy(words.flatten(0, 1), labels.flatten(), reduction="none")
        predicted = predicted.flatten()
        language = (each * predicted).sum() / predicted.sum()
        pairs = self.nsp(torch.tanh(self.pooler(x[:, 0])))
        return language + F.cross_entropy(pairs, follows)


def model(run):
    network = Bert(facts.padding(run.dimensions), parallel.Apart(run)).to(run.device).train()
    names = ("layers.%d.%s" % (layer, name) for layer in range(facts.LAYERS) for name in PLAN)
    parallel.divide(run, network, {name: PLAN[name.split(".")[-1]] for name in names})
    parallel.compile_layers(run, network.layers)
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {canonical(own): parameter for own, parameter in network.named_parameters()}
    return framework.Weights(run, named, parts=parallel.parts(run))


def optimizer(run, network):
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    return framework.adamw(run, network, weights(run, network), facts, clip_norm)


def training(run):
    network = model(run)
    parity = {
        "optimizer": "AdamW, fused",
        "clip": CLIP if run.dimensions["clip"] else "none",
        "padded_columns": facts.padding(run.dimensions),
    }
    own = (loss, optimizer(run, network), weights(run, network), parity)
    return transformer.train(run, network, *own, schedule=facts.schedule(run), outputs=tested)


def inference(run):
    network = model(run).eval()
    return transformer.infer(run, network, outputs, weights(run, network))


def outputs(run, network, tokens, segments, mask, *_):
    return network.encode(tokens, segments, mask)


def tested(run, network, tokens, segments, mask, positions, *_):
    """In the quality scenario: what the masked words' softmax takes."""
    return network.words(network.encode(tokens, segments, mask), positions)
