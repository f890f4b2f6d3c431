"""BERT-Base pre-training in OneFlow.

As fast as it gets: one product for query, key and value, the decoder at predicted positions only,
nn.Graph with updates and additions fused; on the CPU a layer-norm of products, eager with an own
clip. On the GPU, which this has not run on: layer-norm and attention's scale, mask, softmax and
dropout in one kernel each, in eager mode a multi-tensor AdamW.

F.dropout, not nn.Dropout, each of which starts from the same seed. In a graph all do, so that
layers and ranks drop the same elements; in number they are right.
"""

import numpy as np
import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.data import text
from dlperf.frameworks.oneflow import inference as answers
from dlperf.frameworks.oneflow import training as framework
from dlperf.workloads.bert import facts


class Embedding(framework.Undrawn, nn.Embedding):
    pass


class LayerNorm(nn.LayerNorm):
    """nn.LayerNorm for a CPU, where it has no kernel of its own.

    It subtracts a number a row, which OneFlow's oneDNN leaves to slow reference code. Here sums of
    rows, and numbers along rows, are matrix products with ones: 15 times as fast.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("ones", flow.ones(facts.WIDTH, 1))

    def forward(self, x):
        x = x - self.along(flow.matmul(x, self.ones) / facts.WIDTH)
        variance = flow.matmul(x * x, self.ones) / facts.WIDTH
        return x * self.along((variance + self.eps).rsqrt()) * self.weight + self.bias

    def along(self, numbers):
        return flow._C.matmul(numbers, self.ones, transpose_b=True)


class Layer(nn.Module):
    def __init__(self, layer_norm, fused):
        super().__init__()
        self.fused = fused
        self.qkv = framework.Linear(facts.WIDTH, 3 * facts.WIDTH)
        self.projection = framework.Linear(facts.WIDTH, facts.WIDTH)
        self.norm1 = layer_norm()
        self.ffn1 = framework.Linear(facts.WIDTH, facts.INNER_WIDTH)
        self.ffn2 = framework.Linear(facts.INNER_WIDTH, facts.WIDTH)
        self.norm2 = layer_norm()
        self.dropout, self.attention_dropout = facts.DROPOUT, facts.ATTENTION_DROPOUT

    def forward(self, x, mask):
        batch, tokens, width = x.shape
        dropped = self.attention_dropout if self.training else 0.0
        qkv = self.qkv(x).view(batch, tokens, 3 * facts.HEADS, facts.HEAD_WIDTH)
        query, key, value = qkv.transpose(1, 2).contiguous().chunk(3, 1)
        scale = facts.HEAD_WIDTH**-0.5
        if self.fused:
            scores = flow._C.matmul(query, key, transpose_b=True)
            # a share of exp(-10000) is 0, as OneFlow's own BERT has it
            seen = (mask != 0).expand_as(scores)
            shares = flow._C.fused_scale_mask_softmax_dropout(
                scores, seen, fill_value=-10000.0, scale=scale, p=dropped
            )[0]
        else:
            scores = flow._C.matmul(query, key, transpose_b=True, alpha=scale)
            shares = flow.softmax(scores.masked_fill(mask == 0, float("-inf")), -1)
            shares = F.dropout(shares, dropped, self.training)
        mixed = flow.matmul(shares, value).transpose(1, 2).reshape(batch, tokens, width)
        x = self.norm1(x + F.dropout(self.projection(mixed), self.dropout, self.training))
        inner = self.ffn2(F.gelu(self.ffn1(x)))
        return self.norm2(x + F.dropout(inner, self.dropout, self.training))


class Bert(nn.Module):
    """Scores of words at predicted positions, and of sentence pairs."""

    def __init__(self, fused=False, padding=0):
        super().__init__()
        self.padding = padding  # columns behind the vocabulary in the decoder's product

        def layer_norm():
            kind = nn.LayerNorm if fused else LayerNorm
            return kind(facts.WIDTH, eps=facts.LAYER_NORM_EPSILON)

        self.word_embedding = Embedding(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = Embedding(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = Embedding(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = layer_norm()
        self.dropout = facts.DROPOUT
        self.layers = nn.ModuleList([Layer(layer_norm, fused) for _ in range(facts.LAYERS)])
        self.mlm = framework.Linear(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm()
        self.mlm_bias = nn.Parameter(flow.zeros(facts.VOCABULARY))
        self.pooler = framework.Linear(facts.WIDTH, facts.WIDTH)
        self.nsp = framework.Linear(facts.WIDTH, 2)

    def encode(self, tokens, segments, mask):
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding.weight[: tokens.shape[1]]
        x = F.dropout(self.embedding_norm(x), self.dropout, self.training)
        mask = mask.unsqueeze(1).unsqueeze(1)
        for layer in self.layers:
            x = layer(x, mask)
        return x

    def forward(self, tokens, segments, mask, positions):
        x = self.encode(tokens, segments, mask)
        hidden = self.mlm_norm(F.gelu(self.mlm(flow._C.batch_gather(x, positions))))
        table, bias = self.word_embedding.weight, self.mlm_bias
        if self.padding:
            table = F.pad(table, (0, 0, 0, self.padding))
            bias = F.pad(bias, (0, self.padding), value=facts.PADDING_SCORE)
        words = flow._C.matmul(hidden, table, transpose_b=True)
        return words + bias, self.nsp(flow.tanh(self.pooler(x[:, 0])))


class AdamW(flow.optim.AdamW):
    """Takes the gradients of all groups together to a norm of at most `clip_norm` first."""

    def __init__(self, groups, clip_norm, **options):
        super().__init__(groups, **options)
        self.clip_norm = clip_norm

    def step(self, closure=None):
        if self.clip_norm:
            self.clip()
        return super().step(closure)

    def clip(self):
        """As nn.utils.clip_grad_norm_, which on a CPU is percents off for millions of floats."""
        with flow.no_grad():
            gradients = [p.grad for group in self.param_groups for p in group.parameters]
            norm = flow.stack([each.square().sum() for each in gradients]).sum().sqrt()
            scale = (self.clip_norm / norm).clamp(max=1.0)
            for gradient in gradients:
                gradient.mul_(scale)

    def _generate_conf_for_graph(self, train_conf, variables):
        """For a graph, which clips each group for itself: one group, told what not to decay."""
        (conf,) = super()._generate_conf_for_graph(train_conf, variables)
        for parameter in self.param_groups[0].parameters:
            if parameter.ndim <= 1:
                conf.weight_decay_conf.excludes.pattern.append("^%s$" % variables[parameter].name)
        return [conf]


def model(run):
    return framework.place(run, Bert(run.cuda, facts.padding(run.dimensions)))


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("layers.", "layer").replace("embedding.weight", "embedding")
        named[name] = parameter
    return framework.Weights(named)


def loss(run, network, tokens, segments, mask, positions, labels, predicted, follows):
    """Masked words and sentence pairs; of a batch of several ranks, the mean over ranks."""
    words, pairs = network(tokens, segments, mask, positions)
    each = F.cross_entropy(words.flatten(0, 1), labels.flatten(), reduction="none")
    # a row a rank: each divides by its own number of predictions
    rows = run.ranks if run.compiler == "graph" else 1
    each, predicted = each.reshape(rows, -1), predicted.reshape(rows, -1)
    language = (each * predicted).sum(1) / predicted.sum(1)
    return language.mean() + F.cross_entropy(pairs, follows)


def optimizer(run, network):
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    groups = framework.by_decay(network, facts.WEIGHT_DECAY)
    if run.compiler == "graph":
        parameters = [p for group in groups for p in group["params"]]
        groups = [{"params": parameters, "weight_decay": facts.WEIGHT_DECAY}]
        if clip_norm:
            groups[0].update(clip_grad_max_norm=clip_norm, clip_grad_norm_type=2.0)
    return AdamW(
        groups,
        clip_norm,
        lr=facts.learning_rate(run.global_batch_size),
        # rounded as the kernel has them, so that the bias corrections belong to them
        betas=(float(np.float32(facts.BETA1)), float(np.float32(facts.BETA2))),
        eps=facts.EPSILON,
        fused=run.cuda and run.compiler == "none",
    )


def training(run):
    network = model(run)
    fused = run.cuda or run.compiler == "graph"
    clip = "global norm, " + ("in the graph" if run.compiler == "graph" else "by tensor")
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        example=example(run),
        parity={
            "attention": attention(run),
            "optimizer": "AdamW, fused" if fused else "AdamW",
            "clip": clip if run.dimensions["clip"] else "none",
            "padded_columns": facts.padding(run.dimensions),
        },
        schedule=facts.schedule(run),
        outputs=tested,
    )


def example(run):
    return text.empty(run.batch_size, run.dimensions["sequence_length"])


def attention(run):
    return "products, fused softmax" if run.cuda else "products, softmax"


def inference(run):
    network = model(run).eval()
    return answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        framework.put,
        example=example(run),
        parity={"attention": attention(run)},
    )


def outputs(run, network, tokens, segments, mask, *_):
    return network.encode(tokens, segments, mask)


def tested(run, network, tokens, segments, mask, positions, *_):
    """Of a training to a quality: what the masked words' softmax takes."""
    words, _ = network(tokens, segments, mask, positions)
    return words
