"""HuggingFace's ElectraForMaskedLM and ElectraForPreTraining, in the loop of electra_pytorch.

That loop (richarddwang/electra_pytorch) shares the embeddings, takes the generator's words at all
positions and picks the hidden ones, draws by Gumbel's noise, and weighs the discriminator's loss by
50. Sizes are ours. There is no LAMB in either: the optimizer is off in both.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

from dlperf.contract.work import Work, feed
from dlperf.workloads.electra import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "transformers 5.23.0, ElectraForMaskedLM and ElectraForPreTraining"
REQUIREMENTS = "transformers-pytorch.txt"
WITHOUT_OPTIMIZER = True


def configuration(width, heads, inner_width):
    return ElectraConfig(
        vocab_size=facts.VOCABULARY,
        embedding_size=facts.WIDTH,
        hidden_size=width,
        num_hidden_layers=facts.LAYERS,
        num_attention_heads=heads,
        intermediate_size=inner_width,
        hidden_dropout_prob=facts.DROPOUT,
        attention_probs_dropout_prob=facts.DROPOUT,
        layer_norm_eps=facts.LAYER_NORM_EPSILON,
        attn_implementation="sdpa",
    )


class Electra(nn.Module):
    def __init__(self):
        super().__init__()
        small = facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH
        self.generator = ElectraForMaskedLM(configuration(*small))
        large = facts.WIDTH, facts.HEADS, facts.INNER_WIDTH
        self.discriminator = ElectraForPreTraining(configuration(*large))
        self.discriminator.electra.embeddings = self.generator.electra.embeddings

    def forward(self, tokens, segments, mask, hidden, labels):
        """hidden: which tokens the generator fills in. labels: of those, in order of rows."""
        words = self.generator(tokens, mask, segments).logits[hidden]
        generator = F.cross_entropy(words, labels)
        with torch.no_grad():
            noise = -torch.log(-torch.log(torch.rand_like(words) + 1e-9) + 1e-9)
            samples = (words + noise).argmax(-1)
            replaced = tokens.masked_scatter(hidden, samples)
            fake = torch.zeros_like(hidden).masked_scatter(hidden, samples != labels)
        found = self.discriminator(replaced, mask, segments).logits
        there = mask.bool()
        discriminator = F.binary_cross_entropy_with_logits(found[there], fake[there].float())
        return generator + facts.DISCRIMINATOR_WEIGHT * discriminator


def training(run):
    network = Electra().train()
    forward = torch.compile(network) if run.compiler == "inductor" else network
    batches = open_batches(run)

    def put(tokens, segments, mask, positions, labels, chosen, *_):
        """Labels stand at their positions first, then in order of rows."""
        tokens, segments, mask, positions, labels = (
            torch.from_numpy(each).long() for each in (tokens, segments, mask, positions, labels)
        )
        used = torch.from_numpy(chosen) > 0
        # places left over point at the first token, which is never hidden
        spread = torch.full_like(tokens, -1).scatter_(1, positions, labels.masked_fill(~used, -1))
        hidden = spread >= 0
        return tokens, segments, mask, hidden, spread[hidden]

    next_batch = feed(batches, put)

    def step():
        network.zero_grad(set_to_none=True)
        value = forward(*next_batch())
        value.backward()
        return value.detach()

    return Work(
        step=step,
        wait=lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in network.parameters()),
        batches=batches,
        parity={},
    )
