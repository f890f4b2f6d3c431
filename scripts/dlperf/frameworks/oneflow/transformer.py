"""The encoder of BERT (Devlin et al. 2018) in OneFlow: embeddings and layers.

One product for query, key and value; on the CPU a layer norm of products. `fused` is for the GPU,
which this has not run on: one kernel each for layer norm and for attention's scale, mask, softmax
and dropout. `facts` below are those of a workload: sizes, epsilon and dropout are read when a model
is made.

F.dropout, not nn.Dropout, each of which starts from the same seed. In a graph all do, so that
layers and ranks drop the same elements; in number they are right.
"""

import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.frameworks.oneflow import inference as answers
from dlperf.frameworks.oneflow import training as framework


def attention_of(run):
    """What a case's record says of its attention."""
    return "products, fused softmax" if run.cuda else "products, softmax"


class Embedding(framework.Undrawn, nn.Embedding):
    pass


class LayerNorm(nn.LayerNorm):
    """nn.LayerNorm for a CPU, where it has no kernel of its own.

    It subtracts a number a row, which OneFlow's oneDNN leaves to slow reference code. Here sums of
    rows, and numbers along rows, are matrix products with ones: 15 times as fast.
    """

    def __init__(self, width, eps):
        super().__init__(width, eps=eps)
        self.width = width
        self.register_buffer("ones", flow.ones(width, 1))

    def forward(self, x):
        x = x - self.along(flow.matmul(x, self.ones) / self.width)
        variance = flow.matmul(x * x, self.ones) / self.width
        return x * self.along((variance + self.eps).rsqrt()) * self.weight + self.bias

    def along(self, numbers):
        return flow._C.matmul(numbers, self.ones, transpose_b=True)


def layer_norm(facts, width, fused):
    kind = nn.LayerNorm if fused else LayerNorm
    return kind(width, eps=facts.LAYER_NORM_EPSILON)


class Layer(nn.Module):
    """Attention, then two dense layers; each normalises after its sum."""

    def __init__(self, facts, width, heads, inner_width, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv = framework.Linear(width, 3 * width)
        self.projection = framework.Linear(width, width)
        self.norm1 = layer_norm(facts, width, fused)
        self.ffn1 = framework.Linear(width, inner_width)
        self.ffn2 = framework.Linear(inner_width, width)
        self.norm2 = layer_norm(facts, width, fused)
        self.dropout, self.attention_dropout = facts.DROPOUT, facts.ATTENTION_DROPOUT

    def forward(self, x, mask):
        """x (batch, tokens, width), mask (batch, 1, 1, tokens) of 0 and 1."""
        batch, tokens, width = x.shape
        dropped = self.attention_dropout if self.training else 0.0
        qkv = self.qkv(x).view(batch, tokens, 3 * self.heads, width // self.heads)
        query, key, value = qkv.transpose(1, 2).contiguous().chunk(3, 1)
        scale = (width // self.heads) ** -0.5
        if self.fused:
            scores = flow._C.matmul(query, key, transpose_b=True)
            # a share of exp(-10000) is 0, as OneFlow's own BERT has it
            seen = (mask != 0).expand_as(scores)
            shares = flow._C.fused_scale_mask_softmax_dropout(
                scores, seen, fill_value=-10000.0, scale=scale, p=dropped
            )[0]
        else:
            scores = flow._C.matmul(query, key, transpose_b=True, alpha=scale)
            shares = flow.softmax(scores.masked_fill(mask == 0, float("-inf")), -1)
            shares = F.dropout(shares, dropped, self.training)
        mixed = flow.matmul(shares, value).transpose(1, 2).reshape(batch, tokens, width)
        x = self.norm1(x + F.dropout(self.projection(mixed), self.dropout, self.training))
        inner = self.ffn2(F.gelu(self.ffn1(x)))
        return self.norm2(x + F.dropout(inner, self.dropout, self.training))


def layers(facts, width, heads, inner_width, fused):
    sizes = (width, heads, inner_width, fused)
    return nn.ModuleList([Layer(facts, *sizes) for _ in range(facts.LAYERS)])


class Embedded(nn.Module):
    """A model's base, with its embeddings: of words, positions and segments."""

    def __init__(self, facts, fused):
        super().__init__()
        self.word_embedding = Embedding(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = Embedding(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = Embedding(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = layer_norm(facts, facts.WIDTH, fused)
        self.dropout = facts.DROPOUT

    def embed(self, tokens, segments):
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding.weight[: tokens.shape[1]]
        return F.dropout(self.embedding_norm(x), self.dropout, self.training)

    def words(self, hidden, bias):
        """Scores of all words, by the same table."""
        return flow._C.matmul(hidden, self.word_embedding.weight, transpose_b=True) + bias


def encoded(layers, x, mask):
    """What these layers make of x; mask (batch, tokens)."""
    mask = mask.unsqueeze(1).unsqueeze(1)
    for layer in layers:
        x = layer(x, mask)
    return x


def loss(run, network, *batch):
    """Of a network that gives its loss."""
    return network(*batch)


def example(run, empty):
    """empty(batch size, sequence length): arrays of a batch."""
    return empty(run.batch_size, run.dimensions["sequence_length"])


def train(run, network, loss, optimizer, weights, empty, parity, **more):
    """training.train; parity: what records say beside the attention."""
    parity = dict({"attention": attention_of(run)}, **parity)
    own = (loss, optimizer, weights, framework.put, example(run, empty))
    return framework.train(run, network, *own, parity=parity, **more)


def infer(run, network, outputs, weights, empty):
    own = (outputs, weights, framework.put, example(run, empty))
    return answers.infer(run, network, *own, parity={"attention": attention_of(run)})
