"""ResNet-50 v1.5 in MindSpore.

As fast as it gets: NCHW (the only layout of its CPU kernels; on a GPU the graph turns it into NHWC
where Tensor Cores want that); `nn.Momentum`, whose update is one fused operator a parameter; the
whole step, update and reduction included, in one graph.
"""

import functools

import mindspore as ms
from mindspore import nn, ops

from dlperf.frameworks.mindspore import inference as answers
from dlperf.frameworks.mindspore import training as framework
from dlperf.workloads.resnet50 import facts, folding, mixup


def conv(inputs, outputs, size, stride=1, bias=False):
    return nn.Conv2d(
        inputs,
        outputs,
        size,
        stride,
        pad_mode="pad",
        padding=size // 2,
        has_bias=bias,
        weight_init="zeros",  # the stopwatch writes all weights
        bias_init="zeros",
    )


def batch_norm(channels):
    # MindSpore's momentum is the share of the old statistic
    return nn.BatchNorm2d(channels, facts.BATCH_NORM_EPSILON, facts.BATCH_NORM_MOMENTUM)


def layers(fold):
    """What makes a convolution, and the batch-norm behind it: none where it is folded."""
    if fold:
        return functools.partial(conv, bias=True), lambda channels: nn.Identity()
    return conv, batch_norm


class Bottleneck(nn.Cell):
    def __init__(self, inputs, width, stride, project, fold):
        super().__init__()
        conv, batch_norm = layers(fold)
        outputs = width * facts.EXPANSION
        self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width)
        self.conv3, self.bn3 = conv(width, outputs, 1), batch_norm(outputs)
        self.relu = nn.ReLU()
        self.shortcut = None
        if project:
            shortcut = [conv(inputs, outputs, 1, stride), batch_norm(outputs)]
            self.shortcut = nn.SequentialCell(shortcut)

    def construct(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + shortcut)


class ResNet50(nn.Cell):
    def __init__(self, fold=False):
        super().__init__()
        conv, batch_norm = layers(fold)
        self.conv1, self.bn1 = conv(3, 64, 7, 2), batch_norm(64)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                first = index == 0
                blocks.append(Bottleneck(channels, width, stride if first else 1, first, fold))
                channels = width * facts.EXPANSION
        self.blocks = nn.SequentialCell(blocks)
        self.fc = nn.Dense(channels, facts.CLASSES, weight_init="zeros", bias_init="zeros")

    def construct(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = ops.mean(self.blocks(x), (2, 3))
        return self.fc(x)


def model(run):
    network = ResNet50(run.dimensions["fold"]).set_train()
    if run.amp:  # convolutions and the dense layer in half precision, batch-norm in float32
        network = ms.amp.auto_mixed_precision(network, "O2", dtype=ms.float16)
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    trained, running = {}, {}
    for own, parameter in network.parameters_and_names():
        name = own.replace("blocks.", "block").replace(".moving_", ".")
        name = name.replace("shortcut.0", "conv4").replace("shortcut.1", "bn4")
        name = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        (trained if parameter.requires_grad else running)[name] = parameter
    return framework.Weights(trained, running)


def loss(network, images, labels):
    outputs = network(images).astype(ms.float32)
    return ops.cross_entropy(outputs, labels, label_smoothing=facts.LABEL_SMOOTHING)


def mixed_by(share):
    """The same of mixed images and labels; share: of each its own, a Parameter of (batch,)."""

    def mixed_loss(network, images, labels):
        own = share.reshape((-1, 1, 1, 1))
        mixed = own * images + (1 - own) * ops.flip(images, (0,))
        outputs = network(mixed).astype(ms.float32)
        smoothing = facts.LABEL_SMOOTHING
        one = ops.cross_entropy(outputs, labels, reduction="none", label_smoothing=smoothing)
        labels = ops.flip(labels, (0,))
        other = ops.cross_entropy(outputs, labels, reduction="none", label_smoothing=smoothing)
        return (share * one + (1 - share) * other).mean()

    return mixed_loss


def optimizer(run, network):
    return nn.Momentum(
        framework.by_decay(network, facts.WEIGHT_DECAY),
        learning_rate=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
    )


def training(run):
    if not mixup.is_on(run):
        return train(run, loss)
    ones = ops.ones((run.batch_size,), ms.float32)
    share = ms.Parameter(ones, name="share", requires_grad=False)
    work = train(run, mixed_by(share))
    return mixup.each_step(run, work, lambda array: framework.assign(share, ms.Tensor(array)))


def train(run, loss):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        layout="NCHW",
        parity={"layout": "NCHW", "optimizer": "nn.Momentum, one operator a parameter"},
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    network = model(run).set_train(False)
    work = answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        framework.put,
        layout="NCHW",
        parity={"layout": "NCHW"},
    )
    return folding.beforehand(run, work)


def outputs(network, images, labels):
    return network(images).astype(ms.float32)
