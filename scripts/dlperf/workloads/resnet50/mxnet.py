"""ResNet-50 v1.5 in MXNet's Gluon.

As fast as it gets: network and loss are one hybrid block, so that a step is one graph, with
`static_alloc` and `static_shape` (memory planned once, no graph pass in a step). NCHW, which oneDNN
blocks by itself; NHWC where fp16 meets Tensor Cores.
"""

import json

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.contrib import amp
from mxnet.gluon import nn

from dlperf.contract.run import Unsupported
from dlperf.contract.work import Work, feed
from dlperf.data.loaders import open_batches
from dlperf.frameworks import mxnet as framework
from dlperf.workloads.resnet50 import facts


def conv(inputs, outputs, size, stride=1, layout="NCHW"):
    return nn.Conv2D(
        outputs,
        size,
        stride,
        padding=size // 2,
        layout=layout,
        use_bias=False,
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


def relu(F, x):
    return F.Activation(x, act_type="relu")


class Bottleneck(nn.HybridBlock):
    def __init__(self, inputs, width, stride, project, layout):
        super().__init__()
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
    def __init__(self, layout):
        super().__init__()
        self.conv1 = conv(3, 64, 7, 2, layout)
        self.bn1 = batch_norm(64, layout)
        self.pool = nn.MaxPool2D(3, 2, padding=1, layout=layout)
        self.blocks, channels = nn.HybridSequential(), 64
        for width, count, stride in facts.STAGES:
            for index in range(count):
                first = index == 0
                self.blocks.add(Bottleneck(channels, width, stride if first else 1, first, layout))
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


def model(run):
    network = ResNet50(layout(run))
    network.initialize(ctx=device(run))
    if run.float64:
        network.cast("float64")
    for name, parameter in network.collect_params().items():
        if not name.endswith("weight"):
            parameter.wd_mult = 0.0
    return network


def weights(run, network):
    """The trained parameters by the names of facts.parameters."""
    named = {}
    for own, parameter in network._collect_params_with_prefix().items():  # as files name them
        if parameter.grad_req != "null":
            name = own.replace("blocks.", "block")
            named[name.replace("gamma", "weight").replace("beta", "bias")] = parameter
    return framework.Weights(named, layout(run))


def loss(run):
    return SmoothedCrossEntropy()


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
        momentum=facts.MOMENTUM,  # MXNet keeps the rate in the buffer: equal while it is constant
        wd=facts.WEIGHT_DECAY,
    )
    store = None
    if run.distributed:
        store = mx.kv.create("dist_device_sync" if run.cuda else "dist_sync")
    trainer = gluon.Trainer(
        network.collect_params(),
        sgd,
        kvstore=store,
        # Each rank updates its own copy: a server would have to keep all momenta, and it knows
        # nothing of `wd_mult`, which is lost when the optimizer is sent to it.
        update_on_kvstore=False,
    )
    if run.distributed:
        # Now, not in the first step as the trainer would: there, a rank's pull of the weights and
        # its push of gradients are not ordered: one run in eight trained on gradients for weights.
        trainer._init_kvstore()
        trainer._init_params()
        mx.nd.waitall()
    if run.amp and run.cuda:
        amp.init_trainer(trainer)
    return trainer


def training(run):
    network = model(run)
    trained = [p for p in network.collect_params().values() if p.grad_req != "null"]
    trainer = optimizer(run, network)
    forward = Criterion(network, loss(run))
    if run.compiler == "static":
        forward.hybridize(static_alloc=True, static_shape=True)
    scaled = run.amp and run.cuda  # fp16; bfloat16 needs no loss scaling
    batches = open_batches(run, layout(run))
    next_batch = feed(batches, lambda images, labels: put(run, images, labels))

    def step():
        images, labels = next_batch()
        with autograd.record():
            value = forward(images, labels)
            if scaled:
                with amp.scale_loss(value, trainer) as larger:
                    autograd.backward(larger)
        if not scaled:
            value.backward()
        trainer.step(run.global_batch_size)
        return value

    return Work(
        step=step,
        wait=mx.nd.waitall,
        loss=lambda value: float(value.asnumpy().mean()),
        parameters=sum(p.data().size for p in trained),
        batches=batches,
        parity=dict(
            read_back(run, forward),
            layout=layout(run),
            optimizer="SGD, fused momentum, %d tensors an operator"
            % max(1, trainer.optimizer.aggregate_num),
            fused_optimizer=True,
        ),
        weights=weights(run, network),
    )


def read_back(run, forward):
    """What the step's graph is; raises Unsupported where it is not what the case says."""
    if run.compiler == "static" and not forward._active:
        raise Unsupported("hybridize() was accepted without effect")
    graph = forward(mx.sym.var("images"), mx.sym.var("labels"))
    nodes = [node["op"] for node in json.loads(graph.tojson(remove_amp_cast=False))["nodes"]]
    casts = sum(1 for op in nodes if op.startswith("amp_"))
    if run.amp and not casts:
        raise Unsupported("amp.init() was accepted, but the graph has no casts")
    return {"operators": sum(1 for op in nodes if op != "null"), "amp_casts": casts}


def layout(run):
    return "NHWC" if run.cuda and run.amp else "NCHW"


def device(run):
    return mx.gpu(0) if run.cuda else mx.cpu()


def put(run, images, labels):
    dtype = images.dtype
    return mx.nd.array(images, device(run), dtype), mx.nd.array(labels, device(run), dtype)
