"""MindNLP's BERT for graphs, whose layers are ELECTRA's, as ELECTRA's code puts them.

MindNLP 0.3.1 has an empty folder for ELECTRA, and 0.4.1 cannot be imported with MindSpore 2.10. So
these are its modules of BERT, by the way round of ../bert/mindspore.py, in the step of
google-research/electra: embeddings that two encoders share, and a projection behind them. The
optimizer is off in both: MindSpore's LAMB has no kernel for a CPU.
"""

import sys
import types
from importlib import util

import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer
from without_optimizer.mindspore import Nothing

from dlperf.contract.work import Work, feed
from dlperf.frameworks.mindspore.training import synchronize
from dlperf.workloads.electra import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "mindnlp 0.3.1, MSBertEmbeddings, MSBertEncoder and MSBertLMPredictionHead"
REQUIREMENTS = "mindnlp.txt"
WITHOUT_OPTIMIZER = True


def prepare():
    """Let its BERT be imported without what the packages around it import."""
    for name in ("", ".modules", ".transformers", ".transformers.models"):
        found = util.find_spec("mindnlp" + name)
        sys.modules[found.name] = util.module_from_spec(found)
    found = util.find_spec("mindnlp.transformers.models.bert")
    sys.modules[found.name] = util.module_from_spec(found)
    models = types.ModuleType("mindnlp.transformers.modeling_utils")
    models.PreTrainedModel = nn.Cell  # none of these is one
    sys.modules[models.__name__] = models


prepare()
from mindnlp.transformers.models.bert import configuration_bert, modeling_graph_bert  # noqa: E402


def configuration(width, heads, inner_width):
    return configuration_bert.BertConfig(
        vocab_size=facts.VOCABULARY,
        hidden_size=width,
        num_hidden_layers=facts.LAYERS,
        num_attention_heads=heads,
        intermediate_size=inner_width,
        layer_norm_eps=facts.LAYER_NORM_EPSILON,
    )


class Electra(nn.Cell):
    """The loss of a batch."""

    def __init__(self):
        super().__init__()
        small = facts.GENERATOR_WIDTH, facts.GENERATOR_HEADS, facts.GENERATOR_INNER_WIDTH
        large = configuration(facts.WIDTH, facts.HEADS, facts.INNER_WIDTH)
        self.embeddings = modeling_graph_bert.MSBertEmbeddings(large)
        self.embeddings_project = nn.Dense(facts.WIDTH, facts.GENERATOR_WIDTH)
        self.generator = modeling_graph_bert.MSBertEncoder(configuration(*small))
        self.predictions = modeling_graph_bert.MSBertLMPredictionHead(large)
        self.predictions.transform.dense = nn.Dense(facts.GENERATOR_WIDTH, facts.WIDTH)
        self.predictions.decoder.weight = self.embeddings.word_embeddings.embedding_table
        self.discriminator = modeling_graph_bert.MSBertEncoder(large)
        self.discriminator_dense = nn.Dense(facts.WIDTH, facts.WIDTH)
        self.discriminator_prediction = nn.Dense(facts.WIDTH, 1)

    def embed(self, tokens, segments):
        places = ops.broadcast_to(ops.arange(tokens.shape[1]), tokens.shape)
        return self.embeddings(tokens, segments, places)

    def construct(self, tokens, segments, mask, positions, labels, chosen):
        x = self.embeddings_project(self.embed(tokens, segments))
        words = self.predictions(self.generator(x, mask)[0], positions)
        each = ops.cross_entropy(words, labels.reshape(-1), reduction="none")
        generator = (each * chosen.reshape(-1)).sum() / chosen.sum()

        noise = -ops.log(ops.rand_like(words) + facts.NOISE_EPSILON)
        noise = -ops.log(noise + facts.NOISE_EPSILON)
        drawn = ops.argmax(ops.stop_gradient(words) + noise, -1).astype(ms.int32)
        # places left over point at the first token, which is never hidden
        drawn = ops.select(chosen > 0, drawn.reshape(labels.shape), labels)
        original = ops.tensor_scatter_elements(tokens, positions, labels, axis=1)
        replaced = ops.tensor_scatter_elements(tokens, positions, drawn, axis=1)
        fake = (replaced != original).astype(ms.float32)
        x = self.discriminator(self.embed(replaced, segments), mask)[0]
        found = self.discriminator_prediction(ops.gelu(self.discriminator_dense(x))).reshape(
            tokens.shape
        )
        one, there = ops.ones_like(found), mask.astype(ms.float32)
        each = ops.binary_cross_entropy_with_logits(found, fake, there, one, reduction="sum")
        return generator + facts.DISCRIMINATOR_WEIGHT * each / there.sum()


def training(run):
    network = Electra().set_train()
    trained = network.trainable_params()
    for parameter in trained:
        if parameter.ndim > 1:
            parameter.set_data(initializer(Normal(facts.INITIAL_DEVIATION), parameter.shape))
    nothing = Nothing(trained)
    gradients_of = ms.value_and_grad(network, None, nothing.parameters)

    def update(*batch):
        value, gradients = gradients_of(*batch)
        nothing(gradients)
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
