"""The form of nanoGPT's model.py and bench.py: small modules, fused attention, a tied head, AdamW.

Query, key and value are one product, heads are split by views, weights decay where they have two
dimensions, and gradients are clipped by torch's own function. GELU by tanh, as ours: theirs is by
the error function.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.gpt import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "karpathy/nanoGPT, model.py"
REQUIREMENTS = []


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.resid_dropout = nn.Dropout(facts.DROPOUT)
        self.heads, self.width = heads, width

    def forward(self, x):
        batch, tokens, width = x.size()
        shape = batch, tokens, self.heads, width // self.heads
        q, k, v = (
            each.view(shape).transpose(1, 2) for each in self.c_attn(x).split(self.width, dim=2)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=facts.ATTENTION_DROPOUT, is_causal=True
        )
        y = y.transpose(1, 2).contiguous().view(batch, tokens, width)
        return self.resid_dropout(self.c_proj(y))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=facts.LAYER_NORM_EPSILON)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width, eps=facts.LAYER_NORM_EPSILON)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * width, width),
            nn.Dropout(facts.DROPOUT),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width = sizes["width"]
        self.wte = nn.Embedding(facts.VOCABULARY, width)
        self.wpe = nn.Embedding(sizes["sequence_length"], width)
        self.drop = nn.Dropout(facts.DROPOUT)
        self.h = nn.ModuleList(Block(width, sizes["heads"]) for _ in range(sizes["layers"]))
        self.ln_f = nn.LayerNorm(width, eps=facts.LAYER_NORM_EPSILON)
        self.lm_head = nn.Linear(width, facts.VOCABULARY, bias=False)
        self.wte.weight = self.lm_head.weight
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=facts.INITIAL_DEVIATION)

    def forward(self, tokens, labels):
        positions = torch.arange(0, tokens.size(1), device=tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-1)


def training(run):
    network = GPT(run.dimensions).train()
    trained = list(network.parameters())
    adam = torch.optim.AdamW(
        [
            {"params": [p for p in trained if p.dim() >= 2], "weight_decay": facts.WEIGHT_DECAY},
            {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        fused=True,
    )

    def forward(tokens, labels):
        with torch.autocast(run.device, dtype=torch.bfloat16, enabled=run.amp):
            return network(tokens, labels)

    if run.compiler == "inductor":
        forward = torch.compile(forward)
    batches = open_batches(run)
    next_batch = feed(batches, lambda *arrays: [torch.from_numpy(each).long() for each in arrays])

    def step():
        value = forward(*next_batch())
        value.backward()
        torch.nn.utils.clip_grad_norm_(trained, facts.CLIP_NORM)
        adam.step()
        adam.zero_grad(set_to_none=True)
        return value.detach()

    return Work(
        step=step,
        wait=lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in trained),
        batches=batches,
        parity={},
    )
