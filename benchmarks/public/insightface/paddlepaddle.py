"""The form of PaddlePaddle's PLSC: its backbones, head and dygraph loop (models/mobilefacenet.py,
models/iresnet.py, nn/partialfc.py, optimizer/momentum.py).

plsc 2.4.0 itself imports paddle.fluid, which Paddle 3 has not. `y1` is its MobileFaceNet with
`scale=1` and embeddings of 128, which has y1's channels; its dense layer has no bias, its r50 no
dropout. Its margin is an operator for GPUs: here cos(arccos c + m) of an image's own cosine.
Paddle's own Momentum stands for its fused one.
"""

import paddle
import paddle.nn.functional as F
from paddle import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.insightface import facts

SOURCE = "PaddlePaddle/PLSC, MobileFaceNet, IResNet, PartialFC; paddle.optimizer.Momentum"
REQUIREMENTS = []


def conv(inputs, outputs, size=1, stride=1, padding=0, groups=1):
    return nn.Conv2D(inputs, outputs, size, stride, padding, groups=groups, bias_attr=False)


def linear_block(inputs, outputs, *rest, **more):
    return nn.Sequential(conv(inputs, outputs, *rest, **more), nn.BatchNorm2D(outputs))


def conv_block(inputs, outputs, *rest, **more):
    return nn.Sequential(linear_block(inputs, outputs, *rest, **more), nn.PReLU(outputs))


class DepthWise(nn.Layer):
    def __init__(self, inputs, groups, outputs, stride):
        super().__init__()
        self.residual = stride == 1
        self.layers = nn.Sequential(
            conv_block(inputs, groups),
            conv_block(groups, groups, 3, stride, 1, groups=groups),
            linear_block(groups, outputs),
        )

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilefacenet(px):
    return nn.Sequential(
        conv_block(3, 64, 3, 2, 1),
        conv_block(64, 64, 3, 1, 1, groups=64),
        *(DepthWise(*each[1:]) for each in facts.bottlenecks()),
        conv_block(128, 512),
        linear_block(512, 512, px // facts.SHRINK, groups=512),
        nn.Flatten(),
        nn.Linear(512, facts.EMBEDDINGS["y1"], bias_attr=False),
        nn.BatchNorm1D(facts.EMBEDDINGS["y1"]),
    )


class IBasicBlock(nn.Layer):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2D(inputs),
            conv_block(inputs, outputs, 3, 1, 1),
            linear_block(outputs, outputs, 3, stride, 1),
        )
        self.downsample = linear_block(inputs, outputs, 1, stride) if stride > 1 else None

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        return self.layers(x) + identity


def iresnet(backbone, px):
    layers = [conv_block(3, 64, 3, 1, 1)]
    layers += [IBasicBlock(*each[1:]) for each in facts.residuals(backbone)]
    side = px // facts.SHRINK
    fixed = paddle.ParamAttr(trainable=False)
    layers += [nn.BatchNorm2D(512), nn.Flatten(), nn.Linear(512 * side**2, 512)]
    return nn.Sequential(*layers, nn.BatchNorm1D(512, weight_attr=fixed))


class Face(nn.Layer):
    def __init__(self, sizes):
        super().__init__()
        self.classes, px = sizes["num_classes"], sizes["image_size"]
        if sizes["backbone"] == "y1":
            self.backbone = mobilefacenet(px)
        else:
            self.backbone = iresnet(sizes["backbone"], px)
        normal = nn.initializer.Normal(0.0, facts.DEVIATION)
        for layer in self.backbone.sublayers():
            if isinstance(layer, nn.Conv2D):
                normal(layer.weight)
        self.weight = self.create_parameter(
            [self.classes, facts.embedding(sizes)],
            default_initializer=nn.initializer.Normal(0.0, facts.CENTRE_DEVIATION),
        )

    def forward(self, images, labels):
        x = F.normalize(self.backbone(images))
        cosines = paddle.matmul(x, F.normalize(self.weight), transpose_y=True)
        own = paddle.take_along_axis(cosines, labels.unsqueeze(1), 1)
        moved = paddle.cos(paddle.acos(own) + facts.ARC_MARGIN)
        is_own = F.one_hot(labels, self.classes)
        scores = (cosines + is_own * (moved - own)) * facts.SCALE
        return F.cross_entropy(scores, labels)


def training(run):
    network = Face(run.dimensions)
    network.train()
    momentum = paddle.optimizer.Momentum(
        facts.learning_rate(run.global_batch_size),
        facts.MOMENTUM,
        parameters=network.parameters(),
        weight_decay=facts.WEIGHT_DECAY,
    )
    batches = open_batches(run, "NCHW")
    next_batch = feed(
        batches,
        lambda images, labels: (paddle.to_tensor(images), paddle.to_tensor(labels, "int64")),
    )

    def step():
        value = network(*next_batch())
        value.backward()
        momentum.step()
        momentum.clear_grad()
        return value.detach()

    return Work(
        step=step,
        wait=paddle.device.synchronize if run.cuda else lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.size for p in network.parameters() if not p.stop_gradient),
        batches=batches,
        parity={},
    )
