"""ResNet-50 v1.5 in PyTorch.

As fast as it gets: channels_last tensors (fp32 too: oneDNN and Tensor Core kernels want NHWC),
a fused SGD.
"""

import functools

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.frameworks.pytorch import inference as answers
from dlperf.frameworks.pytorch import training as framework
from dlperf.workloads.resnet50 import facts, folding, mixup


def conv(inputs, outputs, size, stride=1, bias=False):
    # the stopwatch writes all weights
    return nn.utils.skip_init(
        nn.Conv2d, inputs, outputs, size, stride=stride, padding=size // 2, bias=bias
    )


def batch_norm(channels):
    # torch's momentum is the share of the new statistic
    return nn.BatchNorm2d(
        channels, eps=facts.BATCH_NORM_EPSILON, momentum=1 - facts.BATCH_NORM_MOMENTUM
    )


def layers(fold):
    """What makes a convolution, and the batch-norm behind it: none where it is folded."""
    return (functools.partial(conv, bias=True), nn.Identity) if fold else (conv, batch_norm)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, project, fold):
        super().__init__()
        conv, batch_norm = layers(fold)
        outputs = width * facts.EXPANSION
        self.conv1, self.bn1 = conv(inputs, width, 1), batch_norm(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), batch_norm(width)
        self.conv3, self.bn3 = conv(width, outputs, 1), batch_norm(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if project:
            self.shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), batch_norm(outputs))

    def forward(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y.add_(shortcut))


class ResNet50(nn.Module):
    def __init__(self, fold=False):
        super().__init__()
        conv, batch_norm = layers(fold)
        self.conv1, self.bn1 = conv(3, 64, 7, 2), batch_norm(64)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                first = index == 0
                blocks.append(Bottleneck(channels, width, stride if first else 1, first, fold))
                channels = width * facts.EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, facts.CLASSES)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.average(self.blocks(x)).flatten(1)
        return self.fc(x)


def model(run):
    return (
        ResNet50(run.dimensions["fold"]).to(run.device, memory_format=torch.channels_last).train()
    )


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
    own = share.view(-1, 1, 1, 1)
    logits = network(own * images + (1 - own) * images.flip(0))
    one, other = (
        F.cross_entropy(logits, each, label_smoothing=facts.LABEL_SMOOTHING, reduction="none")
        for each in (labels, labels.flip(0))
    )
    return (share * one + (1 - share) * other).mean()


def optimizer(run, network):
    sgd = torch.optim.SGD(
        framework.by_decay(network, facts.WEIGHT_DECAY),
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        fused=True,
    )
    # Else the first step makes them, uninitialised where it overflows and is skipped.
    for parameter in network.parameters():
        sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return sgd


def put(run, images, labels):
    """NHWC arrays -> a channels_last tensor (which is NHWC in memory) and int64 labels."""
    images, labels = framework.put(run, images, labels)
    return images.permute(0, 3, 1, 2), labels


def training(run):
    if not mixup.is_on(run):
        return train(run, loss)
    share = torch.ones(run.batch_size, device=run.device)
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
        put,
        layout="NHWC",
        parity={
            "layout": "NHWC (channels_last)",
            "optimizer": "SGD, fused",
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def inference(run):
    network = model(run).eval()
    work = answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        put,
        layout="NHWC",
        parity={"layout": "NHWC (channels_last)"},
    )
    return folding.beforehand(run, work)


def outputs(run, network, images, labels):
    return network(images)
