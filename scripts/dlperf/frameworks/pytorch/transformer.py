"""Layers of an encoder (BERT, Devlin et al. 2018) and of a decoder (GPT-2, Radford et al. 2019).

As fast as it gets: one product for query, key and value, and `scaled_dot_product_attention`.
`facts` below are those of a workload: sizes, epsilon and dropout are read when a model is made.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.nn.attention import SDPBackend

from dlperf.frameworks import half
from dlperf.frameworks.pytorch import inference as answers
from dlperf.frameworks.pytorch import training as framework
from dlperf.frameworks.pytorch.parallel import Apart

#: What records call torch's backends of scaled_dot_product_attention.
KERNELS = {
    "MATH": "separate kernels",
    "FLASH_ATTENTION": "flash",
    "EFFICIENT_ATTENTION": "memory-efficient",
    "CUDNN_ATTENTION": "cuDNN",
}
CLIP = "global norm, foreach"


def call(function, *values, **settings):
    """Without random numbers of its own: as Apart does where nothing is divided."""
    return function(*values, **settings)


def dense(inputs, outputs):
    return nn.utils.skip_init(nn.Linear, inputs, outputs)  # the stopwatch writes all weights


def layer_norm(facts, width):
    return nn.LayerNorm(width, eps=facts.LAYER_NORM_EPSILON)


def embedding(entries, width):
    return nn.utils.skip_init(nn.Embedding, entries, width)


class Layer(nn.Module):
    """Attention, then two dense layers; each normalises after its sum.

    apart: what calls attention, which drops shares, where tensor parallel divides heads (PLAN).
    """

    def __init__(self, facts, width, heads, inner_width, apart=None):
        super().__init__()
        self.head_width = width // heads
        self.qkv = dense(width, 3 * width)
        self.projection = dense(width, width)
        self.norm1 = layer_norm(facts, width)
        self.ffn1 = dense(width, inner_width)
        self.ffn2 = dense(inner_width, width)
        self.norm2 = layer_norm(facts, width)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.attention_dropout = facts.ATTENTION_DROPOUT
        self.apart = apart or call

    def forward(self, x, bias):
        qkv = self.qkv(x).unflatten(-1, (3, -1, self.head_width))
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        dropped = self.attention_dropout if self.training else 0.0
        attend = F.scaled_dot_product_attention
        mixed = self.apart(attend, query, key, value, attn_mask=bias, dropout_p=dropped)
        mixed = self.projection(mixed.transpose(1, 2).flatten(2))
        x = self.norm1(x + self.dropout(mixed))
        inner = self.ffn2(F.gelu(self.ffn1(x)))
        return self.norm2(x + self.dropout(inner))


def layers(facts, width, heads, inner_width, apart=None):
    sizes = (width, heads, inner_width, apart)
    return nn.ModuleList(Layer(facts, *sizes) for _ in range(facts.LAYERS))


class Embedded(nn.Module):
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
        x = x + self.position_embedding.weight[: tokens.shape[1]]
        return self.dropout(self.embedding_norm(x))


def encoded(layers, x, bias):
    """What these layers make of x; bias: of attention_bias."""
    for layer in layers:
        x = layer(x, bias)
    return x


class DecoderLayer(nn.Module):
    """Causal attention, then two dense layers; each normalises its input.

    Tensor parallel divides heads and the inner layer: PLAN. Of a rank's own query, key
    and value each stands in one piece.
    """

    def __init__(self, run, facts, width, heads):
        super().__init__()
        self.head_width = width // heads
        self.norm1 = layer_norm(facts, width)
        self.qkv = dense(width, 3 * width)
        self.projection = dense(width, width)
        self.norm2 = layer_norm(facts, width)
        self.ffn1 = dense(width, 4 * width)
        self.ffn2 = dense(4 * width, width)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.attention_dropout, self.apart = facts.ATTENTION_DROPOUT, Apart(run)

    def forward(self, x):
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (3, -1, self.head_width))
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        dropped = self.attention_dropout if self.training else 0.0
        attend = F.scaled_dot_product_attention
        mixed = self.apart(attend, query, key, value, dropout_p=dropped, is_causal=True)
        x = x + self.dropout(self.projection(mixed.transpose(1, 2).flatten(2)))
        inner = self.ffn2(F.gelu(self.ffn1(self.norm2(x)), approximate="tanh"))
        return x + self.dropout(inner)


#: How tensor parallel divides a layer, as in Megatron-LM (Shoeybi et al. 2019, section 3).
PLAN = {
    "qkv": ColwiseParallel(),
    "projection": RowwiseParallel(),
    "ffn1": ColwiseParallel(),
    "ffn2": RowwiseParallel(),
}


def attention_bias(mask, dtype):
    """mask (batch, tokens) of 0 and 1 -> what attention adds to its scores."""
    bias = torch.zeros_like(mask, dtype=dtype).masked_fill(mask == 0, -torch.inf)
    return bias[:, None, None, :]


def loss(run, network, *batch):
    """Of a network that gives its loss."""
    return network(*batch)


def attention(run, heads, width, dropout, training, causal):
    """What records say of attention: torch chooses a kernel by types, sizes, mask and dropout.

    heads: of this rank, each `width` wide. causal: without another mask.
    """
    tokens = run.dimensions["sequence_length"]
    dtype = getattr(torch, half(run)) if run.amp else torch.get_default_dtype()
    query = torch.empty((1, heads, tokens, width), dtype=dtype, device=run.device)
    query.requires_grad_(training)
    bias = None if causal else torch.zeros((1, 1, 1, tokens), dtype=dtype, device=run.device)
    settings = {"attn_mask": bias, "is_causal": causal, "dropout_p": dropout if training else 0.0}
    chosen = SDPBackend(torch._fused_sdp_choice(query, query, query, **settings))
    said = "scaled_dot_product_attention" + (", causal" if causal else "")
    return "%s: %s" % (said, KERNELS[chosen.name])


def attention_of(run, network):
    """The same of a network whose layers are those above."""
    layer = next(each for each in network.modules() if isinstance(each, (Layer, DecoderLayer)))
    heads = layer.qkv.out_features // 3 // layer.head_width // run.mesh.tensor
    own = (heads, layer.head_width, layer.attention_dropout, layer.training)
    return attention(run, *own, causal=isinstance(layer, DecoderLayer))


def train(run, network, loss, optimizer, weights, parity, **more):
    """training.train; parity: what records say beside the attention."""
    parity = dict({"attention": attention_of(run, network)}, **parity)
    own = (loss, optimizer, weights, framework.put)
    return framework.train(run, network, *own, parity=parity, **more)


def infer(run, network, outputs, weights):
    own = (outputs, weights, framework.put)
    return answers.infer(run, network, *own, parity={"attention": attention_of(run, network)})
