"""The form of GluonNLP's GPT2Model (scripts/text_generation/model/gpt.py), of its package's layers.

Its package has the attention cell, GELU by tanh and the optimizer, its scripts the model; they have
no training of it, so this is the best mode of its BERT's: network and loss as one block,
hybridize(static_alloc, static_shape), BERTAdam, a clip by global norm without a wait. Query, key
and value are one product, a mask of zeros and ones is made in each layer, the last norm is before a
head that is the word embedding, as there; the dropouts behind branches are ours.
"""

import mxnet as mx
from gluonnlp.model.attention_cell import DotProductAttentionCell
from gluonnlp.model.block import GELU
from gluonnlp.optimizer import BERTAdam
from gluonnlp.utils import clip_grad_global_norm
from mxnet import autograd, gluon
from mxnet.gluon import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.gpt import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "gluonnlp 0.10.0, DotProductAttentionCell, GELU, BERTAdam in its script's GPT2Model"
REQUIREMENTS = ["gluonnlp==0.10.0", "packaging==24.0"]


class SelfAttention(gluon.HybridBlock):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Dense(3 * width, flatten=False, in_units=width)
        self.cell = DotProductAttentionCell(scaled=True, dropout=facts.ATTENTION_DROPOUT)
        self.projection = nn.Dense(width, flatten=False, in_units=width)

    def hybrid_forward(self, F, x):
        places = F.contrib.arange_like(x, axis=1)
        mask = F.broadcast_lesser_equal(places.reshape((1, -1)), places.reshape((-1, 1)))
        mask = F.broadcast_like(mask.expand_dims(0), x, lhs_axes=(0,), rhs_axes=(0,))
        mask = F.concat(*[mask] * self.heads, dim=0)
        # channels before tokens, so that one reshape splits heads
        parts = F.split(F.swapaxes(self.qkv(x), 1, 2), num_outputs=3, axis=1)
        query, key, value = (
            F.swapaxes(each.reshape((0, -4, self.heads, -1, 0)).reshape((-3, 0, 0)), 1, 2)
            for each in parts
        )
        mixed, _ = self.cell(query, key, value, mask)
        mixed = mixed.reshape((-4, -1, self.heads, 0, 0)).transpose((0, 2, 1, 3))
        return self.projection(mixed.reshape((0, 0, -3)))


class Block(gluon.HybridBlock):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(epsilon=facts.LAYER_NORM_EPSILON, in_channels=width)
        self.attention = SelfAttention(width, heads)
        self.inner_norm = nn.LayerNorm(epsilon=facts.LAYER_NORM_EPSILON, in_channels=width)
        self.inner = nn.HybridSequential()
        self.inner.add(nn.Dense(4 * width, flatten=False, in_units=width))
        self.inner.add(GELU(approximate=True))
        self.inner.add(nn.Dense(width, flatten=False, in_units=4 * width))
        self.dropout = nn.Dropout(facts.DROPOUT)

    def hybrid_forward(self, F, x):
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.inner(self.inner_norm(x)))


class Pretraining(gluon.HybridBlock):
    """The model, and its mean loss."""

    def __init__(self, sizes):
        super().__init__()
        width, tokens = sizes["width"], sizes["sequence_length"]
        self.words = nn.Embedding(facts.VOCABULARY, width)
        self.positions = nn.Embedding(tokens, width)
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.blocks = nn.HybridSequential()
        for _ in range(sizes["layers"]):
            self.blocks.add(Block(width, sizes["heads"]))
        self.norm = nn.LayerNorm(epsilon=facts.LAYER_NORM_EPSILON, in_channels=width)
        self.head = nn.Dense(
            facts.VOCABULARY,
            use_bias=False,
            flatten=False,
            in_units=width,
            params=self.words.params,
        )
        self.loss = gluon.loss.SoftmaxCELoss()

    def hybrid_forward(self, F, tokens, labels):
        places = F.contrib.arange_like(tokens, axis=1).expand_dims(0)
        places = F.broadcast_like(places, tokens, lhs_axes=(0,), rhs_axes=(0,))
        x = self.dropout(self.words(tokens) + self.positions(places))
        scores = self.head(self.norm(self.blocks(x)))
        return self.loss(scores, labels).mean()


def training(run):
    network = Pretraining(run.dimensions)
    network.initialize(mx.init.Normal(facts.INITIAL_DEVIATION))
    for _, parameter in network.collect_params(".*beta|.*gamma|.*bias").items():
        parameter.wd_mult = 0.0
    if run.compiler == "static":
        network.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(
        network.collect_params(),
        BERTAdam(
            learning_rate=facts.learning_rate(run.global_batch_size),
            beta1=facts.BETA1,
            beta2=facts.BETA2,
            epsilon=facts.EPSILON,
            wd=facts.WEIGHT_DECAY,
        ),
        kvstore=None,
        update_on_kvstore=False,
    )
    trained = [p for p in network.collect_params().values() if p.grad_req != "null"]
    batches = open_batches(run)
    next_batch = feed(
        batches, lambda *batch: [mx.nd.array(each, dtype="float32") for each in batch]
    )

    def step():
        batch = next_batch()
        with autograd.record():
            value = network(*batch)
        value.backward()
        clip_grad_global_norm(trained, facts.CLIP_NORM, check_isfinite=False)
        trainer.update(1)
        return value

    return Work(
        step=step,
        wait=mx.nd.waitall,
        loss=lambda value: float(value.asnumpy()),
        parameters=sum(p.data().size for p in trained),
        batches=batches,
        parity={},
    )
