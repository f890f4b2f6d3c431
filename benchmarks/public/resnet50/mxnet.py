"""GluonCV's ResNet-50 v1b (stride in the 3x3: v1.5), trained as its ImageNet script does.

Best mode of that script on a CPU: hybridize(static_alloc, static_shape), smoothed one-hot labels,
no decay of gamma, beta and bias, last gamma 0.
"""

import mxnet as mx
from contestant import answering
from gluoncv.model_zoo import get_model
from mxnet import autograd, gluon

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.resnet50 import facts

SOURCE = "gluoncv 0.10.5.post0, model_zoo resnet50_v1b (v1.5)"
REQUIREMENTS = ["gluoncv==0.10.5.post0", "portalocker==4.4.2", "scipy==1.15.3", "tqdm==4.70.1"]


def training(run):
    network = get_model("resnet50_v1b", classes=facts.CLASSES, last_gamma=True)
    network.initialize(mx.init.MSRAPrelu())
    for _, parameter in network.collect_params(".*beta|.*gamma|.*bias").items():
        parameter.wd_mult = 0.0
    if run.compiler == "static":
        network.hybridize(static_alloc=True, static_shape=True)
    criterion = gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False)
    trainer = gluon.Trainer(
        network.collect_params(),
        "sgd",
        {
            "learning_rate": facts.learning_rate(run.global_batch_size),
            "momentum": facts.MOMENTUM,
            "wd": facts.WEIGHT_DECAY,
        },
        kvstore=None,
    )
    batches = open_batches(run, "NCHW")
    next_batch = feed(batches, lambda *batch: [mx.nd.array(each) for each in batch])
    spread = facts.LABEL_SMOOTHING / facts.CLASSES

    def step():
        images, labels = next_batch()
        smoothed = labels.one_hot(
            facts.CLASSES, on_value=1 - facts.LABEL_SMOOTHING + spread, off_value=spread
        )
        with autograd.record():
            value = criterion(network(images), smoothed)
        value.backward()
        trainer.step(run.global_batch_size)
        return value

    step()  # shapes are deferred: only now are there parameters
    return Work(
        step=step,
        wait=mx.nd.waitall,
        loss=lambda value: float(value.asnumpy().mean()),
        parameters=sum(
            p.data().size for p in network.collect_params().values() if p.grad_req != "null"
        ),
        batches=batches,
        parity={},
    )


def inference(run):
    """Static hybridize in prediction mode, with oneDNN's fused operators, as its documents say."""
    network = get_model("resnet50_v1b", classes=facts.CLASSES)
    network.initialize(mx.init.MSRAPrelu())
    size = run.dimensions["image_size"]
    network(mx.nd.zeros((run.batch_size, 3, size, size)))  # shapes are deferred
    if run.compiler == "static":
        network.hybridize(backend="MKLDNN", static_alloc=True, static_shape=True)
    trained = [p for p in network.collect_params().values() if p.grad_req != "null"]
    return answering(
        run,
        "NCHW",
        sum(p.data().size for p in trained),
        lambda images, labels: network(mx.nd.array(images)).asnumpy(),
    )
