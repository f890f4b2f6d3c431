"""Paddle's own encoder, trained as PaddleNLP trains its BERT: dygraph, the parts in its order.

PaddleNLP itself (paddlenlp.transformers.BertForPretraining, which is this encoder between its own
embeddings and heads) needs numpy below 2 and imports some thirty packages before its first layer.
"""

import paddle
import paddle.nn.functional as F
from contestant import answering
from deployed.paddlepaddle import predictor
from paddle import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.bert import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "paddlepaddle 3.3.1, paddle.nn.TransformerEncoder with PaddleNLP's embeddings and heads"
REQUIREMENTS = []


class BertForPretraining(nn.Layer):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(facts.VOCABULARY, facts.WIDTH)
        self.position_embeddings = nn.Embedding(facts.POSITIONS, facts.WIDTH)
        self.token_type_embeddings = nn.Embedding(facts.SEGMENTS, facts.WIDTH)
        self.layer_norm = nn.LayerNorm(facts.WIDTH, epsilon=facts.LAYER_NORM_EPSILON)
        self.dropout = nn.Dropout(facts.DROPOUT)
        layer = nn.TransformerEncoderLayer(
            facts.WIDTH,
            facts.HEADS,
            facts.INNER_WIDTH,
            dropout=facts.DROPOUT,
            activation="gelu",
            attn_dropout=facts.DROPOUT,
            act_dropout=0,
            layer_norm_eps=facts.LAYER_NORM_EPSILON,
        )
        self.encoder = nn.TransformerEncoder(layer, facts.LAYERS)
        self.pooler = nn.Linear(facts.WIDTH, facts.WIDTH)
        self.transform = nn.Linear(facts.WIDTH, facts.WIDTH)
        self.transform_norm = nn.LayerNorm(facts.WIDTH, epsilon=facts.LAYER_NORM_EPSILON)
        self.decoder_bias = self.create_parameter([facts.VOCABULARY], is_bias=True)
        self.seq_relationship = nn.Linear(facts.WIDTH, 2)
        normal = nn.initializer.Normal(0.0, facts.INITIAL_DEVIATION)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                normal(parameter)

    def encode(self, tokens, segments, mask):
        ones = paddle.ones_like(tokens)
        x = self.word_embeddings(tokens)
        x = x + self.position_embeddings(paddle.cumsum(ones, axis=-1) - ones)
        x = self.dropout(self.layer_norm(x + self.token_type_embeddings(segments)))
        bias = (1.0 - mask.unsqueeze([1, 2]).astype(x.dtype)) * -1e4
        return self.encoder(x, bias)

    def forward(self, tokens, segments, mask, positions, labels, predicted, follows):
        x = self.encode(tokens, segments, mask)
        rows = paddle.arange(len(tokens)).unsqueeze(1) * tokens.shape[1]
        chosen = paddle.gather(x.reshape([-1, facts.WIDTH]), (positions + rows).flatten())
        chosen = self.transform_norm(F.gelu(self.transform(chosen)))
        words = paddle.matmul(chosen, self.word_embeddings.weight, transpose_y=True)
        words = words + self.decoder_bias
        language = F.cross_entropy(words, labels.reshape([-1, 1]), reduction="none")
        language = language.flatten() * predicted.flatten() / predicted.sum()
        pairs = self.seq_relationship(F.tanh(self.pooler(x[:, 0])))
        sentence = F.cross_entropy(pairs, follows, reduction="none")
        return paddle.sum(language) + paddle.mean(sentence)


def training(run):
    network = BertForPretraining()
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
        grad_clip=nn.ClipGradByGlobalNorm(facts.CLIP_NORM) if run.dimensions["clip"] else None,
    )
    batches = open_batches(run, "NHWC")
    next_batch = feed(
        batches,
        lambda *batch: [
            paddle.to_tensor(each, "float32" if each.dtype.kind == "f" else "int64")
            for each in batch
        ],
    )

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


class Encoder(BertForPretraining):
    def forward(self, tokens, segments, mask):
        return self.encode(tokens, segments, mask)


def inference(run):
    """As its documents deploy it: the network saved, in paddle.inference's predictor."""
    network = Encoder()
    network.eval()
    shape = [run.batch_size, run.dimensions["sequence_length"]]
    spec = [paddle.static.InputSpec(shape, "int64") for _ in range(3)]
    call = predictor(run, network, spec)
    parameters = sum(p.size for p in network.parameters())

    def answer(tokens, segments, mask, *_):
        return call(*(each.astype("int64") for each in (tokens, segments, mask)))

    return answering(run, "NHWC", parameters, answer)
