"""Paddle's own layers as PaddleNLP's GPT has them, trained in its way: dygraph, parts in its order.

PaddleNLP itself (paddlenlp.transformers.GPTForCausalLM) needs numpy below 2 and imports some thirty
packages before its first layer. Its layer is that of paddle.nn.TransformerEncoder with norms before
branches, a product each for query, key and value, and GELU by tanh; its mask is made in each layer,
here once. Its loss leaves out tokens whose loss is 0.
"""

import functools
import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.gpt import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "paddlepaddle 3.3.1, paddle.nn.TransformerEncoder with PaddleNLP's embeddings and loss"
REQUIREMENTS = []


class GPT(nn.Layer):
    def __init__(self, sizes):
        super().__init__()
        width = sizes["width"]
        self.word_embeddings = nn.Embedding(facts.VOCABULARY, width)
        self.position_embeddings = nn.Embedding(sizes["sequence_length"], width)
        self.dropout = nn.Dropout(facts.DROPOUT)
        layer = nn.TransformerEncoderLayer(
            width,
            sizes["heads"],
            4 * width,
            dropout=facts.DROPOUT,
            activation="gelu",
            attn_dropout=facts.ATTENTION_DROPOUT,
            act_dropout=0,
            normalize_before=True,
            layer_norm_eps=facts.LAYER_NORM_EPSILON,
        )
        norm = nn.LayerNorm(width, epsilon=facts.LAYER_NORM_EPSILON)
        self.decoder = nn.TransformerEncoder(layer, sizes["layers"], norm)
        for each in self.decoder.layers:
            each.activation = functools.partial(F.gelu, approximate=True)
        normal = nn.initializer.Normal(0.0, facts.INITIAL_DEVIATION)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                normal(parameter)

    def forward(self, tokens, labels):
        ones = paddle.ones_like(tokens)
        x = self.word_embeddings(tokens)
        x = self.dropout(x + self.position_embeddings(paddle.cumsum(ones, axis=-1) - ones))
        count = tokens.shape[1]
        mask = paddle.triu(paddle.full([count, count], -math.inf, x.dtype), 1)
        x = self.decoder(x, mask)
        scores = paddle.matmul(x, self.word_embeddings.weight, transpose_y=True)
        each = F.cross_entropy(scores, labels.unsqueeze(2), reduction="none")
        scored = (each > 0).astype(each.dtype)
        return (each * scored).sum() / scored.sum()


def training(run):
    network = GPT(run.dimensions)
    network.train()
    decayed = {p.name for p in network.parameters() if p.ndim > 1}
    adam = paddle.optimizer.AdamW(
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        parameters=network.parameters(),
        weight_decay=facts.WEIGHT_DECAY,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=nn.ClipGradByGlobalNorm(facts.CLIP_NORM),
    )
    batches = open_batches(run)
    next_batch = feed(batches, lambda *batch: [paddle.to_tensor(each, "int64") for each in batch])

    def step():
        value = network(*next_batch())
        value.backward()
        adam.step()
        adam.clear_grad()
        return value.detach()

    return Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.size for p in network.parameters()),
        batches=batches,
        parity={},
    )
