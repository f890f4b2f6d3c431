"""HuggingFace's GPT2LMHeadModel in `deepspeed.initialize`, as DeepSpeed's tutorials train a model.

The engine clips and updates; its optimizer is torch's fused AdamW, as in ./pytorch.py, whose model
this is too.
"""

import deepspeed
import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from dlperf.contract.work import Work, feed
from dlperf.workloads.gpt import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "transformers 5.23.0, GPT2LMHeadModel in deepspeed 0.19.8"
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
    asked = {
        "train_micro_batch_size_per_gpu": run.batch_size,
        "gradient_clipping": facts.CLIP_NORM,
        "zero_optimization": {"stage": run.layout.zero_stage},
    }
    engine, *_ = deepspeed.initialize(model=network, optimizer=adam, config=asked)
    batches = open_batches(run)
    next_batch = feed(batches, lambda *arrays: [torch.from_numpy(each).long() for each in arrays])

    def step():
        tokens, labels = next_batch()
        scores = engine(input_ids=tokens).logits
        value = F.cross_entropy(scores.flatten(0, 1), labels.flatten())
        engine.backward(value)
        engine.step()
        return value.detach()

    return Work(
        step=step,
        wait=lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in trained),
        batches=batches,
        parity={},
    )
