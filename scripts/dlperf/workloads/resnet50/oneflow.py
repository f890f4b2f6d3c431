"""ResNet-50 v1.5 in OneFlow.

As fast as it gets: nn.Graph with updates and additions fused; on the CPU eager is as fast, because
OpenBLAS (frameworks/oneflow.py chooses its kernels) takes nearly all of the time. Data parallel:
DistributedDataParallel in eager mode, global tensors (batch split, weights broadcast) in a graph.
On the GPU, which this has not run on: fused batch-norm, addition and ReLU as OneFlow's own ResNet,
NHWC for Tensor Cores and dynamic loss scaling under AMP (fp16), a multi-tensor SGD in eager mode.
"""

import numpy as np
import oneflow as flow
from oneflow import nn

from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import oneflow as framework
from dlperf.workloads.resnet50 import facts


class Conv2d(framework.Undrawn, nn.Conv2d):
    pass


class Linear(framework.Undrawn, nn.Linear):
    pass


def conv(inputs, outputs, size, stride=1):
    return Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


def batch_norm(channels, kind=nn.BatchNorm2d):
    # as torch's, the momentum is the share of the new statistic
    return kind(channels, eps=facts.BATCH_NORM_EPSILON, momentum=1 - facts.BATCH_NORM_MOMENTUM)


class BatchNormReLU(nn.BatchNorm2d):
    """relu(batch_norm(x) + addend): what FusedBatchNorm2d does in one kernel on a GPU."""

    def forward(self, x, addend=None):
        x = nn.BatchNorm2d.forward(self, x)  # in a graph self is a proxy, which super() refuses
        return flow.relu(x if addend is None else x + addend)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, project, fused):
        super().__init__()
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
        self.conv1, self.bn1 = conv(3, 64, 7, 2), batch_norm(64, fused)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        blocks, channels = [], 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                own_stride = stride if index == 0 else 1
                blocks.append(Bottleneck(channels, width, own_stride, index == 0, fused))
                channels = width * facts.EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.fc = Linear(channels, facts.CLASSES)

    def forward(self, x):
        x = self.pool(self.bn1(self.conv1(x)))
        return self.fc(self.blocks(x).mean(self.area))


class TrainingGraph(nn.Graph):
    """Forward, backward and update as one static graph."""

    def __init__(self, run, network, criterion, sgd):
        super().__init__()
        self.network, self.criterion = network, criterion
        self.add_optimizer(sgd)
        self.config.allow_fuse_model_update_ops(True)
        self.config.allow_fuse_add_to_output(True)
        if run.cuda:
            self.config.enable_cudnn_conv_heuristic_search_algo(False)  # measure, not guess
        if run.amp:
            self.config.enable_amp(True, dtype=flow.float16)
            self.config.allow_fuse_cast_scale(True)
            self.set_grad_scaler(flow.amp.GradScaler())

    def build(self, images, labels):
        value = self.criterion(self.network(images), labels)
        value.backward()
        return value


def model(run):
    network = ResNet50(layout(run), nn.FusedBatchNorm2d if run.cuda else BatchNormReLU)
    if run.float64:
        network = network.to(flow.float64)
    return network.to(run.device).train()


def weights(network):
    """The parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network.named_parameters():
        name = own.replace("blocks.", "block")
        named[name.replace("shortcut.0", "conv4").replace("shortcut.1", "bn4")] = parameter
    return framework.Weights(named)


def loss(run):
    return nn.CrossEntropyLoss(label_smoothing=facts.LABEL_SMOOTHING)


def optimizer(run, network):
    decayed = [p for p in network.parameters() if p.ndim > 1]  # convolutions, the dense weight
    others = [p for p in network.parameters() if p.ndim <= 1]
    return flow.optim.SGD(
        [
            {"params": decayed, "weight_decay": facts.WEIGHT_DECAY},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        fused=run.cuda and run.compiler == "none",
    )


def training(run):
    network, criterion = model(run), loss(run)
    parameters = sum(p.numel() for p in network.parameters())
    if run.compiler == "graph":
        if run.distributed:
            network = network.to_global(placement(run), sbp=flow.sbp.broadcast)
        train = TrainingGraph(run, network, criterion, optimizer(run, network))
        detail = compiled(run, train)
    else:
        train = eager(run, network, criterion, optimizer(run, network))
        detail = {}
    batches = open_batches(run, layout(run))
    next_batch = feed(batches, lambda images, labels: put(run, images, labels))

    def step():
        return train(*next_batch()).detach()

    return Work(
        step=step,
        wait=flow._oneflow_internal.eager.Sync,  # all queued instructions, graphs included
        loss=lambda value: local(value).item(),
        parameters=parameters,
        batches=batches,
        parity=dict(
            detail,
            layout=layout(run),
            optimizer="SGD, fused" if run.cuda or run.compiler == "graph" else "SGD",
            loss_scaling="dynamic" if run.amp else "none",
            compute_dtype="float16" if run.amp else "float32",
        ),
        weights=weights(network),
    )


def eager(run, network, criterion, sgd):
    forward = network
    if run.distributed and not run.float64:
        # batch-norm statistics stay each rank's own
        forward = nn.parallel.DistributedDataParallel(network, broadcast_buffers=False)

    def train(images, labels):
        value = criterion(forward(images), labels)
        value.backward()
        if run.distributed and run.float64:  # which DistributedDataParallel does not take
            mean_over_ranks(run, network)
        sgd.step()
        # DistributedDataParallel adds into its buckets, which it does not clear itself
        sgd.zero_grad(set_to_none=not run.distributed)
        return value

    return train


def mean_over_ranks(run, network):
    for parameter in network.parameters():
        flow._C.local_all_reduce(parameter.grad, inplace=True).mul_(1 / run.ranks)


def compiled(run, train):
    """Compile the graph before its first step; returns what it says of itself."""
    size = run.dimensions["image_size"]
    shape = (size, size, 3) if layout(run) == "NHWC" else (3, size, size)
    images = np.zeros((run.batch_size,) + shape, np.float32)
    train._compile(*put(run, images, np.zeros(run.batch_size, np.int32)))
    operations = len(train._compiled_graph_proto.net.op)
    return {"graph_compiled": train.is_compiled, "graph_operations": operations}


def layout(run):
    return "NHWC" if run.cuda and run.amp else "NCHW"  # by ONEFLOW_ENABLE_NHWC


def placement(run):
    return flow.placement(run.device, ranks=list(range(run.ranks)))


def put(run, images, labels):
    """NumPy arrays -> tensors on the device, labels as int64; a graph's span all ranks."""
    x, y = flow.from_numpy(images), flow.from_numpy(labels.astype(np.int64))
    if run.cuda:
        x, y = x.pin_memory().to("cuda"), y.pin_memory().to("cuda")
    if run.distributed and run.compiler == "graph":
        # check_meta=False: the ranks need not agree on shapes in every step
        split = dict(placement=placement(run), sbp=flow.sbp.split(0), check_meta=False)
        x, y = x.to_global(**split), y.to_global(**split)
    return x, y


def local(value):
    if value.is_global:
        value = value.to_global(sbp=flow.sbp.broadcast).to_local()
    return value
