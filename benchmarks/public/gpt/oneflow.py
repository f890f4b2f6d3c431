"""LiBai's GPTForPreTraining, its loss, parameter groups and training loop, eager on a CPU.

Its configurations run an nn.Graph, which takes more of a CPU's time. What keeps its last release on
PyPI from OneFlow 0.9.0 on a CPU is gone round as in ../bert/oneflow.py, which says why: no data
readers, OneFlow's LayerNorm, no fused kernels. Its GELU is exact. Query, key and value of a head
lie side by side, its mask is multiplied and added, gradients are clipped as in its loop: weights to
a norm together, biases and layer-norms to one of their own.
"""

import importlib.util
import sys

import numpy as np
import oneflow as flow

# libai without its __init__, which imports the data readers
sys.modules["libai"] = importlib.util.module_from_spec(importlib.util.find_spec("libai"))

from libai.layers import LayerNorm  # noqa: E402
from libai.models import GPTForPreTraining  # noqa: E402
from libai.models.utils import GraphBase  # noqa: E402
from libai.optim import get_default_optimizer_params  # noqa: E402
from libai.utils import distributed as dist  # noqa: E402
from omegaconf import DictConfig  # noqa: E402

from dlperf.contract.work import Work, feed  # noqa: E402
from dlperf.workloads.gpt import facts  # noqa: E402
from dlperf.workloads.inputs import open_batches  # noqa: E402

SOURCE = "libai 0.1.1, GPTForPreTraining"
REQUIREMENTS = "libai.txt"
BUILD_CONSTRAINTS = ["setuptools<70"]  # flowvision is an sdist that imports pkg_resources
BUILD_REQUIREMENTS = {"libai": ["pybind11==2.13.6"]}  # its setup.py imports it and does not say so

LayerNorm.forward = flow.nn.LayerNorm.forward  # of the same attributes


class TrainingGraph(GraphBase):
    def set_pipeline_stage_id(self):
        """There is one stage."""


def configuration(sizes):
    return DictConfig(
        {
            "num_layers": sizes["layers"],
            "vocab_size": facts.VOCABULARY,
            "hidden_size": sizes["width"],
            "ffn_hidden_size": 4 * sizes["width"],
            "num_attention_heads": sizes["heads"],
            "max_seq_length": sizes["sequence_length"],
            "embedding_dropout_prob": facts.DROPOUT,
            "attention_dropout_prob": facts.ATTENTION_DROPOUT,
            "output_dropout_prob": facts.DROPOUT,
            "layernorm_epsilon": facts.LAYER_NORM_EPSILON,
            "initializer_range": facts.INITIAL_DEVIATION,
            "use_scaled_init_for_output_weights": True,
            "bias_gelu_fusion": False,
            "bias_dropout_fusion": False,
            "scale_mask_softmax_fusion": False,
            "apply_query_key_layer_scaling": False,  # which is for float16
            "amp_enabled": False,
        }
    )


def training(run):
    network = GPTForPreTraining(configuration(run.dimensions)).train()
    clip = {"clip_grad_max_norm": facts.CLIP_NORM, "clip_grad_norm_type": 2.0}
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
        adam.clip_grad()
        adam.step()
        adam.zero_grad(set_to_none=True)
        return values

    train = TrainingGraph(network, adam) if run.compiler == "graph" else eager
    batches = open_batches(run)
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


def put(tokens, labels):
    """libai's global tensors by name."""
    where = {"placement": dist.get_layer_placement(0), "sbp": dist.get_hidden_sbp()}
    return {
        name: flow.from_numpy(array.astype(np.int64)).to_global(**where)
        for name, array in (("input_ids", tokens), ("labels", labels))
    }
