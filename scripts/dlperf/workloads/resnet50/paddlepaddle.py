"""ResNet-50 v1.5 in PaddlePaddle.
"""

import math
import os

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.measure.run import Unsupported, Work, feed
from dlperf.workloads.resnet50 import facts


class ConvBN(nn.Layer):
    def __init__(self, inputs, outputs, size, stride=1, layout="NCHW", gamma=1.0):
        super().__init__()
        # kaiming normal, fan out; paddle's own KaimingNormal knows fan in only
        deviation = math.sqrt(2.0 / (size * size * outputs))
        self.conv = nn.Conv2D(
            inputs,
            outputs,
            size,
            stride,
            padding=size // 2,
            weight_attr=nn.initializer.Normal(0.0, deviation),
            bias_attr=False,
            data_format=layout,
        )
        self.bn = nn.BatchNorm2D(
            outputs,
            momentum=facts.BATCH_NORM_MOMENTUM,  # paddle's too is the share that is kept
            epsilon=facts.BATCH_NORM_EPSILON,
            weight_attr=nn.initializer.Constant(gamma),
            data_format=layout,
        )

    def forward(self, x):
        return self.bn(self.conv(x))


def relu(x):
    return F.thresholded_relu(x, 0.0) if os.environ.get("T", "1") == "1" else F.relu(x)


class Bottleneck(nn.Layer):
    def __init__(self, inputs, width, stride, project, layout):
        super().__init__()
        outputs = width * facts.EXPANSION
        self.conv1 = ConvBN(inputs, width, 1, layout=layout)
        self.conv2 = ConvBN(width, width, 3, stride, layout=layout)
        self.conv3 = ConvBN(width, outputs, 1, layout=layout, gamma=0.0)
        self.shortcut = ConvBN(inputs, outputs, 1, stride, layout=layout) if project else None

    def forward(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        y = relu(self.conv1(x))
        y = relu(self.conv2(y))
        return relu(self.conv3(y) + shortcut)


class ResNet50(nn.Layer):
    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        self.stem = ConvBN(3, 64, 7, 2, layout=layout)
        blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                blocks.append(
                    Bottleneck(channels, width, stride if index == 0 else 1, index == 0, layout)
                )
                channels = width * facts.EXPANSION
        self.blocks = nn.Sequential(*blocks)
        bound = 1.0 / math.sqrt(channels)
        self.fc = nn.Linear(
            channels,
            facts.CLASSES,
            weight_attr=nn.initializer.Uniform(-bound, bound),
            bias_attr=nn.initializer.Uniform(-bound, bound),
        )

    def forward(self, x):
        x = relu(self.stem(x))
        if self.layout == "NCHW":
            x = F.max_pool2d(x, 3, 2, 1, return_mask=True)[0]
        else:
            x = F.max_pool2d(x, 3, 2, 1, data_format=self.layout)
        x = self.blocks(x)
        if os.environ.get("A", "mean") == "mean":
            x = x.mean([2, 3] if self.layout == "NCHW" else [1, 2])
        else:
            x = F.adaptive_avg_pool2d(x, 1, data_format=self.layout).flatten(1)
        return self.fc(x)


def model(run):
    network = ResNet50(os.environ.get("L", "NCHW"))
    network.train()
    return network


def loss(run):
    return nn.CrossEntropyLoss(label_smoothing=facts.LABEL_SMOOTHING)


def optimizer(run, network):
    trained = [p for p in network.parameters() if not p.stop_gradient]
    decayed = [p for p in trained if p.ndim > 1]
    others = [p for p in trained if p.ndim <= 1]
    return paddle.optimizer.Momentum(
        facts.learning_rate(run.global_batch_size),
        facts.MOMENTUM,
        parameters=[
            {"params": decayed, "weight_decay": facts.WEIGHT_DECAY},
            {"params": others, "weight_decay": 0.0},
        ],
        use_multi_tensor=os.environ.get("MT", "1") == "1",
    )
