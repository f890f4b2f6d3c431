"""GluonNLP's BERT, trained as its pre-training script does (scripts/bert/run_pretraining.py).

Best mode of that script on a CPU: network and losses as one block, hybridize(static_alloc,
static_shape), BERTAdam and a clip by global norm without a wait; no decay of gamma, beta and bias.
BERTAdam corrects no bias of its moments: two numbers a step, no work on tensors.
"""

import mxnet as mx
from contestant import answering
from gluonnlp.model.bert import BERTEncoder, BERTModel
from gluonnlp.optimizer import BERTAdam
from gluonnlp.utils import clip_grad_global_norm
from mxnet import autograd, gluon

from dlperf.contract.work import Work, feed
from dlperf.workloads.bert import facts
from dlperf.workloads.inputs import open_batches

SOURCE = "gluonnlp 0.10.0, model.bert BERTModel, optimizer BERTAdam"
REQUIREMENTS = ["gluonnlp==0.10.0", "packaging==24.0"]


def encoder():
    return BERTEncoder(
        num_layers=facts.LAYERS,
        units=facts.WIDTH,
        hidden_size=facts.INNER_WIDTH,
        max_length=facts.POSITIONS,
        num_heads=facts.HEADS,
        dropout=facts.DROPOUT,
        layer_norm_eps=facts.LAYER_NORM_EPSILON,
    )


class Pretraining(gluon.HybridBlock):
    """The script's BERTForPretrain: the model and both losses."""

    def __init__(self):
        super().__init__()
        self.bert = BERTModel(
            encoder(),
            vocab_size=facts.VOCABULARY,
            token_type_vocab_size=facts.SEGMENTS,
            units=facts.WIDTH,
            embed_size=facts.WIDTH,
        )
        self.mlm_loss = gluon.loss.SoftmaxCELoss()
        self.nsp_loss = gluon.loss.SoftmaxCELoss()

    def hybrid_forward(self, F, tokens, segments, lengths, positions, labels, predicted, follows):
        _, _, classified, decoded = self.bert(tokens, segments, lengths, positions)
        decoded = decoded.reshape((-3, 0))
        each = self.mlm_loss(decoded, labels.reshape((-1,)), predicted.reshape((-1, 1)))
        return each.sum() / predicted.sum() + self.nsp_loss(classified, follows).mean()


def training(run):
    network = Pretraining()
    network.initialize(mx.init.Normal(facts.INITIAL_DEVIATION))
    for _, parameter in network.collect_params(".*beta|.*gamma|.*bias").items():
        parameter.wd_mult = 0.0
    if run.compiler == "static":
        network.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(
        network.collect_params(),
        BERTAdam(
            learning_rate=facts.learning_rate(run.global_batch_size),
            beta1=facts.BETA1,
            beta2=facts.BETA2,
            epsilon=facts.EPSILON,
            wd=facts.WEIGHT_DECAY,
        ),
        kvstore=None,
        update_on_kvstore=False,
    )
    trained = [p for p in network.collect_params().values() if p.grad_req != "null"]
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, put)

    def step():
        batch = next_batch()
        with autograd.record():
            value = network(*batch)
        value.backward()
        if run.dimensions["clip"]:
            clip_grad_global_norm(trained, facts.CLIP_NORM, check_isfinite=False)
        trainer.update(1)
        return value

    step()  # shapes are deferred: only now are there parameters
    return Work(
        step=step,
        wait=mx.nd.waitall,
        loss=lambda value: float(value.asnumpy()),
        parameters=sum(p.data().size for p in trained),
        batches=batches,
        parity={},
    )


def put(tokens, segments, mask, positions, labels, predicted, follows):
    """A text.Batch -> arrays; of the mask, GluonNLP wants the lengths."""
    arrays = tokens, segments, mask.sum(1), positions, labels, predicted, follows
    return [mx.nd.array(each, dtype="float32") for each in arrays]


def inference(run):
    """BERTModel's encoder alone, static hybridize in prediction mode."""
    network = BERTModel(
        encoder(),
        vocab_size=facts.VOCABULARY,
        token_type_vocab_size=facts.SEGMENTS,
        units=facts.WIDTH,
        embed_size=facts.WIDTH,
        use_pooler=False,
        use_decoder=False,
        use_classifier=False,
    )
    network.initialize(mx.init.Normal(facts.INITIAL_DEVIATION))
    if run.compiler == "static":
        network.hybridize(static_alloc=True, static_shape=True)

    def answer(tokens, segments, mask, *_):
        lengths = mask.sum(1)
        batch = (mx.nd.array(each, dtype="float32") for each in (tokens, segments, lengths))
        return network(*batch).asnumpy()

    work = answering(run, "NHWC", 0, answer)
    work.answer(*work.batches.next())  # shapes are deferred: only now are there parameters
    work.parameters = sum(p.data().size for p in network.collect_params().values())
    return work
