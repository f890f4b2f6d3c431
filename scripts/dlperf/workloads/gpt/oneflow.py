"""GPT pre-training in OneFlow.

The decoder of frameworks/oneflow/transformer.py, the head by the word embedding; on the CPU eager
with an own clip. On the GPU, which this has not run on, nn.Graph with updates and additions fused,
and in eager mode a multi-tensor AdamW. A tensor group divides layers, embedding and head, a stage
has layers of its own, by frameworks/oneflow/parallel.py.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.frameworks.oneflow import parallel, transformer
from dlperf.frameworks.oneflow import training as framework
from dlperf.frameworks.oneflow.transformer import DecoderLayer, Embedding, layer_norm
from dlperf.workloads.encoders.layers import canonical
from dlperf.workloads.gpt import facts
from dlperf.workloads.gpt.input import empty


class GPT(nn.Module):
    """Scores of the token behind each one."""

    def __init__(self, run):
        super().__init__()
        width, tokens = run.dimensions["width"], run.dimensions["sequence_length"]
        self.word_embedding = Embedding(facts.VOCABULARY, width)
        self.position_embedding = Embedding(tokens, width)
        self.dropout = facts.DROPOUT
        sizes, layers = (width, run.dimensions["heads"]), range(run.dimensions["layers"])
        self.layers = nn.ModuleList([DecoderLayer(run, facts, *sizes) for _ in layers])
        self.norm = layer_norm(facts, width, run.cuda)
        stages, self.run = run.mesh.pipeline, run
        self.masks = nn.ModuleList([parallel.Mask(stage, tokens) for stage in range(stages)])
        if stages > 1:
            self.tied = parallel.Tied(stages - 1, facts.VOCABULARY, width)
        self.enter, self.leave = parallel.enter(run), parallel.leave(run)

    def hidden(self, tokens):
        """(batch, tokens) -> (batch, tokens, width), behind the last norm."""
        count = tokens.shape[1]
        x = self.leave(self.word_embedding(tokens)) + self.position_embedding.weight[:count]
        x = F.dropout(x, self.dropout, self.training)
        for stage, mask in enumerate(self.masks):
            x = parallel.at_stage(self.run, stage, x) if stage else x
            for number in facts.layers_of_stage(self.run.dimensions, stage, len(self.masks)):
                x = self.layers[number](x, mask.seen)
        return self.norm(x)

    def head(self, x):
        table = self.word_embedding if len(self.masks) == 1 else self.tied
        return flow._C.matmul(self.enter(x), table.weight, transpose_b=True)

    def forward(self, tokens):
        return self.head(self.hidden(tokens))


def model(run):
    return framework.place(run, GPT(run), name_of)


def name_of(own):
    """The name of facts.parameters of the network's own one."""
    return "word_embedding" if own == "tied.weight" else canonical(own)


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = parallel.placed_here(run, network.named_parameters())
    named = {name_of(own): parameter for own, parameter in named}
    split = parallel.Split(run) if parallel.is_split(run) else None
    return framework.Weights(run, named, split=split)


def loss(run, network, tokens, labels):
    """The mean cross-entropy of all next tokens."""
    # A tensor group's scores are gathered for it. OneFlow's operator for divided ones takes several
    # times the whole step on a CPU, and its loss is float32 in float64 too.
    return F.cross_entropy(network(tokens).flatten(0, 1), labels.flatten())


def optimizer(run, network):
    return transformer.adamw(run, network, facts, facts.CLIP_NORM)


def attention(run):
    said = transformer.attention_of(run) + ", causal"
    # its random numbers are those of the whole grid: other heads on each rank, the same mask
    return said + ", one dropout mask for a tensor group" * parallel.is_split(run)


def training(run):
    network = model(run)
    parity = dict(transformer.adamw_of(run), attention=attention(run))
    own = (loss, optimizer(run, network), weights(run, network), empty, parity)
    return transformer.train(run, network, *own)


def inference(run):
    network = model(run).eval()
    own = (outputs, weights(run, network), empty)
    return transformer.infer(run, network, *own, attention(run))


def outputs(run, network, tokens, labels):
    """Scores of the token that follows each sequence."""
    return network.head(network.hidden(tokens)[:, -1])
