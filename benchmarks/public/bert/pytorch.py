"""HuggingFace's BertForPreTraining with scaled_dot_product_attention and a fused AdamW.

Its loss scores every position and ignores those without a label, as it is meant to be used.
"""

import torch
from contestant import answering
from transformers import BertConfig, BertForPreTraining, BertModel

from dlperf.contract.work import Work, feed
from dlperf.workloads.bert import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "transformers 5.23.0, BertForPreTraining"
REQUIREMENTS = "transformers-pytorch.txt"


def training(run):
    config = BertConfig(
        vocab_size=facts.VOCABULARY,
        hidden_dropout_prob=facts.DROPOUT,
        attention_probs_dropout_prob=facts.DROPOUT,
        layer_norm_eps=facts.LAYER_NORM_EPSILON,
        attn_implementation="sdpa",
    )
    network = BertForPreTraining(config).train()
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

    def forward(tokens, segments, mask, labels, follows):
        with torch.autocast(run.device, dtype=torch.bfloat16, enabled=run.amp):
            return network(
                input_ids=tokens,
                token_type_ids=segments,
                attention_mask=mask,
                labels=labels,
                next_sentence_label=follows,
            ).loss

    if run.compiler == "inductor":
        forward = torch.compile(forward)
    batches = open_batches(run, "NHWC")

    def put(tokens, segments, mask, positions, labels, predicted, follows):
        """Its labels stand at their positions, -100 elsewhere."""
        tokens, segments, mask, positions, labels, follows = (
            torch.from_numpy(each).long()
            for each in (tokens, segments, mask, positions, labels, follows)
        )
        labels = labels.masked_fill(torch.from_numpy(predicted) == 0, -100)
        # places left over point at the first token, which is never predicted
        spread = torch.full_like(tokens, -100).scatter_(1, positions, labels)
        return tokens, segments, mask, spread, follows

    next_batch = feed(batches, put)

    def step():
        value = forward(*next_batch())
        adam.zero_grad(set_to_none=True)
        value.backward()
        if run.dimensions["clip"]:
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


def inference(run):
    """BertModel in evaluation mode and inference_mode; frozen where it is compiled."""
    config = BertConfig(
        vocab_size=facts.VOCABULARY,
        layer_norm_eps=facts.LAYER_NORM_EPSILON,
        attn_implementation="sdpa",
    )
    network = BertModel(config, add_pooling_layer=False).eval()
    quiet, forward = torch.inference_mode, network
    if run.compiler == "inductor":  # which freezes weights only outside of inference mode
        quiet, forward = torch.no_grad, torch.compile(network, options={"freezing": True})

    def answer(tokens, segments, mask, *_):
        tokens, segments, mask = (
            torch.from_numpy(each).long() for each in (tokens, segments, mask)
        )
        with quiet():
            found = forward(input_ids=tokens, token_type_ids=segments, attention_mask=mask)
            return found.last_hidden_state.numpy()

    return answering(run, "NHWC", sum(p.numel() for p in network.parameters()), answer)
