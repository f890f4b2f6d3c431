"""ResNet-50 v1.5 in OneFlow.

As fast as it gets: nn.Graph with updates and additions fused; on the CPU eager is as fast, because
OpenBLAS (frameworks/oneflow chooses its kernels) takes nearly all of the time. On the GPU, which
this has not run on: fused batch-norm, addition and ReLU as OneFlow's own ResNet, NHWC for Tensor
Cores under AMP, a multi-tensor SGD in eager mode.
"""

import functools

import numpy as np
import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.frameworks.oneflow import inference as answers
from dlperf.frameworks.oneflow import training as framework
from dlperf.workloads.resnet50 import facts, folding, mixup


class Conv2d(framework.Undrawn, nn.Conv2d):
    pass


def conv(inputs, outputs, size, stride=1, bias=False):
    return Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=bias)


def batch_norm(channels, kind=nn.BatchNorm2d):
    # as torch's, the momentum is the share of the new statistic
    return kind(channels, eps=facts.BATCH_NORM_EPSILON, momentum=1 - facts.BATCH_NORM_MOMENTUM)


class BatchNormReLU(nn.BatchNorm2d):
    """relu(batch_norm(x) + addend): what FusedBatchNorm2d does in one kernel on a GPU."""

    def forward(self, x, addend=None):
        x = nn.BatchNorm2d.forward(self, x)  # in a graph self is a proxy, which super() refuses
        return flow.relu(x if addend is None else x + addend)


class ReLU(nn.Module):
    """The same without batch-norm: folded into the convolution."""

    def __init__(self, channels):
        super().__init__()

    def forward(self, x, addend=None):
        return flow.relu(x if addend is None else x + addend)


def layers(fused):
    """What makes a convolution, and the batch-norm behind it, of the kind `fused` or alone."""
    if fused is ReLU:
        return functools.partial(conv, bias=True), lambda channels, kind=nn.Identity: kind(channels)
    return conv, batch_norm


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, project, fused):
        super().__init__()
        conv, batch_norm = layers(fused)
        outputs = width * facts.EXPANSION
        self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width, fused)
        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width, fused)
        self.conv3, self.bn3 = conv(width, outputs, 1), batch_norm(outputs, fused)
        self.shortcut = None
        if project:
            self.shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), batch_norm(outputs))

    def forward(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        y = self.bn1(self.conv1(x))
        y = self.bn2(self.conv2(y))
        return self.bn3(self.conv3(y), shortcut)


class ResNet50(nn.Module):
    def __init__(self, layout="NCHW", fused=BatchNormReLU):
        super().__init__()
        self.area = (2, 3) if layout == "NCHW" else (1, 2)
        conv, batch_norm = layers(fused)
        self.conv1, self.bn1 = conv(3, 64, 7, 2), batch_norm(64, fused)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                own_stride = stride if index == 0 else 1
                blocks.append(Bottleneck(channels, width, own_stride, index == 0, fused))
                channels = width * facts.EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.fc = framework.Linear(channels, facts.CLASSES)

    def forward(self, x):
        x = self.pool(self.bn1(self.conv1(x)))
        return self.fc(self.blocks(x).mean(self.area))


def model(run):
    fused = nn.FusedBatchNorm2d if run.cuda else BatchNormReLU
    network = ResNet50(layout(run), ReLU if run.dimensions["fold"] else fused)
    return framework.place(run, network)


def layout(run):
    return "NHWC" if run.cuda and run.amp else "NCHW"  # by ONEFLOW_ENABLE_NHWC


def weights(run, network):
    """The parameters by the names of facts.parameters."""

    def named(tensors):
        found = {}
        for own, tensor in tensors:
            name = own.replace("blocks.", "block")
            name = name.replace("shortcut.0", "conv4").replace("shortcut.1", "bn4")
            found[name.replace("running_", "").replace("var", "variance")] = tensor
        return found

    running = [each for each in network.named_buffers() if "running" in each[0]]
    return framework.Weights(run, named(network.named_parameters()), named(running))


def loss(run, network, images, labels):
    return F.cross_entropy(network(images), labels, label_smoothing=facts.LABEL_SMOOTHING)


def mixed_loss(share, run, network, images, labels):
    """The same of mixed images and labels; share: of each its own, (batch,)."""
    own = share.reshape(-1, 1, 1, 1)
    logits = network(own * images + (1 - own) * flow.flip(images, [0]))
    one, other = (
        F.cross_entropy(logits, each, label_smoothing=facts.LABEL_SMOOTHING, reduction="none")
        for each in (labels, flow.flip(labels, [0]))
    )
    return (share * one + (1 - share) * other).mean()


def optimizer(run, network):
    return flow.optim.SGD(
        framework.by_decay(network, facts.WEIGHT_DECAY),
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        fused=run.cuda and run.compiler == "none",
    )


def training(run):
    if not mixup.is_on(run):
        return train(run, loss)
    (share,) = framework.put(run, np.ones(run.batch_size, np.float32))
    work = train(run, functools.partial(mixed_loss, share))
    return mixup.each_step(run, work, lambda array: share.copy_(*framework.put(run, array)))


def train(run, loss):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        example=example(run),
        layout=layout(run),
        parity={
            "layout": layout(run),
            "optimizer": "SGD, fused" if run.cuda or run.compiler == "graph" else "SGD",
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def example(run):
    size = run.dimensions["image_size"]
    shape = (size, size, 3) if layout(run) == "NHWC" else (3, size, size)
    images = np.zeros((run.batch_size,) + shape, np.float32)
    return images, np.zeros(run.batch_size, np.int64)


def inference(run):
    network = model(run).eval()
    work = answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        framework.put,
        example=example(run),
        layout=layout(run),
        parity={"layout": layout(run)},
    )
    return folding.beforehand(run, work)


def outputs(run, network, images, labels):
    return network(images)
