"""ResNet-50 v1.5 in PyTorch.

As fast as it gets: channels_last tensors (fp32 too: oneDNN and Tensor Core kernels want NHWC),
`set_to_none`, a fused SGD but under a gradient scaler, gradients as views of DDP's buckets.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import pytorch as framework
from dlperf.workloads.resnet50 import facts


def conv(inputs, outputs, size, stride=1):
    # the stopwatch writes all weights
    return nn.utils.skip_init(
        nn.Conv2d, inputs, outputs, size, stride=stride, padding=size // 2, bias=False
    )


def batch_norm(channels):
    # torch's momentum is the share of the new statistic
    return nn.BatchNorm2d(
        channels, eps=facts.BATCH_NORM_EPSILON, momentum=1 - facts.BATCH_NORM_MOMENTUM
    )


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, project):
        super().__init__()
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
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv(3, 64, 7, 2), batch_norm(64)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                blocks.append(Bottleneck(channels, width, stride if index == 0 else 1, index == 0))
                channels = width * facts.EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, facts.CLASSES)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.average(self.blocks(x)).flatten(1)
        return self.fc(x)


def model(run):
    return ResNet50().to(device(run), memory_format=torch.channels_last).train()


def weights(network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("blocks.", "block")
        name = name.replace("shortcut.0", "conv4").replace("shortcut.1", "bn4")
        named[name] = parameter
    return framework.Weights(named)


def loss(run):
    return nn.CrossEntropyLoss(label_smoothing=facts.LABEL_SMOOTHING)


def optimizer(run, network):
    decayed = [p for p in network.parameters() if p.ndim > 1]  # convolutions, the dense weight
    others = [p for p in network.parameters() if p.ndim <= 1]
    return torch.optim.SGD(
        [{"params": decayed, "weight_decay": facts.WEIGHT_DECAY}, {"params": others}],
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        fused=fused(run),
    )


def fused(run):
    """Whether the update is one kernel: not under a gradient scaler.

    A first step that overflows is skipped, but leaves the fused SGD's momentum uninitialised.
    """
    return not (run.amp and run.cuda)


def training(run):
    network, criterion = model(run), loss(run)
    exchanged = weights(network)
    parameters = sum(p.numel() for p in network.parameters())
    sgd = optimizer(run, network)
    if run.distributed:
        network = DistributedDataParallel(
            network,
            device_ids=[0] if run.cuda else None,
            gradient_as_bucket_view=True,
            forward_sync_buffers=False,  # batch-norm statistics stay each rank's own
        )
    half = torch.float16 if run.cuda else torch.bfloat16
    scaler = torch.amp.GradScaler("cuda", enabled=run.amp and run.cuda)

    def forward(images, labels):
        with torch.autocast(run.device, dtype=half, enabled=run.amp):
            return criterion(network(images), labels)

    if run.compiler == "inductor":
        forward = torch.compile(forward)
    batches = open_batches(run, "NHWC")
    next_batch = feed(batches, lambda images, labels: put(run, images, labels))

    def step():
        # Not after the update: on a CPU, what is freed there is faulted in again (7 % of a step).
        sgd.zero_grad(set_to_none=True)
        images, labels = next_batch()
        value = forward(images, labels)
        scaler.scale(value).backward()
        scaler.step(sgd)
        scaler.update()
        return value.detach()

    return Work(
        step=step,
        wait=torch.cuda.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=parameters,
        batches=batches,
        parity={
            "layout": "NHWC (channels_last)",
            "optimizer": "SGD, fused" if fused(run) else "SGD, foreach",
            "loss_scaling": "dynamic" if scaler.is_enabled() else "none",
            "compute_dtype": str(half).replace("torch.", "") if run.amp else "float32",
        },
        weights=exchanged,
    )


def device(run):
    return torch.device(run.device)


def put(run, images, labels):
    """NHWC arrays -> a channels_last tensor (which is NHWC in memory) and int64 labels."""
    x = torch.from_numpy(images).permute(0, 3, 1, 2)
    y = torch.from_numpy(labels.astype(np.int64))
    if run.cuda:
        x, y = x.pin_memory(), y.pin_memory()
    return x.to(device(run), non_blocking=True), y.to(device(run), non_blocking=True)
