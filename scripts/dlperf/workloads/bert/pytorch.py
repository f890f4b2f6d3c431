"""BERT-Base pre-training in PyTorch.

As fast as it gets: one product for query, key and value, `scaled_dot_product_attention`, the
decoder at predicted positions only, a fused AdamW, `set_to_none`, gradients as views of DDP's
buckets.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import pytorch as framework
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

    def forward(self, x, bias):
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, facts.HEADS, facts.HEAD_WIDTH)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, dropout_p=self.dropout.p
        )
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

    def forward(self, tokens, segments, mask, positions, labels, predicted, follows):
        x = self.word_embedding(tokens) + self.segment_embedding(segments)
        x = x + self.position_embedding.weight[: tokens.shape[1]]
        x = self.dropout(self.embedding_norm(x))
        bias = torch.zeros_like(mask, dtype=x.dtype).masked_fill(mask == 0, -torch.inf)
        bias = bias[:, None, None, :]
        for layer in self.layers:
            x = layer(x, bias)

        index = positions[:, :, None].expand(-1, -1, facts.WIDTH)
        hidden = self.mlm_norm(F.gelu(self.mlm(x.gather(1, index))))
        words = F.linear(hidden, self.word_embedding.weight, self.mlm_bias)
        each = F.cross_entropy(words.flatten(0, 1), labels.flatten(), reduction="none")
        predicted = predicted.flatten()
        language = (each * predicted).sum() / predicted.sum()
        pairs = self.nsp(torch.tanh(self.pooler(x[:, 0])))
        return language + F.cross_entropy(pairs, follows)


def model(run):
    return Bert().to(run.device).train()


def weights(network):
    """The parameters by the names of facts.parameters."""
    return framework.Weights({name.replace("layers.", "layer"): p for name, p in _named(network)})


def _named(network):
    for name, parameter in network.named_parameters():
        yield name.replace("embedding.weight", "embedding"), parameter


def optimizer(run, network):
    decayed = [p for p in network.parameters() if p.ndim > 1]  # dense weights, embeddings
    others = [p for p in network.parameters() if p.ndim <= 1]
    adam = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": facts.WEIGHT_DECAY},
            {"params": others, "weight_decay": 0.0},
        ],
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
    torch.manual_seed(run.seed + run.rank)  # of dropout: ranks drop other elements
    exchanged = weights(network)
    parameters = sum(p.numel() for p in network.parameters())
    adam = optimizer(run, network)
    if run.distributed:
        network = DistributedDataParallel(
            network, device_ids=[0] if run.cuda else None, gradient_as_bucket_view=True
        )
    half = torch.float16 if run.cuda else torch.bfloat16
    scaler = torch.amp.GradScaler("cuda", enabled=run.amp and run.cuda)

    def forward(*batch):
        with torch.autocast(run.device, dtype=half, enabled=run.amp):
            return network(*batch)

    if run.compiler == "inductor":
        forward = torch.compile(forward)
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: put(run, batch))

    def step():
        adam.zero_grad(set_to_none=True)
        value = forward(*next_batch())
        scaler.scale(value).backward()
        scaler.unscale_(adam)  # the clip is of true gradients
        scaler.step(adam)
        scaler.update()
        return value.detach()

    return Work(
        step=step,
        wait=torch.cuda.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=parameters,
        batches=batches,
        parity={
            "attention": "scaled_dot_product_attention",
            "optimizer": "AdamW, fused",
            "clip": "global norm, foreach" if run.dimensions["clip"] else "none",
            "loss_scaling": "dynamic" if scaler.is_enabled() else "none",
            "compute_dtype": str(half).replace("torch.", "") if run.amp else "float32",
        },
        weights=exchanged,
    )


def put(run, batch):
    """A text.Batch -> tensors: int64, and `predicted` in the model's type."""
    found = []
    for array in batch:
        tensor = torch.from_numpy(array)
        tensor = tensor.to(torch.get_default_dtype() if tensor.is_floating_point() else torch.int64)
        if run.cuda:
            tensor = tensor.pin_memory()
        found.append(tensor.to(run.device, non_blocking=True))
    return found
