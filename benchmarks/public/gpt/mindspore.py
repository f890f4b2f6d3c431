"""MindNLP's GPT-2 for graphs, trained in one compiled step with MindSpore's AdamWeightDecay.

MindNLP 0.3.1 cannot be imported whole with MindSpore 2.10: here are its modules of GPT-2,
unchanged, in empty packages, as in ../bert/mindspore.py, which says why. Its head is tied here, as
its GPT2LMHeadModel does it in PreTrainedModel, which is a plain cell here. Its "gelu_new" is
MindSpore's GELU by tanh. AdamWeightDecay corrects no bias of its moments.
"""

import sys
import types
from importlib import util

import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer

from dlperf.contract.work import Work, feed
from dlperf.frameworks.mindspore.training import synchronize
from dlperf.workloads.gpt import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "mindnlp 0.3.1, graph GPT2Model; nn.AdamWeightDecay"
REQUIREMENTS = "mindnlp.txt"
GPT2 = ".transformers.models.gpt2"


class PreTrainedModel(nn.Cell):
    def __init__(self, config):
        super().__init__()
        self.config = config

    def post_init(self):
        """Its weights are drawn below."""


def prepare():
    """Let its GPT-2 be imported without what the packages around it import."""
    for name in ("", ".modules", ".transformers", ".transformers.models", GPT2):
        found = util.find_spec("mindnlp" + name)
        sys.modules[found.name] = util.module_from_spec(found)
    models = types.ModuleType("mindnlp.transformers.modeling_utils")
    models.PreTrainedModel = PreTrainedModel
    models.SequenceSummary = None  # of a head that is not used
    sys.modules[models.__name__] = models


prepare()
from mindnlp.transformers.models.gpt2 import configuration_gpt2, modeling_graph_gpt2  # noqa: E402


class Pretraining(nn.Cell):
    """GPT2LMHeadModel and the loss of all positions."""

    def __init__(self, config):
        super().__init__()
        self.transformer = modeling_graph_gpt2.GPT2Model(config)
        self.lm_head = nn.Dense(config.hidden_size, config.vocab_size, has_bias=False)
        self.lm_head.weight = self.transformer.wte.embedding_table

    def construct(self, tokens, labels):
        scores = self.lm_head(self.transformer(tokens)[0])
        return ops.cross_entropy(scores.reshape((-1, scores.shape[-1])), labels.reshape(-1))


def training(run):
    sizes = run.dimensions
    config = configuration_gpt2.GPT2Config(
        vocab_size=facts.VOCABULARY,
        n_positions=sizes["sequence_length"],
        n_embd=sizes["width"],
        n_layer=sizes["layers"],
        n_head=sizes["heads"],
        resid_pdrop=facts.DROPOUT,
        embd_pdrop=facts.DROPOUT,
        attn_pdrop=facts.ATTENTION_DROPOUT,
        layer_norm_epsilon=facts.LAYER_NORM_EPSILON,
        use_cache=False,
    )
    network = Pretraining(config).set_train()
    trained = network.trainable_params()
    for parameter in trained:
        if parameter.ndim > 1:
            parameter.set_data(initializer(Normal(facts.INITIAL_DEVIATION), parameter.shape))
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": facts.WEIGHT_DECAY},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    rate = facts.learning_rate(run.global_batch_size)
    adam = nn.AdamWeightDecay(groups, rate, facts.BETA1, facts.BETA2, facts.EPSILON)
    gradients_of = ms.value_and_grad(network, None, adam.parameters)

    def update(*batch):
        value, gradients = gradients_of(*batch)
        adam(ops.clip_by_global_norm(gradients, facts.CLIP_NORM))
        return value

    if run.compiler == "graph":
        update = ms.jit(update)
    batches = open_batches(run)
    next_batch = feed(batches, lambda *batch: [Tensor(each) for each in batch])
    return Work(
        step=lambda: update(*next_batch()),
        wait=lambda: synchronize(run),
        loss=lambda value: float(value.asnumpy()),
        parameters=sum(p.size for p in trained),
        batches=batches,
        parity={},
    )
