"""GPT pre-training in PyTorch.

As fast as it gets: the decoder of frameworks/pytorch/transformer.py, a fused AdamW. A rank has the
layers of its stage; DTensor divides them, the embedding and the head over a tensor group.
"""

import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.utils.checkpoint import checkpoint

from dlperf.frameworks.pytorch import parallel, transformer
from dlperf.frameworks.pytorch import training as framework
from dlperf.frameworks.pytorch.transformer import (
    CLIP,
    PLAN,
    DecoderLayer,
    embedding,
    layer_norm,
)
from dlperf.workloads.encoders.layers import canonical
from dlperf.workloads.gpt import facts


class GPT(nn.Module):
    """A stage of the model: tokens, or what the stage before it made, -> the same, or scores."""

    def __init__(self, run):
        super().__init__()
        width, grid = run.dimensions["width"], run.mesh
        stage = run.coordinates.pipeline
        self.first, self.last = stage == 0, stage == grid.pipeline - 1
        self.checkpointing = run.layout.activation_checkpointing
        if self.first:
            self.word_embedding = embedding(facts.VOCABULARY, width)
            self.position_embedding = embedding(run.dimensions["sequence_length"], width)
            self.dropout = nn.Dropout(facts.DROPOUT)
        self.layers = nn.ModuleDict(
            {
                str(layer): DecoderLayer(run, facts, width, run.dimensions["heads"])
                for layer in facts.layers_of_stage(run.dimensions, stage, grid.pipeline)
            }
        )
        if self.last:
            self.norm = layer_norm(facts, width)
            self.head = nn.utils.skip_init(nn.Linear, width, facts.VOCABULARY, bias=False)

    def tie(self):
        """The head is the word embedding, where a stage has both."""
        if self.first and self.last:
            self.head.weight = self.word_embedding.weight

    def hidden(self, x):
        if self.first:
            x = self.word_embedding(x) + self.position_embedding.weight[: x.shape[1]]
            x = self.dropout(x)
        for layer in self.layers.values():
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointing else layer(x)
        return self.norm(x) if self.last else x

    def forward(self, x):
        x = self.hidden(x)
        return self.head(x) if self.last else x


def model(run):
    network = GPT(run).to(run.device).train()
    plan = {
        "layers.%s.%s" % (layer, name): how
        for layer in network.layers
        for name, how in PLAN.items()
    }
    if network.first:
        plan["word_embedding"] = RowwiseParallel(input_layouts=Replicate())
    if network.last:  # scores stay divided for the cross-entropy
        plan["head"] = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    parallel.divide(run, network, plan)
    network.tie()  # which parallelize_module unties
    parallel.compile_layers(run, network.layers.values())
    return parallel.shard(run, network, network.layers.values())


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        named["word_embedding" if own == "head.weight" else canonical(own)] = parameter
    return framework.Weights(
        run, named, parts=parallel.parts(run), zero_stage=run.layout.zero_stage
    )


def criterion(run, scores, labels):
    """The mean cross-entropy of all next tokens."""
    return F.cross_entropy(scores.flatten(0, 1), parallel.labels_of(scores, labels.flatten()))


def loss(run, network, tokens, labels):
    return criterion(run, network(tokens), labels)


def optimizer(run, network):
    return framework.adamw(run, network, weights(run, network), facts, clip_norm=facts.CLIP_NORM)


def training(run):
    network = model(run)
    parity = {"optimizer": "AdamW, fused", "clip": CLIP}
    own = (loss, optimizer(run, network), weights(run, network), parity)
    return transformer.train(run, network, *own, criterion=criterion)


def inference(run):
    network = model(run).eval()
    return transformer.infer(run, network, outputs, weights(run, network))


def outputs(run, network, tokens, labels):
    """Scores of the token that follows each sequence."""
    return network.head(network.hidden(tokens)[:, -1])
