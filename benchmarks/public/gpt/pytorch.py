"""HuggingFace's GPT2LMHeadModel with scaled_dot_product_attention and a fused AdamW.

Its `gelu_new` is GPT-2's form by tanh, its head the word embedding, its query, key and value one
product, as ours. The loss is the cross-entropy of all positions.
"""

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from dlperf.contract.work import Work, feed
from dlperf.workloads.gpt import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "transformers 5.23.0, GPT2LMHeadModel"
REQUIREMENTS = "transformers-pytorch.txt"


def training(run):
    sizes = run.dimensions
    config = GPT2Config(
        vocab_size=facts.VOCABULARY,
        n_positions=sizes["sequence_length"],
        n_embd=sizes["width"],
        n_layer=sizes["layers"],
        n_head=sizes["heads"],
        resid_pdrop=facts.DROPOUT,
        embd_pdrop=facts.DROPOUT,
        attn_pdrop=facts.ATTENTION_DROPOUT,
        layer_norm_epsilon=facts.LAYER_NORM_EPSILON,
        attn_implementation="sdpa",
        use_cache=False,
    )
    network = GPT2LMHeadModel(config).train()
    trained = list(network.parameters())
    adam = torch.optim.AdamW(
        [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": facts.WEIGHT_DECAY},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        fused=True,
    )

    def forward(tokens, labels):
        with torch.autocast(run.device, dtype=torch.bfloat16, enabled=run.amp):
            scores = network(input_ids=tokens).logits
            return F.cross_entropy(scores.flatten(0, 1), labels.flatten())

    if run.compiler == "inductor":
        forward = torch.compile(forward)
    batches = open_batches(run)
    next_batch = feed(batches, lambda *arrays: [torch.from_numpy(each).long() for each in arrays])

    def step():
        value = forward(*next_batch())
        adam.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(trained, facts.CLIP_NORM)
        adam.step()
        return value.detach()

    return Work(
        step=step,
        wait=lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in trained),
        batches=batches,
        parity={},
    )
