"""ResNet-50 v1.5 in PaddlePaddle.

As fast as it gets. On the CPU: to_static with oneDNN kernels (FLAGS_use_onednn, see
frameworks/paddlepaddle), 2.8 times as fast as dygraph, which has no oneDNN. oneDNN in training
needs two detours, the same arithmetic by Paddle's own kernels: its max-pool fails in the backward
pass; its ReLU hands the gradient on in another layout than the saved activation's, for which
oneDNN has only its slow reference kernels (ReLU and batch-norm, half of the step). Its batch-norm
leaves the running statistics alone, which are kept beside it. NCHW there:
NHWC fails in batch-norm's backward pass. On the GPU, which this has not run on: NHWC for Tensor
Cores and level O2 (narrow weights, fp32 master weights) under AMP, as PaddleClas's fastest recipes.
"""

import functools
import re

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.frameworks.paddlepaddle import inference as answers
from dlperf.frameworks.paddlepaddle import layers
from dlperf.frameworks.paddlepaddle import training as framework
from dlperf.workloads.resnet50 import facts, folding, mixup


class ConvBatchNorm(nn.Layer):
    """batch_norm: its class, or nn.Identity where it is folded into the convolution."""

    def __init__(self, inputs, outputs, size, stride, layout, batch_norm):
        super().__init__()
        self.conv = nn.Conv2D(
            inputs,
            outputs,
            size,
            stride,
            padding=size // 2,
            weight_attr=nn.initializer.Constant(0.0),  # the stopwatch writes all weights
            bias_attr=nn.initializer.Constant(0.0) if batch_norm is nn.Identity else False,
            data_format=layout,
        )
        # paddle's momentum is the share of the old statistic
        self.bn = batch_norm(
            outputs,
            momentum=facts.BATCH_NORM_MOMENTUM,
            epsilon=facts.BATCH_NORM_EPSILON,
            data_format=layout,
        )

    def forward(self, x):
        return self.bn(self.conv(x))


class Bottleneck(nn.Layer):
    def __init__(self, conv, inputs, width, stride, project, relu):
        super().__init__()
        outputs = width * facts.EXPANSION
        self.conv1 = conv(inputs, width, 1, 1)
        self.conv2 = conv(width, width, 3, stride)
        self.conv3 = conv(width, outputs, 1, 1)
        self.shortcut = conv(inputs, outputs, 1, stride) if project else None
        self.relu = relu

    def forward(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        y = self.relu(self.conv1(x))
        y = self.relu(self.conv2(y))
        return self.relu(self.conv3(y) + shortcut)


class ResNet50(nn.Layer):
    def __init__(self, layout="NCHW", onednn=False, fold=False):
        super().__init__()
        self.relu = own_relu if onednn else F.relu
        self.pool = own_max_pool if onednn else max_pool
        self.layout = layout
        own = onednn and paddle.get_default_dtype() != "float64"  # of which oneDNN has nothing
        batch_norm = nn.Identity if fold else layers.BatchNorm if own else nn.BatchNorm2D
        conv = functools.partial(ConvBatchNorm, layout=layout, batch_norm=batch_norm)
        self.stem = conv(3, 64, 7, 2)
        blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                own_stride = stride if index == 0 else 1
                blocks.append(Bottleneck(conv, channels, width, own_stride, index == 0, self.relu))
                channels = width * facts.EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(channels, facts.CLASSES, weight_attr=nn.initializer.Constant(0.0))

    def forward(self, x):
        x = self.pool(self.relu(self.stem(x)), self.layout)
        x = self.blocks(x)
        return self.fc(x.mean([2, 3] if self.layout == "NCHW" else [1, 2]))


def max_pool(x, layout):
    return F.max_pool2d(x, 3, 2, padding=1, data_format=layout)


def own_max_pool(x, layout):
    """Max-pool by the kernel that also gives the mask: oneDNN has none of that."""
    return F.max_pool2d(x, 3, 2, padding=1, return_mask=True)[0]


def own_relu(x):
    """x where x > 0, else 0: oneDNN has no kernel of that name."""
    return F.thresholded_relu(x, 0.0)


class TrainingLoss(nn.Layer):
    """Images and labels -> loss: what is made static and data parallel as a whole."""

    def __init__(self, network, criterion):
        super().__init__()
        self.network, self.criterion = network, criterion

    def forward(self, images, labels):
        return self.criterion(self.network(images), labels)


def model(run):
    network = ResNet50(layout(run), onednn=run.compiler == "static" and not run.cuda)
    network.train()
    return network


def weights(run, network):
    """The parameters by the names of facts.parameters."""
    trained, running = {}, {}
    for own, parameter in network.named_parameters():
        name = own.replace("stem.", "conv1.").replace("shortcut.", "conv4.")
        name = name.replace("blocks.", "block").replace("._", ".")
        # batch-norm's moving statistics have no gradient
        named = running if parameter.stop_gradient else trained
        named[re.sub(r"conv(\d)\.(conv|bn)", r"\2\1", name)] = parameter
    return framework.Weights(run, trained, running)


def smoothed_targets():
    """(classes, classes): a row for each label."""
    hit = (1 - facts.LABEL_SMOOTHING) * np.eye(facts.CLASSES)
    return paddle.to_tensor(hit + facts.LABEL_SMOOTHING / facts.CLASSES, paddle.get_default_dtype())


class ExactCrossEntropy(nn.Layer):
    """Cross-entropy against smoothed labels; Paddle's own keeps the smoothing in float32."""

    def __init__(self):
        super().__init__()
        self.register_buffer("targets", smoothed_targets())

    def forward(self, logits, labels):
        return F.cross_entropy(logits, paddle.gather(self.targets, labels), soft_label=True)


def loss(run, network):
    if paddle.get_default_dtype() == "float64":
        return TrainingLoss(network, ExactCrossEntropy())
    return TrainingLoss(network, nn.CrossEntropyLoss(label_smoothing=facts.LABEL_SMOOTHING))


class MixedLoss(nn.Layer):
    """As TrainingLoss, of mixed images and labels; share: of each its own, (batch,)."""

    def __init__(self, network, share):
        super().__init__()
        self.network = network
        self.register_buffer("targets", smoothed_targets())
        self.register_buffer("share", share)

    def forward(self, images, labels):
        logits = self.network(self.mixed(images, [-1, 1, 1, 1]))
        targets = self.mixed(paddle.gather(self.targets, labels), [-1, 1])
        return F.cross_entropy(logits, targets, soft_label=True)

    def mixed(self, rows, shape):
        share = self.share.reshape(shape)
        return share * rows + (1 - share) * paddle.flip(rows, [0])


def optimizer(run, network):
    trained = framework.trained(network)
    decayed = [p for p in trained if p.ndim > 1]  # convolutions, the dense weight
    others = [p for p in trained if p.ndim <= 1]
    return paddle.optimizer.Momentum(
        facts.learning_rate(run.global_batch_size),
        facts.MOMENTUM,
        parameters=[
            {"params": decayed, "weight_decay": facts.WEIGHT_DECAY},
            {"params": others, "weight_decay": 0.0},
        ],
        use_multi_tensor=trained[0].dtype == paddle.float32,  # it has no float64
    )


def training(run):
    if not mixup.is_on(run):
        return train(run, loss)
    dtype = paddle.get_default_dtype()
    share = paddle.ones([run.batch_size], dtype)
    work = train(run, lambda run, network: MixedLoss(network, share))
    return mixup.each_step(run, work, lambda array: share.set_value(array.astype(dtype)))


def train(run, loss):
    network = model(run)
    return framework.train(
        run,
        network,
        loss,
        optimizer(run, network),
        weights(run, network),
        framework.put,
        spec=spec(run),
        layout=layout(run),
        parity={"layout": layout(run), "optimizer": "Momentum, multi-tensor"},
        schedule=facts.schedule(run),
        outputs=answering,
    )


def answering(run, network):
    """A network over the same parameters, without training's detours round oneDNN.

    These have no branch for inference: with one, rewritten for the static program, one training
    in ten ended by a signal.
    """
    twin = ResNet50(layout(run))
    for own, trained in zip(twin.sublayers(), network.sublayers()):
        for name, parameter in trained.named_parameters(include_sublayers=False):
            setattr(own, name, parameter)
    return twin


def layout(run):
    return "NHWC" if run.cuda and run.amp else "NCHW"


def spec(run):
    size = run.dimensions["image_size"]
    shape = (size, size, 3) if layout(run) == "NHWC" else (3, size, size)
    return [
        paddle.static.InputSpec((run.batch_size,) + shape, paddle.get_default_dtype(), "images"),
        paddle.static.InputSpec((run.batch_size,), "int64", "labels"),
    ]


def inference(run):
    # without training's detours round oneDNN
    network = ResNet50(layout(run), fold=run.dimensions["fold"])
    network.eval()
    work = answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        framework.put,
        spec=spec(run)[:1],
        layout=layout(run),
        parity={"layout": layout(run)},
    )
    return folding.beforehand(run, work)


def outputs(run, network):
    return network
