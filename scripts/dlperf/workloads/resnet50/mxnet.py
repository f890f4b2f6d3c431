"""ResNet-50 v1.5 in MXNet's Gluon.

As fast as it gets: network and loss are one hybrid block, so that a step is one graph, with
`static_alloc` and `static_shape` (memory planned once, no graph pass in a step). NCHW, which oneDNN
blocks by itself; NHWC where fp16 meets Tensor Cores.
"""

import functools

import mxnet as mx
from mxnet import gluon
from mxnet.gluon import nn

from dlperf.frameworks.mxnet import inference as answers
from dlperf.frameworks.mxnet import training as framework
from dlperf.workloads.resnet50 import facts, folding, mixup


def conv(inputs, outputs, size, stride=1, layout="NCHW", bias=False):
    return nn.Conv2D(
        outputs,
        size,
        stride,
        padding=size // 2,
        layout=layout,
        use_bias=bias,
        weight_initializer="zeros",  # the stopwatch writes all weights
        in_channels=inputs,
    )


def batch_norm(channels, layout):
    # MXNet's BatchNormReLU, one operator, took 15 % longer on a CPU than the two
    return nn.BatchNorm(
        layout.index("C"),
        facts.BATCH_NORM_MOMENTUM,
        facts.BATCH_NORM_EPSILON,
        in_channels=channels,
    )


class Nothing(nn.HybridBlock):
    """In place of batch-norm, where that is folded into the convolution."""

    def __init__(self, channels, layout):
        super().__init__()

    def hybrid_forward(self, F, x):
        return x


def layers(fold):
    """What makes a convolution, and the batch-norm behind it."""
    return (functools.partial(conv, bias=True), Nothing) if fold else (conv, batch_norm)


def relu(F, x):
    return F.Activation(x, act_type="relu")


class Bottleneck(nn.HybridBlock):
    def __init__(self, inputs, width, stride, project, layout, fold):
        super().__init__()
        conv, batch_norm = layers(fold)
        outputs = width * facts.EXPANSION
        self.conv1 = conv(inputs, width, 1, layout=layout)
        self.bn1 = batch_norm(width, layout)
        self.conv2 = conv(width, width, 3, stride, layout)
        self.bn2 = batch_norm(width, layout)
        self.conv3 = conv(width, outputs, 1, layout=layout)
        self.bn3 = batch_norm(outputs, layout)
        self.project = project
        if project:
            self.conv4 = conv(inputs, outputs, 1, stride, layout)
            self.bn4 = batch_norm(outputs, layout)

    def hybrid_forward(self, F, x):
        shortcut = self.bn4(self.conv4(x)) if self.project else x
        y = relu(F, self.bn1(self.conv1(x)))
        y = relu(F, self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return relu(F, F.elemwise_add(y, shortcut))


class ResNet50(nn.HybridBlock):
    def __init__(self, layout, fold=False):
        super().__init__()
        conv, batch_norm = layers(fold)
        self.conv1 = conv(3, 64, 7, 2, layout)
        self.bn1 = batch_norm(64, layout)
        self.pool = nn.MaxPool2D(3, 2, padding=1, layout=layout)
        self.blocks, channels = nn.HybridSequential(), 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                first = index == 0
                own_stride = stride if first else 1
                block = Bottleneck(channels, width, own_stride, first, layout, fold)
                self.blocks.add(block)
                channels = width * facts.EXPANSION
        self.average = nn.GlobalAvgPool2D(layout)
        self.fc = nn.Dense(facts.CLASSES, weight_initializer="zeros", in_units=channels)

    def hybrid_forward(self, F, x):
        x = self.pool(relu(F, self.bn1(self.conv1(x))))
        return self.fc(self.average(self.blocks(x)))


class SmoothedCrossEntropy(gluon.loss.Loss):
    """A loss an image; `gluon.loss.SoftmaxCrossEntropyLoss` knows no smoothing."""

    def __init__(self):
        super().__init__(weight=None, batch_axis=0)

    def hybrid_forward(self, F, logits, labels):
        smoothing = facts.LABEL_SMOOTHING
        log = F.log_softmax(logits)
        hit = F.pick(log, labels)
        return -(1 - smoothing) * hit - smoothing * F.mean(log, axis=-1)


class Criterion(nn.HybridBlock):
    """Network and loss as one graph."""

    def __init__(self, network, criterion):
        super().__init__()
        self.network, self.criterion = network, criterion

    def hybrid_forward(self, F, images, labels):
        return self.criterion(self.network(images), labels)


class MixedCriterion(nn.HybridBlock):
    """The same of mixed images and labels; share: of each its own, a Parameter of (batch,)."""

    def __init__(self, network, criterion, share):
        super().__init__()
        self.network, self.criterion, self.share = network, criterion, share
        self.params.update({share.name: share})  # else a graph does not know it

    def hybrid_forward(self, F, images, labels, share):
        own = F.reshape(share, (-1, 1, 1, 1))
        one = F.broadcast_mul(own, images)
        other = F.broadcast_mul(1 - own, F.reverse(images, axis=0))
        logits = self.network(one + other)
        one, other = (self.criterion(logits, each) for each in (labels, F.reverse(labels, axis=0)))
        return share * one + (1 - share) * other


def model(run):
    network = framework.initialized(run, ResNet50(layout(run), run.dimensions["fold"]))
    for parameter in network.collect_params().values():
        if len(parameter.shape) == 1:
            parameter.wd_mult = 0.0
    return network


def weights(run, network):
    """The trained parameters by the names of facts.parameters."""
    own = framework.named(network)
    named = {name.replace("blocks.", "block"): p for name, p in own}
    running = {}
    for own, parameter in network._collect_params_with_prefix().items():
        if "running" in own:
            name = own.replace("blocks.", "block").replace("running_", "")
            running[name.replace("var", "variance")] = parameter
    return framework.Weights(run, named, layout(run), running)


def loss(run, network):
    return Criterion(network, SmoothedCrossEntropy())


class SGD(mx.optimizer.SGD):
    """MXNet's own for a CPU, tensor by tensor: its `multi_sgd_mom_update` takes twice as long."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.aggregate_num = 0

    def update_multi_precision(self, index, weight, grad, state):
        self._update_count(index)
        mx.nd.sgd_mom_update(
            weight,
            grad,
            state,
            out=weight,
            lr=self._get_lr(index),
            wd=self._get_wd(index),
            momentum=self.momentum,
            rescale_grad=self.rescale_grad,
        )


def optimizer(run, network):
    kind = mx.optimizer.SGD if run.cuda else SGD
    sgd = kind(
        learning_rate=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,  # its buffer has the rate in it, which train takes into account
        wd=facts.WEIGHT_DECAY,
    )
    return framework.trainer(run, network, sgd)


def put(run, images, labels):
    return [framework.put(run, each, images.dtype) for each in (images, labels)]


def training(run):
    if not mixup.is_on(run):
        return train(run, loss)
    share = gluon.Parameter("share", "null", (run.batch_size,), init="ones")
    share.initialize(ctx=framework.device(run))
    if run.float64:
        share.cast("float64")

    def mixed_loss(run, network):
        return MixedCriterion(network, SmoothedCrossEntropy(), share)

    return mixup.each_step(run, train(run, mixed_loss), share.set_data)


def train(run, loss):
    network = model(run)
    trainer = optimizer(run, network)
    many = max(1, trainer.optimizer.aggregate_num)
    return framework.train(
        run,
        network,
        loss,
        trainer,
        weights(run, network),
        put,
        inputs=2,
        losses=run.batch_size,
        layout=layout(run),
        parity={
            "layout": layout(run),
            "optimizer": "SGD, fused momentum, %d tensors an operator" % many,
            "fused_optimizer": True,
        },
        schedule=facts.schedule(run),
        outputs=outputs,
    )


def layout(run):
    return "NHWC" if run.cuda and run.amp else "NCHW"


def inference(run):
    network = model(run)
    work = answers.infer(
        run,
        network,
        outputs,
        weights(run, network),
        put,
        inputs=1,
        layout=layout(run),
        parity={"layout": layout(run)},
    )
    return folding.beforehand(run, work)


def outputs(run, network):
    return network
