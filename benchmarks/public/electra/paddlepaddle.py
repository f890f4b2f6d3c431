"""Paddle's own encoder, trained as PaddleNLP trains its ELECTRA: dygraph, the parts in its order.

PaddleNLP itself (paddlenlp.transformers.ElectraForTotalPretraining, which is two such encoders
between its own embeddings and heads) needs numpy below 2 and imports some thirty packages before
its first layer. As there, words are scored and drawn at all positions, and the hidden ones picked;
what it draws through rows of ones and zeros is one argmax here. Sizes are ours, and all embeddings
are shared, not those of words alone. It has no LAMB: the optimizer is off in both.
"""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.electra import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "paddlepaddle 3.3.1, paddle.nn.TransformerEncoder with PaddleNLP's embeddings and heads"
REQUIREMENTS = []
WITHOUT_OPTIMIZER = True
IGNORED = -100  # the label of a word that is not to be predicted


class Embeddings(nn.Layer):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(facts.VOCABULARY, facts.WIDTH)
        self.position_embeddings = nn.Embedding(facts.POSITIONS, facts.WIDTH)
        self.token_type_embeddings = nn.Embedding(facts.SEGMENTS, facts.WIDTH)
        self.layer_norm = nn.LayerNorm(facts.WIDTH, epsilon=facts.LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(facts.DROPOUT)

    def forward(self, tokens, segments):
        ones = paddle.ones_like(tokens)
        x = self.word_embeddings(tokens)
        x = x + self.position_embeddings(paddle.cumsum(ones, axis=-1) - ones)
        return self.dropout(self.layer_norm(x + self.token_type_embeddings(segments)))


def encoder(width, heads, inner_width):
    layer = nn.TransformerEncoderLayer(
        width,
        heads,
        inner_width,
        dropout=facts.DROPOUT,
        activation="gelu",
        attn_dropout=facts.ATTENTION_DROPOUT,
        act_dropout=0,
        layer_norm_eps=facts.LAYER_NORM_EPSILON,
    )
    return nn.TransformerEncoder(layer, facts.LAYERS)


class ElectraForTotalPretraining(nn.Layer):
    def __init__(self):
        super().__init__()
        width, small = facts.WIDTH, facts.GENERATOR_WIDTH
        self.embeddings = Embeddings()
        self.embeddings_project = nn.Linear(width, small)
        self.generator = encoder(small, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH)
        self.generator_dense = nn.Linear(small, width)
        self.generator_norm = nn.LayerNorm(width, epsilon=facts.LAYER_NORM_EPSILON)
        self.generator_lm_head_bias = self.create_parameter([facts.VOCABULARY], is_bias=True)
        self.discriminator = encoder(width, facts.HEADS, facts.INNER_WIDTH)
        self.discriminator_dense = nn.Linear(width, width)
        self.discriminator_prediction = nn.Linear(width, 1)
        normal = nn.initializer.Normal(0.0, facts.INITIAL_DEVIATION)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                normal(parameter)

    def generate(self, tokens, segments, bias):
        x = self.generator(self.embeddings_project(self.embeddings(tokens, segments)), bias)
        x = self.generator_norm(F.gelu(self.generator_dense(x)))
        words = paddle.matmul(x, self.embeddings.word_embeddings.weight, transpose_y=True)
        return words + self.generator_lm_head_bias

    def forward(self, tokens, segments, mask, original, labels):
        bias = (1.0 - mask.unsqueeze([1, 2]).astype("float32")) * -1e4
        words = self.generate(tokens, segments, bias)
        noise = paddle.rand(words.shape)
        noise = -paddle.log(-paddle.log(noise + facts.NOISE_EPSILON) + facts.NOISE_EPSILON)
        samples = paddle.argmax(words.detach() + noise, axis=-1)
        hidden = (labels != IGNORED).astype("int64")
        replaced = (1 - hidden) * original + hidden * samples
        fake = (replaced != original).astype("float32")
        x = self.discriminator(self.embeddings(replaced, segments), bias)
        found = self.discriminator_prediction(F.gelu(self.discriminator_dense(x))).squeeze(-1)

        rows = words.reshape([-1, facts.VOCABULARY]), labels.reshape([-1, 1])
        each = F.cross_entropy(*rows, ignore_index=IGNORED, reduction="none")
        generator = each.sum() / hidden.sum().astype("float32")
        there = mask.astype("float32")
        each = F.binary_cross_entropy_with_logits(found, fake, reduction="none") * there
        return generator + facts.DISCRIMINATOR_WEIGHT * each.sum() / there.sum()


def training(run):
    network = ElectraForTotalPretraining()
    network.train()
    batches = open_batches(run)
    next_batch = feed(batches, put)

    def step():
        value = network(*next_batch())
        value.backward()
        network.clear_gradients()
        return value.detach()

    return Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.size for p in network.parameters()),
        batches=batches,
        parity={},
    )


def put(tokens, segments, mask, positions, labels, chosen):
    """Labels stand at their positions among all; so do the words that are hidden in `tokens`."""
    original, spread = tokens.copy(), np.full_like(tokens, IGNORED)
    # places left over point at the first token, which is never hidden
    np.put_along_axis(original, positions, labels, 1)
    np.put_along_axis(spread, positions, np.where(chosen > 0, labels, IGNORED), 1)
    arrays = tokens, segments, mask, original, spread
    return [paddle.to_tensor(each, "int64") for each in arrays]
