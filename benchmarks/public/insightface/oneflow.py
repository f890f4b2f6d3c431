"""The form of deepinsight/insightface's arcface_oneflow, which no package has: its backbones, head
and eager loop (backbones/ir_resnet.py and fmobilefacenet.py, function.py).

Its MobileFaceNet is written for an old OneFlow: here of oneflow.nn's layers. Its r50 has ReLU where
PReLU is meant, no dropout and no norm behind its dense layer, which is less work than ours. The
margin is OneFlow's own operator. Its graph, by default a CUDA one, is not compared.
"""

import numpy as np
import oneflow as flow
import oneflow.nn.functional as F
from oneflow import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.insightface import facts

SOURCE = "deepinsight/insightface, arcface_oneflow"
REQUIREMENTS = []


def linear_block(inputs, outputs, size=1, stride=1, padding=0, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=facts.MOBILE_EPSILON),
    )


def conv_block(inputs, outputs, *rest, **more):
    return nn.Sequential(linear_block(inputs, outputs, *rest, **more), nn.PReLU(outputs))


class DepthWise(nn.Module):
    def __init__(self, inputs, groups, outputs, stride):
        super().__init__()
        self.residual = stride == 1
        self.layers = nn.Sequential(
            conv_block(inputs, groups),
            conv_block(groups, groups, 3, stride, 1, groups=groups),
            linear_block(groups, outputs),
        )

    def forward(self, x):
        return self.layers(x) + x if self.residual else self.layers(x)


def mobilefacenet(px):
    return nn.Sequential(
        conv_block(3, 64, 3, 2, 1),
        conv_block(64, 64, 3, 1, 1, groups=64),
        *(DepthWise(*each[1:]) for each in facts.bottlenecks()),
        conv_block(128, 512),
        linear_block(512, 512, px // facts.SHRINK, groups=512),
        nn.Flatten(),
        nn.Linear(512, facts.EMBEDDINGS["y1"]),
        nn.BatchNorm1d(facts.EMBEDDINGS["y1"], eps=facts.BATCH_NORM_EPSILON),
    )


class IBasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = self.layers(x)
        x += identity
        return x


def iresnet(backbone, px):
    layers = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers += [IBasicBlock(*each[1:]) for each in facts.residuals(backbone)]
    side = px // facts.SHRINK
    layers += [nn.BatchNorm2d(512), nn.Flatten(), nn.Linear(512 * side**2, 512)]
    return nn.Sequential(*layers)


class TrainModule(nn.Module):
    """The backbone, and cosines with all centres."""

    def __init__(self, sizes):
        super().__init__()
        px = sizes["image_size"]
        if sizes["backbone"] == "y1":
            self.backbone = mobilefacenet(px)
        else:
            self.backbone = iresnet(sizes["backbone"], px)
        for module in self.backbone.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, 0, facts.DEVIATION)
        self.weight = nn.Parameter(flow.empty(sizes["num_classes"], facts.embedding(sizes)))
        nn.init.normal_(self.weight, 0, facts.CENTRE_DEVIATION)

    def forward(self, images):
        x = F.normalize(self.backbone(images), dim=1)
        return flow.matmul(x, F.normalize(self.weight, dim=1), transpose_b=True)


def training(run):
    network = TrainModule(run.dimensions).train()
    trained = list(network.parameters())
    margin = nn.CombinedMarginLoss(1, facts.ARC_MARGIN, 0.0)
    sgd = flow.optim.SGD(
        [{"params": trained}],
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        weight_decay=facts.WEIGHT_DECAY,
    )
    batches = open_batches(run, "NCHW")
    next_batch = feed(
        batches,
        lambda images, labels: (flow.from_numpy(images), flow.from_numpy(labels.astype(np.int64))),
    )

    def step():
        images, labels = next_batch()
        scores = margin(network(images), labels) * facts.SCALE
        value = flow._C.sparse_softmax_cross_entropy(scores, labels).mean()
        value.backward()
        sgd.step()
        sgd.zero_grad()
        return value.detach()

    return Work(
        step=step,
        wait=flow._oneflow_internal.eager.Sync,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in trained),
        batches=batches,
        parity={},
    )
