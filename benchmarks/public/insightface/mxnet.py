"""GluonFR's MobileFaceNet with its ArcLoss, of `y1` alone: it has no improved ResNet.

Its best mode on a CPU: network and loss as one block, hybridize(static_alloc, static_shape), as its
own script hybridizes both; MXNet's SGD, as there. A PReLU has one slope, not one a channel;
embeddings come of a 1x1 convolution without bias, and their norm has neither scale nor shift.
"""

import importlib.util
import sys

import mxnet as mx
from mxnet import autograd, gluon

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.insightface import facts

# gluonfr without its __init__, which imports data sets and plots
sys.modules["gluonfr"] = importlib.util.module_from_spec(importlib.util.find_spec("gluonfr"))

from gluonfr.loss import ArcLoss  # noqa: E402
from gluonfr.model_zoo.mobile_facenet import get_mobile_facenet  # noqa: E402

SOURCE = "gluonfr 1.0.2, get_mobile_facenet and ArcLoss"
REQUIREMENTS = ["gluonfr==1.0.2"]


class Face(gluon.HybridBlock):
    def __init__(self, classes):
        super().__init__()
        self.network = get_mobile_facenet(classes, weight_norm=True, feature_norm=True)
        self.loss = ArcLoss(classes, m=facts.ARC_MARGIN, s=facts.SCALE, easy_margin=False)

    def hybrid_forward(self, F, images, labels):
        _, cosines = self.network(images)
        return self.loss(cosines, labels)


def training(run):
    backbone = run.dimensions["backbone"]
    if backbone != "y1":
        raise ValueError(f"GluonFR has no backbone {backbone}")
    network = Face(run.dimensions["num_classes"])
    network.initialize(mx.init.Normal(facts.DEVIATION))
    if run.compiler == "static":
        network.hybridize(static_alloc=True, static_shape=True)
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
    next_batch = feed(
        batches, lambda *batch: [mx.nd.array(each, dtype="float32") for each in batch]
    )

    def step():
        batch = next_batch()
        with autograd.record():
            value = network(*batch)
        value.backward()
        trainer.step(run.batch_size)
        return value

    step()  # shapes are deferred: only now are there parameters
    trained = [p for p in network.collect_params().values() if p.grad_req != "null"]
    return Work(
        step=step,
        wait=mx.nd.waitall,
        loss=lambda value: float(value.mean().asnumpy()),
        parameters=sum(p.data().size for p in trained),
        batches=batches,
        parity={},
    )
