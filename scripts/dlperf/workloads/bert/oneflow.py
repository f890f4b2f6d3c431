"""BERT-Base pre-training in OneFlow.

As fast as it gets: one product for query, key and value, the decoder at predicted positions only,
nn.Graph with updates and additions fused; on the CPU a layer-norm of products, eager with an own
clip. Data parallel: DistributedDataParallel in eager mode, global tensors (batch split, weights
broadcast) in a graph. On the GPU, which this has not run on: layer-norm and attention's scale,
mask, softmax and dropout in one kernel each, dynamic loss scaling under AMP (fp16), in eager mode
a multi-tensor AdamW.

F.dropout, not nn.Dropout, each of which starts from the same seed. In a graph all do, so that
layers and ranks drop the same elements; in number they are right.
"""

import numpy as np
import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.contract.work import Work, feed
from dlperf.data import text
from dlperf.data.loaders import open_batches
from dlperf.frameworks import oneflow as framework
from dlperf.workloads.bert import facts


class Linear(framework.Undrawn, nn.Linear):
    pass


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
        self.qkv = Linear(facts.WIDTH, 3 * facts.WIDTH)
        self.projection = Linear(facts.WIDTH, facts.WIDTH)
        self.norm1 = layer_norm()
        self.ffn1 = Linear(facts.WIDTH, facts.INNER_WIDTH)
        self.ffn2 = Linear(facts.INNER_WIDTH, facts.WIDTH)
        self.norm2 = layer_norm()
        self.dropout = facts.DROPOUT

    def forward(self, x, mask):
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3 * facts.HEADS, facts.HEAD_WIDTH)
        query, key, value = qkv.transpose(1, 2).contiguous().chunk(3, 1)
        scale = facts.HEAD_WIDTH**-0.5
        if self.fused:
            scores = flow._C.matmul(query, key, transpose_b=True)
            # a share of exp(-10000) is 0, as OneFlow's own BERT has it
            seen = (mask != 0).expand_as(scores)
            shares = flow._C.fused_scale_mask_softmax_dropout(
                scores, seen, fill_value=-10000.0, scale=scale, p=self.dropout
            )[0]
        else:
            scores = flow._C.matmul(query, key, transpose_b=True, alpha=scale)
            shares = flow.softmax(scores.masked_fill(mask == 0, float("-inf")), -1)
            shares = F.dropout(shares, self.dropout)
        mixed = flow.matmul(shares, value).transpose(1, 2).reshape(batch, tokens, width)
        x = self.norm1(x + F.dropout(self.projection(mixed), self.dropout))
        inner = self.ffn2(F.gelu(self.ffn1(x)))
        return self.norm2(x + F.dropout(inner, self.dropout))


class Bert(nn.Module):
    """Scores of words at predicted positions, and of sentence pairs."""

    def __init__(self, fused=False):
        super().__init__()

        def layer_norm():
            kind = nn.LayerNorm if fused else LayerNorm
            return kind(facts.WIDTH, eps=facts.LAYER_NORM_EPSILON)

        self.word_embedding = Embedding(facts.VOCABULARY, facts.WIDTH)
        self.position_embedding = Embedding(facts.POSITIONS, facts.WIDTH)
        self.segment_embedding = Embedding(facts.SEGMENTS, facts.WIDTH)
        self.embedding_norm = layer_norm()
        self.dropout = facts.DROPOUT
        self.layers = nn.ModuleList([Layer(layer_norm, fused) for _ in range(facts.LAYERS)])
        self.mlm = Linear(facts.WIDTH, facts.WIDTH)
        self.mlm_norm = layer_norm()
        self.mlm_bias = nn.Parameter(flow.zeros(facts.VOCABULARY))
        self.pooler = Linear(facts.WIDTH, facts.WIDTH)
        self.nsp = Linear(facts.WIDTH, 2)

    def forward(self, inputs):
        tokens, segments, mask, positions = inputs
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding.weight[: tokens.shape[1]]
        x = F.dropout(self.embedding_norm(x), self.dropout)
        mask = mask.unsqueeze(1).unsqueeze(1)
        for layer in self.layers:
            x = layer(x, mask)

        hidden = self.mlm_norm(F.gelu(self.mlm(flow._C.batch_gather(x, positions))))
        words = flow._C.matmul(hidden, self.word_embedding.weight, transpose_b=True)
        return words + self.mlm_bias, self.nsp(flow.tanh(self.pooler(x[:, 0])))


class Loss(nn.Module):
    """Masked words and sentence pairs; of a batch of several ranks, the mean over ranks."""

    def __init__(self, ranks=1):
        super().__init__()
        self.ranks = ranks

    def forward(self, outputs, targets):
        words, pairs = outputs
        labels, predicted, follows = targets
        each = F.cross_entropy(words.flatten(0, 1), labels.flatten(), reduction="none")
        # a row a rank: each divides by its own number of predictions
        each, predicted = each.reshape(self.ranks, -1), predicted.reshape(self.ranks, -1)
        language = (each * predicted).sum(1) / predicted.sum(1)
        return language.mean() + F.cross_entropy(pairs, follows)


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


class TrainingGraph(nn.Graph):
    """Forward, backward and update as one static graph."""

    def __init__(self, run, network, criterion, adam):
        super().__init__()
        self.network, self.criterion = network, criterion
        self.add_optimizer(adam)
        self.config.allow_fuse_model_update_ops(True)
        self.config.allow_fuse_add_to_output(True)
        if run.amp:
            self.config.enable_amp(True, dtype=flow.float16)
            self.config.allow_fuse_cast_scale(True)
            self.set_grad_scaler(flow.amp.GradScaler())

    def build(self, inputs, targets):
        value = self.criterion(self.network(inputs), targets)
        value.backward()
        return value


def model(run):
    network = Bert(fused=run.cuda)
    if run.float64:
        network = network.to(flow.float64)
    return network.to(run.device).train()


def weights(network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("layers.", "layer").replace("embedding.weight", "embedding")
        named[name] = parameter
    return framework.Weights(named)


def loss(run):
    return Loss(run.ranks if run.compiler == "graph" else 1)


def optimizer(run, network):
    decayed = [p for p in network.parameters() if p.ndim > 1]  # dense weights, embeddings
    others = [p for p in network.parameters() if p.ndim <= 1]
    clip_norm = facts.CLIP_NORM if run.dimensions["clip"] else None
    if run.compiler == "graph":
        groups = [{"params": decayed + others, "weight_decay": facts.WEIGHT_DECAY}]
        if clip_norm:
            groups[0].update(clip_grad_max_norm=clip_norm, clip_grad_norm_type=2.0)
    else:
        groups = [
            {"params": decayed, "weight_decay": facts.WEIGHT_DECAY},
            {"params": others, "weight_decay": 0.0},
        ]
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
    network, criterion = model(run), loss(run)
    flow.manual_seed(run.seed + run.rank)  # of dropout: ranks drop other elements
    parameters = sum(p.numel() for p in network.parameters())
    if run.compiler == "graph":
        if run.distributed:
            network = network.to_global(placement(run), sbp=flow.sbp.broadcast)
        train = TrainingGraph(run, network, criterion, optimizer(run, network))
        detail = compiled(run, train)
    else:
        train = eager(run, network, criterion, optimizer(run, network))
        detail = {}
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: put(run, batch))

    def step():
        return train(*next_batch()).detach()

    fused = run.cuda or run.compiler == "graph"
    clip = "global norm, " + ("in the graph" if run.compiler == "graph" else "by tensor")
    return Work(
        step=step,
        wait=flow._oneflow_internal.eager.Sync,  # all queued instructions, graphs included
        loss=lambda value: local(value).item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            detail,
            attention="products, fused softmax" if run.cuda else "products, softmax",
            optimizer="AdamW, fused" if fused else "AdamW",
            clip=clip if run.dimensions["clip"] else "none",
            loss_scaling="dynamic" if run.amp else "none",
            compute_dtype="float16" if run.amp else "float32",
        ),
        weights=weights(network),
    )


def eager(run, network, criterion, adam):
    forward = network
    if run.distributed and not run.float64:
        forward = nn.parallel.DistributedDataParallel(network, broadcast_buffers=False)

    def train(inputs, targets):
        value = criterion(forward(inputs), targets)
        value.backward()
        if run.distributed and run.float64:  # which DistributedDataParallel does not take
            mean_over_ranks(run, network)
        adam.step()
        # DistributedDataParallel adds into its buckets, which it does not clear itself
        adam.zero_grad(set_to_none=not run.distributed)
        return value

    return train


def mean_over_ranks(run, network):
    for parameter in network.parameters():
        flow._C.local_all_reduce(parameter.grad, inplace=True).mul_(1 / run.ranks)


def compiled(run, train):
    """Compile the graph before its first step; returns what it says of itself."""
    train._compile(*put(run, text.empty(run.batch_size, run.dimensions["sequence_length"])))
    operations = len(train._compiled_graph_proto.net.op)
    return {"graph_compiled": train.is_compiled, "graph_operations": operations}


def placement(run):
    return flow.placement(run.device, ranks=list(range(run.ranks)))


def put(run, batch):
    """A text.Batch -> (tokens, segments, mask, positions), (labels, predicted, follows).

    int64, and `predicted` in the model's type; a graph's tensors span all ranks.
    """
    found = []
    for name, array in zip(text.Batch._fields, batch):
        kind = np.int64
        if name == "predicted":
            kind = np.float64 if run.float64 else np.float32
        tensor = flow.from_numpy(array.astype(kind))
        if run.cuda:
            tensor = tensor.pin_memory().to("cuda")
        if run.distributed and run.compiler == "graph":
            # check_meta=False: the ranks need not agree on shapes in every step
            tensor = tensor.to_global(placement(run), flow.sbp.split(0), check_meta=False)
        found.append(tensor)
    return tuple(found[:4]), tuple(found[4:])


def local(value):
    if value.is_global:
        value = value.to_global(sbp=flow.sbp.broadcast).to_local()
    return value
