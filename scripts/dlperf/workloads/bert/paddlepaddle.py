"""BERT-Base pre-training in PaddlePaddle.

One product for query, key and value; under AMP `scaled_dot_product_attention`, whose flash kernels
know the narrow types only, elsewhere plain products; the decoder at predicted positions only, AdamW
in one kernel a tensor, the clip in place. On the CPU: to_static without oneDNN, whose products are
several times slower in training than Paddle's own (and whose gradients of a small attention
differed). On the GPU, which this has not run on: level O2 (narrow weights, fp32 master weights)
under AMP, with fp32 gradients for the clip's norm.
"""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.frameworks.paddlepaddle import inference as answers
from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.workloads.bert import facts


def dense(inputs, outputs):
    return nn.Linear(inputs, outputs, weight_attr=zeros())  # the stopwatch writes all weights


def embedding(entries):
    return nn.Embedding(entries, facts.WIDTH, weight_attr=zeros())


def layer_norm():
    return nn.LayerNorm(facts.WIDTH, epsilon=facts.LAYER_NORM_EPSILON)


def zeros():
    return nn.initializer.Constant(0.0)


def attention(query, key, value, attn_mask, dropout_p):
    """As `scaled_dot_product_attention`, by products: (batch, tokens, heads, head width)."""
    query, key, value = (each.transpose([0, 2, 1, 3]) for each in (query, key, value))
    scores = paddle.matmul(query * facts.HEAD_WIDTH**-0.5, key, transpose_y=True)
    shares = F.dropout(F.softmax(scores + attn_mask), dropout_p)
    return paddle.matmul(shares, value).transpose([0, 2, 1, 3])


class Layer(nn.Layer):
    def __init__(self, fused):
        super().__init__()
        self.attention = F.scaled_dot_product_attention if fused else attention
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
        heads = [batch, tokens, facts.HEADS, facts.HEAD_WIDTH]
        query, key, value = (each.reshape(heads) for each in self.qkv(x).split(3, -1))
        dropped = self.attention_dropout if self.training else 0.0
        mixed = self.attention(query, key, value, attn_mask=bias, dropout_p=dropped)
        mixed = self.projection(mixed.reshape([batch, tokens, width]))
        x = self.norm1(x + self.dropout(mixed))
        inner = self.ffn2(F.gelu(self.ffn1(x)))
        return self.norm2(x + self.dropout(inner))


class Bert(nn.Layer):
    """The loss of a batch: masked words and sentence pairs."""

    def __init__(self, fused):
        super().__init__()
        self.word_embedding = embedding(facts.VOCABULARY)
        self.position_embedding = embedding(facts.POSITIONS)
        self.segment_embedding = embedding(facts.SEGMENTS)
        self.embedding_norm = layer_norm()
        self.dropout = nn.Dropout(facts.DROPOUT)
        self.layers = nn.LayerList([Layer(fused) for _ in range(facts.LAYERS)])
        self.mlm = dense(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm()
        self.mlm_bias = self.create_parameter([facts.VOCABULARY], is_bias=True)
        self.pooler = dense(facts.WIDTH, facts.WIDTH)
        self.nsp = dense(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        batch, length = tokens.shape
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding(paddle.arange(length))
        x = self.dropout(self.embedding_norm(x))
        bias = paddle.zeros_like(mask, dtype=x.dtype).masked_fill(mask == 0, -math.inf)
        bias = bias.reshape([batch, 1, 1, length])
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def words(self, flat, first, positions):
        """What the language model's softmax takes, (batch x predictions, vocabulary).

        flat: the encoder's output, a token a row; first: the rows of the sequences' first tokens.
        """
        chosen = flat.gather((positions + first.unsqueeze(1)).flatten())
        hidden = self.mlm_norm(F.gelu(self.mlm(chosen)))
        words = paddle.matmul(hidden, self.word_embedding.weight, transpose_y=True)
        return words + self.mlm_bias

    def rows(self, tokens, segments, mask):
        """The encoder's output, a token a row, and the rows of the sequences' first tokens."""
        batch, length = tokens.shape
        x = self.encode(tokens, segments, mask)
        first = paddle.arange(0, batch * length, length, dtype=tokens.dtype)
        return x.reshape([batch * length, facts.WIDTH]), first

    def forward(self, tokens, segments, mask, positions, labels, predicted, follows):
        flat, first = self.rows(tokens, segments, mask)
        words = self.words(flat, first, positions)
        each = F.cross_entropy(words, labels.reshape([-1, 1]), reduction="none")
        predicted = predicted.reshape([-1, 1])
        language = (each * predicted).sum() / predicted.sum()
        pairs = self.nsp(F.tanh(self.pooler(flat.gather(first))))
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
        words = self.bert.words(*self.bert.rows(tokens, segments, mask), positions)
        return words.reshape([*positions.shape, facts.VOCABULARY])


def model(run):
    network = Bert(fused=run.amp)
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    return framework.Weights(
        {
            own.replace("layers.", "layer").replace("embedding.weight", "embedding"): parameter
            for own, parameter in network.named_parameters()
        }
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
    if not run.cuda:
        paddle.set_flags({"FLAGS_use_onednn": False})  # slow here: see above
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
            "attention": "scaled_dot_product_attention" if run.amp else "products and softmax",
            "optimizer": "AdamW",
            "clip": "global norm" if run.dimensions["clip"] else "none",
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
