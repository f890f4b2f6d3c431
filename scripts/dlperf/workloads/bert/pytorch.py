"""BERT-Base pre-training in PyTorch.

As fast as it gets: one product for query, key and value, `scaled_dot_product_attention`, the
decoder at predicted positions only, a fused AdamW.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.frameworks.pytorch import inference as answers
from dlperf.frameworks.pytorch import training as framework
from dlperf.workloads.bert import facts


def dense(inputs, outputs):
    return nn.utils.skip_init(nn.Linear, inputs, outputs)  # the stopwatch writes all weights


def embedding(entries):
    return nn.utils.skip_init(nn.Embedding, entries, facts.WIDTH)


def layer_norm():
    return nn.LayerNorm(facts.WIDTH, eps=facts.LAYER_NORM_EPSILON)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = dense(facts.WIDTH, 3 * facts.WIDTH)
        self.projection = dense(facts.WIDTH, facts.WIDTH)
        self.norm1 = layer_norm()
        self.ffn1 = dense(facts.WIDTH, facts.INNER_WIDTH)
        self.ffn2 = dense(facts.INNER_WIDTH, facts.WIDTH)
        self.norm2 = layer_norm()
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.attention_dropout = facts.ATTENTION_DROPOUT

    def forward(self, x, bias):
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, facts.HEADS, facts.HEAD_WIDTH)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        dropped = self.attention_dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropped)
        mixed = self.projection(mixed.transpose(1, 2).reshape(batch, tokens, width))
        x = self.norm1(x + self.dropout(mixed))
        inner = self.ffn2(F.gelu(self.ffn1(x)))
        return self.norm2(x + self.dropout(inner))


class Bert(nn.Module):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self):
        super().__init__()
        self.word_embedding = embedding(facts.VOCABULARY)
        self.position_embedding = embedding(facts.POSITIONS)
        self.segment_embedding = embedding(facts.SEGMENTS)
        self.embedding_norm = layer_norm()
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.layers = nn.ModuleList(Layer() for _ in range(facts.LAYERS))
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm()
        self.mlm_bias = nn.Parameter(torch.zeros(facts.VOCABULARY))
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding.weight[: tokens.shape[1]]
        x = self.dropout(self.embedding_norm(x))
        bias = torch.zeros_like(mask, dtype=x.dtype).masked_fill(mask == 0, -torch.inf)
        bias = bias[:, None, None, :]
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def words(self, x, positions):
        """What the language model's softmax takes at these positions."""
        index = positions[:, :, None].expand(-1, -1, facts.WIDTH)
        hidden = self.mlm_norm(F.gelu(self.mlm(x.gather(1, index))))
        return F.linear(hidden, self.word_embedding.weight, self.mlm_bias)

    def forward(self, tokens, segments, mask, positions, labels, predicted, follows):
        x = self.encode(tokens, segments, mask)
        words = self.words(x, positions)
        each = F.cross_entropy(words.flatten(0, 1), labels.flatten(), reduction="none")
        predicted = predicted.flatten()
        language = (each * predicted).sum() / predicted.sum()
        pairs = self.nsp(torch.tanh(self.pooler(x[:, 0])))
        return language + F.cross_entropy(pairs, follows)


def model(run):
    return Bert().to(run.device).train()


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("layers.", "layer")
        named[name.replace("embedding.weight", "embedding")] = parameter
    return framework.Weights(named)


def loss(run, network, *batch):
    return network(*batch)


def optimizer(run, network):
    adam = torch.optim.AdamW(
        framework.by_decay(network, facts.WEIGHT_DECAY),
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        fused=True,
    )
    if run.dimensions["clip"]:

        def clip(*_):
            nn.utils.clip_grad_norm_(network.parameters(), facts.CLIP_NORM, foreach=True)

        adam.register_step_pre_hook(clip)
    return adam


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
