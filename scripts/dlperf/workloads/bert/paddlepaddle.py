"""BERT-Base pre-training in PaddlePaddle.

The encoder of frameworks/paddlepaddle/transformer.py; the decoder at predicted positions only,
AdamW in one kernel a tensor, the clip in place. On the CPU: to_static without oneDNN. On the GPU,
which this has not run on: level O2 (narrow weights, fp32 master weights) under AMP, with fp32
gradients for the clip's norm.
"""

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.frameworks.paddlepaddle import inference as answers
from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.frameworks.paddlepaddle.transformer import (
    Embedded,
    Layer,
    attention_bias,
    attention_of,
    chosen,
    dense,
    layer_norm,
    products,
)
from dlperf.workloads.bert import facts


class Bert(Embedded):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, fused, padding=0):
        super().__init__(facts)
        self.padding = padding  # columns behind the vocabulary in the decoder's product
        sizes = (facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.layers = nn.LayerList([Layer(facts, *sizes, fused) for _ in range(facts.LAYERS)])
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm(facts, facts.WIDTH)
        self.mlm_bias = self.create_parameter([facts.VOCABULARY], is_bias=True)
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        x = self.embed(tokens, segments)
        bias = attention_bias(mask, x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def words(self, x, positions):
        """What the language model's softmax takes, (batch x predictions, padded vocabulary)."""
        hidden = self.mlm_norm(F.gelu(self.mlm(chosen(x, positions))))
        table, bias = self.word_embedding.weight, self.mlm_bias
        if self.padding:
            zeros = paddle.zeros([self.padding, facts.WIDTH], table.dtype)
            table = paddle.concat([table, zeros])
            scores = paddle.full([self.padding], facts.PADDING_SCORE, bias.dtype)
            bias = paddle.concat([bias, scores])
        return paddle.matmul(hidden, table, transpose_y=True) + bias

    def forward(self, tokens, segments, mask, positions, labels, predicted, follows):
        x = self.encode(tokens, segments, mask)
        words = self.words(x, positions)
        each = F.cross_entropy(words, labels.reshape([-1, 1]), reduction="none")
        predicted = predicted.reshape([-1, 1])
        language = (each * predicted).sum() / predicted.sum()
        first = paddle.zeros([tokens.shape[0], 1], positions.dtype)
        pairs = self.nsp(F.tanh(self.pooler(chosen(x, first))))
        return language + F.cross_entropy(pairs, follows)


class Encoder(nn.Layer):
    """The encoder's output, (batch, tokens, width)."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, tokens, segments, mask):
        return self.bert.encode(tokens, segments, mask)


class Tested(nn.Layer):
    """What the masked words' softmax takes, (batch, predictions, vocabulary)."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, tokens, segments, mask, positions):
        words = self.bert.words(self.bert.encode(tokens, segments, mask), positions)
        return words.reshape([*positions.shape, facts.VOCABULARY])


def model(run):
    network = Bert(run.amp, facts.padding(run.dimensions))
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    return framework.Weights(
        run,
        {
            own.replace("layers.", "layer").replace("embedding.weight", "embedding"): parameter
            for own, parameter in network.named_parameters()
        },
    )


def loss(run, network):
    return network


def optimizer(run, network):
    parameters = network.parameters()
    decayed = {p.name for p in parameters if p.ndim > 1}  # dense weights, embeddings
    # No groups of parameters: each would be clipped by a norm of its own.
    return paddle.optimizer.AdamW(
        facts.learning_rate(run.global_batch_size),
        facts.BETA1,
        facts.BETA2,
        facts.EPSILON,
        parameters=parameters,
        weight_decay=facts.WEIGHT_DECAY,
        apply_decay_param_fun=lambda name: name in decayed,
        grad_clip=nn.ClipGradByGlobalNorm(facts.CLIP_NORM) if run.dimensions["clip"] else None,
    )


def training(run):
    products(run)
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        spec=spec(run),
        parity={
            "attention": attention_of(run),
            "optimizer": "AdamW",
            "clip": "global norm" if run.dimensions["clip"] else "none",
            "padded_columns": facts.padding(run.dimensions),
        },
        schedule=facts.schedule(run),
        outputs=tests,
        tested=4,
    )


def spec(run):
    tokens = (run.batch_size, run.dimensions["sequence_length"])
    places = (run.batch_size, facts.masked_positions(tokens[1]))
    shapes = [tokens] * 3 + [places] * 3 + [(run.batch_size,)]
    types = ["int64"] * 5 + [paddle.get_default_dtype(), "int64"]
    return [paddle.static.InputSpec(*each) for each in zip(shapes, types)]


def inference(run):
    network = model(run)
    network.eval()
    return answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        framework.put,
        spec=spec(run)[:3],
        parity={"attention": "scaled_dot_product_attention"},
    )


def outputs(run, network):
    return Encoder(network)


def tests(run, network):
    """Of a training to a quality."""
    return Tested(network)
