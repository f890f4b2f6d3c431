"""BERT-Base pre-training in PyTorch.

As fast as it gets: the encoder of frameworks/pytorch/transformer.py, the decoder at predicted
positions only, a fused AdamW.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.frameworks.pytorch import inference as answers
from dlperf.frameworks.pytorch import parallel
from dlperf.frameworks.pytorch import training as framework
from dlperf.frameworks.pytorch.transformer import (
    PLAN,
    Layer,
    attention_bias,
    dense,
    embedding,
    layer_norm,
)
from dlperf.workloads.bert import facts


class Bert(nn.Module):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, padding=0, apart=None):
        super().__init__()
        self.padding = padding  # columns behind the vocabulary in the decoder's product
        self.word_embedding = embedding(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = embedding(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = embedding(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = layer_norm(facts, facts.WIDTH)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.layers = nn.ModuleList(
            Layer(facts, facts.WIDTH, facts.HEADS, facts.INNER_WIDTH, apart)
            for _ in range(facts.LAYERS)
        )
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm(facts, facts.WIDTH)
        self.mlm_bias = nn.Parameter(torch.zeros(facts.VOCABULARY))
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding.weight[: tokens.shape[1]]
        x = self.dropout(self.embedding_norm(x))
        bias = attention_bias(mask, x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return x

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
    layers = ("layers.%d.%s" % (layer, name) for layer in range(facts.LAYERS) for name in PLAN)
    parallel.divide(run, network, {name: PLAN[name.split(".")[-1]] for name in layers})
    parallel.compile_layers(run, network.layers)
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("layers.", "layer")
        named[name.replace("embedding.weight", "embedding")] = parameter
    return framework.Weights(run, named, parts=parallel.parts(run))


def loss(run, network, *batch):
    return network(*batch)


def optimizer(run, network):
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    return framework.adamw(run, network, weights(run, network), facts, clip_norm)


def training(run):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        parity={
            "attention": "scaled_dot_product_attention",
            "optimizer": "AdamW, fused",
            "clip": "global norm, foreach" if run.dimensions["clip"] else "none",
            "padded_columns": facts.padding(run.dimensions),
        },
        schedule=facts.schedule(run),
        outputs=tested,
    )


def inference(run):
    network = model(run).eval()
    own = weights(run, network)
    parity = {"attention": "scaled_dot_product_attention"}
    return answers.infer(run, network, outputs, own, framework.put, parity=parity)


def outputs(run, network, tokens, segments, mask, *_):
    return network.encode(tokens, segments, mask)


def tested(run, network, tokens, segments, mask, positions, *_):
    """Of a training to a quality: what the masked words' softmax takes."""
    return network.words(network.encode(tokens, segments, mask), positions)
