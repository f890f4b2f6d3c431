"""MindCV's ResNet-50, loss and optimizer in MindSpore's own training cell, as its train.py builds.

MindCV trains in GRAPH_MODE; ms.jit on the cell compiles the same graph.
"""

import mindspore as ms
from contestant import answering
from mindcv.loss import create_loss
from mindcv.models import create_model
from mindcv.optim import create_optimizer
from mindspore import Tensor, nn

from dlperf.contract.work import Work, feed
from dlperf.frameworks.mindspore.training import synchronize
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.resnet50 import facts

SOURCE = "mindcv 0.3.0, models.resnet50 (v1.5)"
REQUIREMENTS = ["mindcv==0.3.0", "PyYAML==6.0.3", "tqdm==4.67.1"]


def training(run):
    network = create_model("resnet50", num_classes=facts.CLASSES)
    momentum = create_optimizer(
        network.trainable_params(),
        opt="momentum",
        lr=facts.learning_rate(run.global_batch_size),
        weight_decay=facts.WEIGHT_DECAY,
        momentum=facts.MOMENTUM,
        weight_decay_filter="norm_and_bias",
    )
    criterion = create_loss("CE", label_smoothing=facts.LABEL_SMOOTHING)
    train = nn.TrainOneStepCell(nn.WithLossCell(network, criterion), momentum).set_train()
    if run.compiler == "graph":
        train = ms.jit(train)
    batches = open_batches(run, "NCHW")
    next_batch = feed(batches, lambda images, labels: (Tensor(images), Tensor(labels)))

    return Work(
        step=lambda: train(*next_batch()),
        wait=lambda: synchronize(run),
        loss=lambda value: float(value.asnumpy()),
        parameters=sum(p.size for p in network.trainable_params()),
        batches=batches,
        parity={},
    )


def inference(run):
    """Evaluation mode, as one graph where asked for."""
    network = create_model("resnet50", num_classes=facts.CLASSES)
    network.set_train(False)
    forward = ms.jit(network) if run.compiler == "graph" else network
    return answering(
        run,
        "NCHW",
        sum(p.size for p in network.trainable_params()),
        lambda images, labels: forward(Tensor(images)).asnumpy(),
    )
