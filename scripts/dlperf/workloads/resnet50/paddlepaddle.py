"""ResNet-50 v1.5 in PaddlePaddle.

As fast as it gets. On the CPU: to_static with oneDNN kernels (FLAGS_use_onednn, see
frameworks/paddlepaddle.py), 2.8 times as fast as dygraph, which has no oneDNN. oneDNN in training
needs two detours, the same arithmetic by Paddle's own kernels: its max-pool fails in the backward
pass; its ReLU hands the gradient on in another layout than the saved activation's, for which
oneDNN has only its slow reference kernels (ReLU and batch-norm, half of the step). NCHW there:
NHWC fails in batch-norm's backward pass. On the GPU, which this has not run on: NHWC for Tensor
Cores and level O2 (fp16 weights, fp32 master weights) under AMP, as PaddleClas's fastest recipes.
"""

import re

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.run import Unsupported
from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import paddlepaddle as framework
from dlperf.workloads.resnet50 import facts


class ConvBatchNorm(nn.Layer):
    def __init__(self, inputs, outputs, size, stride, layout):
        super().__init__()
        self.conv = nn.Conv2D(
            inputs,
            outputs,
            size,
            stride,
            padding=size // 2,
            weight_attr=nn.initializer.Constant(0.0),  # the stopwatch writes all weights
            bias_attr=False,
            data_format=layout,
        )
        # paddle's momentum is the share of the old statistic
        self.bn = nn.BatchNorm2D(
            outputs,
            momentum=facts.BATCH_NORM_MOMENTUM,
            epsilon=facts.BATCH_NORM_EPSILON,
            data_format=layout,
        )

    def forward(self, x):
        return self.bn(self.conv(x))


class Bottleneck(nn.Layer):
    def __init__(self, inputs, width, stride, project, layout, relu):
        super().__init__()
        outputs = width * facts.EXPANSION
        self.conv1 = ConvBatchNorm(inputs, width, 1, 1, layout)
        self.conv2 = ConvBatchNorm(width, width, 3, stride, layout)
        self.conv3 = ConvBatchNorm(width, outputs, 1, 1, layout)
        self.shortcut = ConvBatchNorm(inputs, outputs, 1, stride, layout) if project else None
        self.relu = relu

    def forward(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        y = self.relu(self.conv1(x))
        y = self.relu(self.conv2(y))
        return self.relu(self.conv3(y) + shortcut)


class ResNet50(nn.Layer):
    def __init__(self, layout="NCHW", onednn=False):
        super().__init__()
        self.relu = own_relu if onednn else F.relu
        self.pool = own_max_pool if onednn else max_pool
        self.layout = layout
        self.stem = ConvBatchNorm(3, 64, 7, 2, layout)
        blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                own_stride = stride if index == 0 else 1
                blocks.append(
                    Bottleneck(channels, width, own_stride, index == 0, layout, self.relu)
                )
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


def weights(network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        if parameter.stop_gradient:  # batch-norm's moving statistics
            continue
        name = own.replace("stem.", "conv1.").replace("shortcut.", "conv4.")
        name = name.replace("blocks.", "block")
        named[re.sub(r"conv(\d)\.(conv|bn)", r"\2\1", name)] = parameter
    return framework.Weights(named)


class ExactCrossEntropy(nn.Layer):
    """Cross-entropy against smoothed labels; Paddle's own keeps the smoothing in float32."""

    def __init__(self):
        super().__init__()
        hit = (1 - facts.LABEL_SMOOTHING) * np.eye(facts.CLASSES)
        targets = hit + facts.LABEL_SMOOTHING / facts.CLASSES
        self.register_buffer("targets", paddle.to_tensor(targets))

    def forward(self, logits, labels):
        return F.cross_entropy(logits, paddle.gather(self.targets, labels), soft_label=True)


def loss(run):
    if run.float64:
        return ExactCrossEntropy()
    return nn.CrossEntropyLoss(label_smoothing=facts.LABEL_SMOOTHING)


def optimizer(run, network):
    trained = trainable(network)
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
    network, criterion = model(run), loss(run)
    exchanged = weights(network)
    parameters = sum(p.size for p in trainable(network))
    sgd = optimizer(run, network)
    if run.amp:
        network, sgd = paddle.amp.decorate(network, sgd, level="O2", dtype="float16")
    scaler = paddle.amp.GradScaler(enable=run.amp, init_loss_scaling=2.0**16)

    forward = TrainingLoss(network, criterion)
    detail = {}
    if run.compiler != "none":
        forward, detail = compiled(run, forward)
    if run.distributed:
        forward = paddle.DataParallel(forward)
    batches = open_batches(run, layout(run))
    next_batch = feed(batches, lambda images, labels: put(run, images, labels))

    def step():
        images, labels = next_batch()
        with paddle.amp.auto_cast(enable=run.amp, level="O2", dtype="float16"):
            value = forward(images, labels)
        if run.amp:
            scaler.scale(value).backward()
            scaler.step(sgd)
            scaler.update()
        else:
            value.backward()
            sgd.step()
        sgd.clear_grad(set_to_zero=False)
        return value.detach()

    return Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            detail,
            layout=layout(run),
            optimizer="Momentum, multi-tensor",
            loss_scaling="dynamic" if scaler.is_enable() else "none",
            compute_dtype=str(network.blocks[0].conv1.conv.weight.dtype).replace("paddle.", ""),
        ),
        weights=exchanged,
    )


def trainable(network):
    # paddle counts batch-norm's moving statistics among the parameters
    return [p for p in network.parameters() if not p.stop_gradient]


def layout(run):
    return "NHWC" if run.cuda and run.amp else "NCHW"


def compiled(run, forward):
    """`forward` as one static program each way, and what the programs say of themselves.

    Raises Unsupported where CINN was asked for and left no kernel in them.
    """
    size = run.dimensions["image_size"]
    shape = (size, size, 3) if layout(run) == "NHWC" else (3, size, size)
    spec = [
        paddle.static.InputSpec((run.batch_size,) + shape, paddle.get_default_dtype(), "images"),
        paddle.static.InputSpec((run.batch_size,), "int64", "labels"),
    ]
    cinn = run.compiler == "cinn"
    forward = paddle.jit.to_static(
        forward, input_spec=spec, full_graph=True, backend="CINN" if cinn else None
    )
    with paddle.amp.auto_cast(enable=run.amp, level="O2", dtype="float16"):
        static, partial = forward.forward.get_concrete_program(*spec, is_train=True)
    detail = {"program_operations": len(static.main_program.global_block().ops)}
    if cinn:
        detail["cinn_kernels"] = str(partial.program.forward_program).count("cinn_runtime.jit")
        if not detail["cinn_kernels"]:
            raise Unsupported("to_static with the CINN backend left no CINN kernel in the program")
    return forward, detail


def put(run, images, labels):
    """NumPy arrays -> tensors on the device, labels as int64."""
    place = paddle.CUDAPinnedPlace() if run.cuda else paddle.CPUPlace()
    x, y = paddle.to_tensor(images, place=place), paddle.to_tensor(labels, "int64", place)
    return (x.cuda(blocking=False), y.cuda(blocking=False)) if run.cuda else (x, y)
