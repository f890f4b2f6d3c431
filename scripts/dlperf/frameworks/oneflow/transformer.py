"""Layers of an encoder (BERT, Devlin et al. 2018) and of a decoder (GPT-2, Radford et al. 2019).

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
from dlperf.frameworks.oneflow import parallel
from dlperf.frameworks.oneflow import training as framework
from dlperf.frameworks.oneflow.adamw import AdamW


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

    def attend(self, x, mask):
        """x (batch, tokens, width), mask (batch, 1, 1, tokens) or (tokens, tokens) of 0 and 1."""
        batch, tokens, width = x.shape
        query, key, value = self.divided(self.qkv(x))
        scale = (width // self.heads) ** -0.5
        dropped = self.attention_dropout if self.training else 0.0
        if self.fused:
            scores = flow._C.matmul(query, key, transpose_b=True)
            shares = self.fused_shares(scores, mask, scale, dropped)
        else:
            scores = flow._C.matmul(query, key, transpose_b=True, alpha=scale)
            shares = flow.softmax(scores.masked_fill(mask == 0, float("-inf")), -1)
            shares = F.dropout(shares, dropped, self.training)
        mixed = flow.matmul(shares, value).transpose(1, 2).reshape(batch, tokens, width)
        return self.projection(mixed)

    def divided(self, qkv):
        """Query, key and value, each (batch, heads, tokens, head width)."""
        qkv = qkv.view(*qkv.shape[:2], 3 * self.heads, -1)
        return qkv.transpose(1, 2).contiguous().chunk(3, 1)

    def fused_shares(self, scores, mask, scale, dropped):
        # a share of exp(-10000) is 0, as OneFlow's own BERT has it
        seen = (mask != 0).expand_as(scores)
        return flow._C.fused_scale_mask_softmax_dropout(
            scores, seen, fill_value=-10000.0, scale=scale, p=dropped
        )[0]

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)

    def forward(self, x, mask):
        x = self.norm1(x + self.drop(self.attend(x, mask)))
        return self.norm2(x + self.drop(self.ffn2(F.gelu(self.ffn1(x)))))


class DecoderLayer(Layer):
    """Causal attention, then two dense layers; each normalises its input.

    A tensor group divides heads and the inner layer; then query, key and value of a head follow
    each other.
    """

    def __init__(self, run, facts, width, heads):
        super().__init__(facts, width, heads, 4 * width, run.cuda)
        self.split = parallel.is_split(run)
        self.enter, self.leave = parallel.enter(run), parallel.leave(run)

    def divided(self, qkv):
        if not self.split:
            return Layer.divided(self, qkv)  # in nn.Graph, self is not of this class
        return qkv.view(*qkv.shape[:2], self.heads, -1).transpose(1, 2).chunk(3, -1)

    def fused_shares(self, scores, mask, scale, dropped):
        return flow._C.fused_scale_tril_softmax_mask_scale(
            scores, p=dropped, diagonal=0, tril_scale_value=scale, tril_fill_value=-10000.0
        )[0]

    def forward(self, x, mask):
        x = x + self.drop(self.leave(self.attend(self.enter(self.norm1(x)), mask)))
        inner = F.gelu(self.ffn1(self.enter(self.norm2(x))), approximate="tanh")
        return x + self.drop(self.leave(self.ffn2(inner)))


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


def adamw(run, network, facts, clip_norm):
    """AdamW with the constants of a workload's facts, after a clip by global norm if there is one.

    A graph clips each group for itself, and has one.
    """
    groups = framework.by_decay(network, facts.WEIGHT_DECAY)
    if run.compiler == "graph":
        parameters = [p for group in groups for p in group["params"]]
        groups = [{"params": parameters, "weight_decay": facts.WEIGHT_DECAY}]
        if clip_norm:
            groups[0].update(clip_grad_max_norm=clip_norm, clip_grad_norm_type=2.0)
    fused = multi_tensor(run)
    adam = AdamW(facts, groups, facts.learning_rate(run.global_batch_size), clip_norm, fused)
    if run.mesh.pipeline > 1:
        parameters = [each for group in groups for each in group["params"]]
        adam.clip = parallel.clip_over_stages(network, parameters)
    return adam


def multi_tensor(run):
    """Whether one kernel updates many weights in eager mode; not those that are divided."""
    return run.cuda and run.compiler == "none" and not parallel.is_split(run)


def adamw_of(run, clipped=True):
    """What a case's record says of its optimizer."""
    fused = multi_tensor(run) or run.compiler == "graph"
    clip = "global norm, " + ("in the graph" if run.compiler == "graph" else "by tensor")
    return {"optimizer": "AdamW, fused" if fused else "AdamW", "clip": clip if clipped else "none"}


def example(run, empty):
    """empty(batch size, sequence length): arrays of a batch."""
    return empty(run.batch_size, run.dimensions["sequence_length"])


def train(run, network, loss, optimizer, weights, empty, parity, **more):
    """training.train; parity: what records say beside the attention."""
    parity = dict({"attention": attention_of(run)}, **parity)
    own = (loss, optimizer, weights, framework.put, example(run, empty))
    return framework.train(run, network, *own, parity=parity, **more)


def infer(run, network, outputs, weights, empty, attention=None):
    own = (outputs, weights, framework.put, example(run, empty))
    return answers.infer(run, network, *own, parity={"attention": attention or attention_of(run)})
