"""MindNLP's BERT for graphs, trained in one compiled step with MindSpore's AdamWeightDecay.

MindNLP 0.2.4 and 0.3.1, the last with that BERT, cannot be imported whole with MindSpore 2.10
("cannot import name 'Tensor' from 'mindspore._c_expression'"). Here are its modules of BERT,
unchanged, in empty packages, with a plain cell as PreTrainedModel and MindSpore's own layers, which
MindNLP would replace; so what its MSBertForPretraining ties is tied here. MindNLP 0.4.1 ("module
'mindspore.common' has no attribute '_stub_tensor'") and MindFormers 1.3.2, its last with a BERT
("cannot import name 'py_transforms'"), cannot be imported either. AdamWeightDecay corrects no bias
of its moments; with `experimental.optim.AdamW`, its Trainer's choice (the clip is its too),
a step takes 1.8 times as long.
"""

import sys
import types
from importlib import util

import mindspore as ms
from contestant import answering
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer

from dlperf.contract.work import Work, feed
from dlperf.frameworks.mindspore.training import synchronize
from dlperf.workloads.bert import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "mindnlp 0.3.1, MSBertModel and MSBertPreTrainingHeads; nn.AdamWeightDecay"
REQUIREMENTS = "mindnlp.txt"
BERT = ".transformers.models.bert"


class PreTrainedModel(nn.Cell):
    def __init__(self, config):
        super().__init__()
        self.config = config


def prepare():
    """Let its BERT be imported without what the packages around it import."""
    for name in ("", ".modules", ".transformers", ".transformers.models", BERT):
        found = util.find_spec("mindnlp" + name)
        sys.modules[found.name] = util.module_from_spec(found)
    models = types.ModuleType("mindnlp.transformers.modeling_utils")
    models.PreTrainedModel = PreTrainedModel
    sys.modules[models.__name__] = models


prepare()
from mindnlp.transformers.models.bert import configuration_bert, modeling_graph_bert  # noqa: E402


class Pretraining(nn.Cell):
    """MSBertForPretraining and the losses."""

    def __init__(self, config):
        super().__init__()
        self.bert = modeling_graph_bert.MSBertModel(config)
        self.cls = modeling_graph_bert.MSBertPreTrainingHeads(config)
        self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.embedding_table

    def construct(self, tokens, segments, mask, positions, labels, predicted, follows):
        hidden, pooled = self.bert(tokens, mask, segments)
        words, pairs = self.cls(hidden, pooled, positions)
        each = ops.cross_entropy(words, labels.reshape(-1), reduction="none")
        language = (each * predicted.reshape(-1)).sum() / predicted.sum()
        return language + ops.cross_entropy(pairs, follows)


def training(run):
    # BERT-Base is its default
    config = configuration_bert.BertConfig(layer_norm_eps=facts.LAYER_NORM_EPSILON)
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
    clip = run.dimensions["clip"]

    def update(*batch):
        value, gradients = gradients_of(*batch)
        if clip:
            gradients = ops.clip_by_global_norm(gradients, facts.CLIP_NORM)
        adam(gradients)
        return value

    if run.compiler == "graph":
        update = ms.jit(update)
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda *batch: [Tensor(each) for each in batch])
    return Work(
        step=lambda: update(*next_batch()),
        wait=lambda: synchronize(run),
        loss=lambda value: float(value.asnumpy()),
        parameters=sum(p.size for p in trained),
        batches=batches,
        parity={},
    )


def inference(run):
    """MSBertModel in evaluation mode, as one graph where asked for."""
    config = configuration_bert.BertConfig(layer_norm_eps=facts.LAYER_NORM_EPSILON)
    network = modeling_graph_bert.MSBertModel(config, add_pooling_layer=False)
    network.set_train(False)
    for parameter in network.trainable_params():
        if parameter.ndim > 1:
            parameter.set_data(initializer(Normal(facts.INITIAL_DEVIATION), parameter.shape))

    def encoded(tokens, mask, segments):
        return network(tokens, mask, segments)[0]

    forward = ms.jit(encoded) if run.compiler == "graph" else encoded

    def answer(tokens, segments, mask, *_):
        return forward(Tensor(tokens), Tensor(mask), Tensor(segments)).asnumpy()

    return answering(run, "NHWC", sum(p.size for p in network.trainable_params()), answer)
