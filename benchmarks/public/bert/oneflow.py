"""LiBai's BertForPreTraining, its losses, parameter groups and training loop, eager on a CPU.

Its configurations run an nn.Graph, which takes more of a CPU's time. Its last release on PyPI is
made for OneFlow 0.7; what keeps it from 0.9.0 on a CPU is gone round:
- Its data readers name np.float, which NumPy dropped: the models are imported without them.
- Its LayerNorm calls a kernel that OneFlow has not written for a CPU: the process is aborted in
  layer_norm_cpu_kernel.cpp. OneFlow's nn.LayerNorm is made of other operations: it stands in.
- fused_bias_add_gelu, fused_bias_add_dropout and fused_scale_mask_softmax have no kernel for a CPU
  (op_kernel_not_found_error): off.
- Its graph asks a proxy for `origin` (AttributeError), to number stages: there is one.

Layers are normalised before, not after, as often, and words are scored at every position. Gradients
are clipped as in its loop: weights to a norm together, biases and layer-norms to one of their own.
"""

import importlib.util
import sys

import numpy as np
import oneflow as flow
from oneflow import nn

# libai without its __init__, which imports the data readers
sys.modules["libai"] = importlib.util.module_from_spec(importlib.util.find_spec("libai"))

from contestant import answering  # noqa: E402
from libai.layers import LayerNorm  # noqa: E402
from libai.models import BertForPreTraining, BertModel  # noqa: E402
from libai.models.utils import GraphBase  # noqa: E402
from libai.optim import get_default_optimizer_params  # noqa: E402
from libai.utils import distributed as dist  # noqa: E402
from omegaconf import DictConfig  # noqa: E402

from dlperf.contract.work import Work, feed  # noqa: E402
from dlperf.workloads.bert import facts  # noqa: E402
from dlperf.workloads.inputs import open_batches  # noqa: E402

SOURCE = "libai 0.1.1, BertForPreTraining"
REQUIREMENTS = "libai.txt"
BUILD_CONSTRAINTS = ["setuptools<70"]  # flowvision is an sdist that imports pkg_resources
BUILD_REQUIREMENTS = {"libai": ["pybind11==2.13.6"]}  # its setup.py imports it and does not say so

LayerNorm.forward = flow.nn.LayerNorm.forward  # of the same attributes


class TrainingGraph(GraphBase):
    def set_pipeline_stage_id(self):
        """There is one stage."""


def configuration():
    return DictConfig(
        {
            "vocab_size": facts.VOCABULARY,
            "hidden_size": facts.WIDTH,
            "hidden_layers": facts.LAYERS,
            "num_attention_heads": facts.HEADS,
            "intermediate_size": facts.INNER_WIDTH,
            "hidden_dropout_prob": facts.DROPOUT,
            "attention_probs_dropout_prob": facts.DROPOUT,
            "max_position_embeddings": facts.POSITIONS,
            "num_tokentypes": facts.SEGMENTS,
            "add_pooling_layer": True,
            "add_binary_head": True,
            "initializer_range": facts.INITIAL_DEVIATION,
            "layernorm_eps": facts.LAYER_NORM_EPSILON,
            "bias_gelu_fusion": False,
            "bias_dropout_fusion": False,
            "scale_mask_softmax_fusion": False,
            "apply_query_key_layer_scaling": False,  # which is for float16
            "amp_enabled": False,
        }
    )


def training(run):
    network = BertForPreTraining(configuration()).train()
    norm = {"clip_grad_max_norm": facts.CLIP_NORM, "clip_grad_norm_type": 2.0}
    clip = norm if run.dimensions["clip"] else {}
    adam = flow.optim.AdamW(
        get_default_optimizer_params(network, weight_decay_norm=0.0, weight_decay_bias=0.0, **clip),
        lr=facts.learning_rate(run.global_batch_size),
        betas=(facts.BETA1, facts.BETA2),
        eps=facts.EPSILON,
        weight_decay=facts.WEIGHT_DECAY,
    )

    def eager(**batch):
        values = network(**batch)
        sum(values.values()).backward()
        if clip:
            adam.clip_grad()
        adam.step()
        adam.zero_grad(set_to_none=True)
        return values

    train = TrainingGraph(network, adam) if run.compiler == "graph" else eager
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, put)

    def step():
        return sum(train(**next_batch()).values()).detach()

    return Work(
        step=step,
        wait=flow._oneflow_internal.eager.Sync,
        loss=lambda value: value.to_local().item(),
        parameters=sum(p.numel() for p in network.parameters()),
        batches=batches,
        parity={},
    )


def put(tokens, segments, mask, positions, labels, predicted, follows):
    """A text.Batch -> libai's global tensors by name; labels and their mask at every token."""
    words, scored = np.zeros_like(tokens), np.zeros_like(tokens)
    # places left over point at the first token, which is never predicted
    np.put_along_axis(words, positions, labels, 1)
    np.put_along_axis(scored, positions, predicted.astype(tokens.dtype), 1)
    names = "input_ids attention_mask tokentype_ids ns_labels lm_labels loss_mask".split()
    arrays = tokens, mask, segments, follows, words, scored
    where = {"placement": dist.get_layer_placement(0), "sbp": dist.get_hidden_sbp()}
    return {
        name: flow.from_numpy(array.astype(np.int64)).to_global(**where)
        for name, array in zip(names, arrays, strict=True)
    }


class InferenceGraph(nn.Graph):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def build(self, tokens, mask, segments):
        return self.network(tokens, mask, segments)[0]


def inference(run):
    """BertModel in evaluation mode without gradients: eager, or nn.Graph where asked for."""
    network = BertModel(configuration()).eval()
    graph = InferenceGraph(network) if run.compiler == "graph" else None
    where = {"placement": dist.get_layer_placement(0), "sbp": dist.get_hidden_sbp()}

    def answer(tokens, segments, mask, *_):
        batch = [
            flow.from_numpy(each.astype(np.int64)).to_global(**where)
            for each in (tokens, mask, segments)
        ]
        with flow.no_grad():
            found = graph(*batch) if graph else network(*batch)[0]
        return found.to_local().numpy()

    return answering(run, "NHWC", sum(p.numel() for p in network.parameters()), answer)
