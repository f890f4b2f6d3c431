"""The form of mindspore-lab/mindface's recognition, which no package has: its backbones, head and
loss (models/mobilefacenet.py and iresnet.py, models/partial_fc.py, loss/), in one compiled step.

`y1` is its MobileFaceNet with `scale=1` and embeddings of 128, which has y1's channels; its dense
layer has no bias, its r50 no dropout. The angle of every cosine is taken, its loss written out of
single operators. Its loop runs without a graph and clips each gradient by itself: not here.
"""

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer

from dlperf.contract.work import Work, feed
from dlperf.frameworks.mindspore.training import synchronize
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.insightface import facts

SOURCE = "mindspore-lab/mindface, MobileFaceNet, IResNet, PartialFC, ArcFace; nn.SGD"
REQUIREMENTS = []


def conv(inputs, outputs, size=1, stride=1, padding=0, group=1):
    return nn.Conv2d(inputs, outputs, size, stride, "pad", padding, group=group, has_bias=False)


def linear_block(inputs, outputs, *rest, **more):
    return nn.SequentialCell(conv(inputs, outputs, *rest, **more), nn.BatchNorm2d(outputs))


def conv_block(inputs, outputs, *rest, **more):
    return nn.SequentialCell(linear_block(inputs, outputs, *rest, **more), nn.PReLU(outputs))


class DepthWise(nn.Cell):
    def __init__(self, inputs, group, outputs, stride):
        super().__init__()
        self.residual = stride == 1
        self.layers = nn.SequentialCell(
            conv_block(inputs, group),
            conv_block(group, group, 3, stride, 1, group=group),
            linear_block(group, outputs),
        )

    def construct(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilefacenet(px):
    return nn.SequentialCell(
        conv_block(3, 64, 3, 2, 1),
        conv_block(64, 64, 3, 1, 1, group=64),
        *(DepthWise(*each[1:]) for each in facts.bottlenecks()),
        conv_block(128, 512),
        linear_block(512, 512, px // facts.SHRINK, group=512),
        nn.Flatten(),
        nn.Dense(512, facts.EMBEDDINGS["y1"], has_bias=False),
        nn.BatchNorm1d(facts.EMBEDDINGS["y1"]),
    )


class IBasicBlock(nn.Cell):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.SequentialCell(
            nn.BatchNorm2d(inputs),
            conv_block(inputs, outputs, 3, 1, 1),
            linear_block(outputs, outputs, 3, stride, 1),
        )
        self.downsample = linear_block(inputs, outputs, 1, stride) if stride > 1 else None

    def construct(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        return self.layers(x) + identity


def iresnet(backbone, px):
    layers = [conv_block(3, 64, 3, 1, 1)]
    layers += [IBasicBlock(*each[1:]) for each in facts.residuals(backbone)]
    side, features = px // facts.SHRINK, nn.BatchNorm1d(512)
    features.gamma.requires_grad = False
    layers += [nn.BatchNorm2d(512), nn.Flatten(), nn.Dense(512 * side**2, 512), features]
    return nn.SequentialCell(*layers)


class Face(nn.Cell):
    def __init__(self, sizes):
        super().__init__()
        px, shape = sizes["image_size"], (sizes["num_classes"], facts.embedding(sizes))
        if sizes["backbone"] == "y1":
            self.backbone = mobilefacenet(px)
        else:
            self.backbone = iresnet(sizes["backbone"], px)
        for _, cell in self.backbone.cells_and_names():
            if isinstance(cell, nn.Conv2d):
                cell.weight.set_data(initializer(Normal(facts.DEVIATION), cell.weight.shape))
        self.centres = Parameter(initializer(Normal(facts.CENTRE_DEVIATION), shape))
        self.l2_norm, self.linear = ops.L2Normalize(axis=1), ops.MatMul(transpose_b=True)
        self.one_hot, self.classes = ops.OneHot(), sizes["num_classes"]
        self.margin, self.one = Tensor(facts.ARC_MARGIN, ms.float32), Tensor(1.0, ms.float32)
        self.zero = Tensor(0.0, ms.float32)

    def construct(self, images, labels):
        x = self.l2_norm(self.backbone(images))
        cosines = self.linear(x, self.l2_norm(self.centres))
        margins = self.one_hot(labels, self.classes, self.margin, self.zero)
        scores = ops.cos(ops.acos(cosines) + margins) * facts.SCALE
        shares = ops.exp(scores - scores.max(axis=1, keepdims=True))
        shares = shares / shares.sum(axis=1, keepdims=True)
        is_own = self.one_hot(labels, self.classes, self.one, self.zero)
        return -(ops.log(shares + 1e-30) * is_own).sum(axis=-1).mean()


def training(run):
    network = Face(run.dimensions).set_train()
    trained = network.trainable_params()
    sgd = nn.SGD(
        trained,
        facts.learning_rate(run.global_batch_size),
        facts.MOMENTUM,
        weight_decay=facts.WEIGHT_DECAY,
    )
    gradients_of = ms.value_and_grad(network, None, sgd.parameters)

    def update(*batch):
        value, gradients = gradients_of(*batch)
        sgd(gradients)
        return value

    if run.compiler == "graph":
        update = ms.jit(update)
    batches = open_batches(run, "NCHW")
    next_batch = feed(batches, lambda *batch: [Tensor(each) for each in batch])
    return Work(
        step=lambda: update(*next_batch()),
        wait=lambda: synchronize(run),
        loss=lambda value: float(value.asnumpy()),
        parameters=sum(p.size for p in trained),
        batches=batches,
        parity={},
    )
