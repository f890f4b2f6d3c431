"""Layers of an encoder (BERT, Devlin et al. 2018) and of a decoder (GPT-2, Radford et al. 2019).

One product for query, key and value; under AMP `scaled_dot_product_attention`, whose flash kernels
know the narrow types only, elsewhere plain products. `facts` below are those of a workload: sizes,
epsilon and dropout are read when a model is made.
"""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.frameworks.paddlepaddle import inference as answers
from dlperf.frameworks.paddlepaddle import training as framework


def attention_of(run):
    """What a case's record says of its attention."""
    return "scaled_dot_product_attention" if run.amp else "products and softmax"


def products(run):
    """Choose the CPU's products: Paddle's own.

    Those of oneDNN are several times slower in training (and gradients of a small attention
    differed).
    """
    if not run.cuda:
        paddle.set_flags({"FLAGS_use_onednn": False})


def dense(inputs, outputs):
    return nn.Linear(inputs, outputs, weight_attr=zeros())  # the stopwatch writes all weights


def layer_norm(facts, width):
    return nn.LayerNorm(width, epsilon=facts.LAYER_NORM_EPSILON)


def embedding(entries, width):
    return nn.Embedding(entries, width, weight_attr=zeros())


def zeros():
    return nn.initializer.Constant(0.0)


def attention(query, key, value, attn_mask, dropout_p, is_causal=False):
    """As `scaled_dot_product_attention`, by products: (batch, tokens, heads, head width).

    Its mask says whether it is causal.
    """
    query, key, value = (each.transpose([0, 2, 1, 3]) for each in (query, key, value))
    scores = paddle.matmul(query * query.shape[-1] ** -0.5, key, transpose_y=True)
    shares = F.dropout(F.softmax(scores + attn_mask), dropout_p)
    return paddle.matmul(shares, value).transpose([0, 2, 1, 3])


class Layer(nn.Layer):
    """Attention, then two dense layers; each normalises after its sum.

    ranks: over which its heads and its inner layer are divided; it has those of one.
    """

    def __init__(self, facts, width, heads, inner_width, fused, ranks=1):
        super().__init__()
        self.attention = F.scaled_dot_product_attention if fused else attention
        self.heads, self.head_width = heads // ranks, width // heads
        self.qkv = dense(width, 3 * width // ranks)
        self.projection = dense(width // ranks, width)
        self.norm1 = layer_norm(facts, width)
        self.ffn1 = dense(width, inner_width // ranks)
        self.ffn2 = dense(inner_width // ranks, width)
        self.norm2 = layer_norm(facts, width)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.attention_dropout = facts.ATTENTION_DROPOUT

    def mixed(self, x, bias):
        """Values, mixed by attention: (batch, tokens, width of the heads).

        bias: what attention adds to its scores; None: causal, which the fused one knows.
        """
        batch, tokens, _ = x.shape
        heads = [batch, tokens, self.heads, self.head_width]
        query, key, value = (each.reshape(heads) for each in self.qkv(x).split(3, -1))
        dropped = self.attention_dropout if self.training else 0.0
        mixed = self.attention(query, key, value, bias, dropped, bias is None)
        return mixed.reshape([batch, tokens, self.heads * self.head_width])

    def attend(self, x, bias):
        return self.dropout(self.projection(self.mixed(x, bias)))

    def forward(self, x, bias):
        x = self.norm1(x + self.attend(x, bias))
        return self.norm2(x + self.dropout(self.ffn2(F.gelu(self.ffn1(x)))))


class DecoderLayer(Layer):
    """Causal attention, then two dense layers; each normalises its input.

    bias: of causal_bias, or None where attention is fused.
    """

    def __init__(self, facts, width, heads, fused, ranks=1):
        super().__init__(facts, width, heads, 4 * width, fused, ranks)

    def forward(self, x, bias):
        x = x + self.attend(self.norm1(x), bias)
        inner = F.gelu(self.ffn1(self.norm2(x)), approximate=True)
        return x + self.dropout(self.ffn2(inner))


def layers(facts, width, heads, inner_width, fused):
    sizes = (width, heads, inner_width, fused)
    return nn.LayerList([Layer(facts, *sizes) for _ in range(facts.LAYERS)])


class Embedded(nn.Layer):
    """A model's base, with its embeddings: of words, positions and segments."""

    def __init__(self, facts):
        super().__init__()
        self.word_embedding = embedding(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = embedding(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = embedding(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = layer_norm(facts, facts.WIDTH)
        self.dropout = nn.Dropout(facts.DROPOUT)

    def embed(self, tokens, segments):
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding(paddle.arange(tokens.shape[1]))
        return self.dropout(self.embedding_norm(x))


def encoded(layers, x, mask):
    """What these layers make of x; mask (batch, tokens)."""
    bias = attention_bias(mask, x.dtype)
    for layer in layers:
        x = layer(x, bias)
    return x


def attention_bias(mask, dtype):
    """mask (batch, tokens) of 0 and 1 -> what attention adds to its scores."""
    bias = paddle.zeros_like(mask, dtype=dtype).masked_fill(mask == 0, -math.inf)
    return bias.reshape([mask.shape[0], 1, 1, mask.shape[1]])


def causal_bias(tokens, dtype):
    """(tokens, tokens): what attention adds to its scores, so that none sees a later token."""
    return paddle.triu(paddle.full([tokens, tokens], -math.inf, dtype), 1)


def chosen(x, positions):
    """x (batch, tokens, width) at positions (batch, places) -> (batch x places, width)."""
    batch, length, width = x.shape
    first = paddle.arange(0, batch * length, length, dtype=positions.dtype)
    return x.reshape([batch * length, width]).gather((positions + first.unsqueeze(1)).flatten())


def loss(run, network):
    """Of a network that gives its loss."""
    return network


def adamw(run, parameters, facts, clip_norm, clip=nn.ClipGradByGlobalNorm):
    """AdamW with the constants of a workload's facts, after a clip by global norm if there is one.

    clip(norm): what clips. No groups of parameters: each would be clipped by a norm of its own.
    """
    decayed = {p.name for p in parameters if p.ndim > 1}  # dense weights, embeddings
    return paddle.optimizer.AdamW(
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        parameters=parameters,
        weight_decay=facts.WEIGHT_DECAY,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=clip(clip_norm) if clip_norm else None,
    )


def spec(run, empty):
    """empty(batch size, sequence length): arrays of a batch."""
    batch = empty(run.batch_size, run.dimensions["sequence_length"])
    types = {"f": paddle.get_default_dtype(), "i": "int64"}
    return [paddle.static.InputSpec(each.shape, types[each.dtype.kind]) for each in batch]


def train(run, network, loss, optimizer, weights, empty, parity, **more):
    """training.train; parity: what records say beside the attention."""
    parity = dict({"attention": attention_of(run)}, **parity)
    own = (loss, optimizer, weights, framework.put, spec(run, empty))
    return framework.train(run, network, *own, parity=parity, **more)


def infer(run, network, outputs, weights, spec, attention=None):
    own = (outputs, weights, framework.put, spec)
    return answers.infer(run, network, *own, parity={"attention": attention or attention_of(run)})
