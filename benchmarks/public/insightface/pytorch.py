"""The form of deepinsight/insightface's arcface_torch, which no package has: its backbones, its
margin, its loop (backbones/mobilefacenet.py and iresnet.py, losses.py, partial_fc_v2.py,
train_v2.py).

NCHW, as there. `y1` is its MobileFaceNet with `scale=1` and embeddings of 128, which has y1's
channels; its dense layer has no bias, its own r50 no dropout. The margin is made outside of
autograd, of all cosines, in place; gradients of the backbone are clipped to a norm of 5; SGD is
torch's default one. Left out is what exchanges with other ranks.
"""

import torch
import torch.nn.functional as F
from torch import nn

from dlperf.contract.work import Work, feed
from dlperf.workloads.inputs import open_batches
from dlperf.workloads.insightface import facts

SOURCE = "deepinsight/insightface, arcface_torch"
REQUIREMENTS = []
CLIP_NORM = 5


def linear_block(inputs, outputs, size=1, stride=1, padding=0, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
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
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilefacenet(px):
    return nn.Sequential(
        conv_block(3, 64, 3, 2, 1),
        conv_block(64, 64, 3, 1, 1, groups=64),
        *(DepthWise(*each[1:]) for each in facts.bottlenecks()),
        conv_block(128, 512),
        linear_block(512, 512, px // facts.SHRINK, groups=512),
        nn.Flatten(),
        nn.Linear(512, facts.EMBEDDINGS["y1"], bias=False),
        nn.BatchNorm1d(facts.EMBEDDINGS["y1"]),
    )


class IBasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.PReLU(outputs),
            nn.Conv2d(outputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.downsample = linear_block(inputs, outputs, 1, stride) if stride > 1 else None

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = self.layers(x)
        x += identity
        return x


def iresnet(backbone, px):
    layers = [conv_block(3, 64, 3, 1, 1)]
    layers += [IBasicBlock(*each[1:]) for each in facts.residuals(backbone)]
    features = nn.BatchNorm1d(512)
    features.weight.requires_grad = False
    side = px // facts.SHRINK
    layers += [nn.BatchNorm2d(512), nn.Flatten(), nn.Linear(512 * side**2, 512), features]
    return nn.Sequential(*layers)


def margin(cosines, labels):
    """Of ArcFace, outside of autograd; scores."""
    with torch.no_grad():
        rows = torch.arange(len(labels))
        cosines.arccos_()
        cosines[rows, labels] += facts.ARC_MARGIN
        cosines.cos_()
    return cosines * facts.SCALE


def training(run):
    sizes = run.dimensions
    if sizes["backbone"] == "y1":
        backbone = mobilefacenet(sizes["image_size"])
    else:
        backbone = iresnet(sizes["backbone"], sizes["image_size"])
    for module in backbone.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, 0, facts.DEVIATION)
    backbone.train()
    shape = sizes["num_classes"], facts.embedding(sizes)
    centres = nn.Parameter(torch.normal(0, facts.CENTRE_DEVIATION, shape))
    trained = [p for p in backbone.parameters() if p.requires_grad]
    sgd = torch.optim.SGD(
        [{"params": trained}, {"params": [centres]}],
        lr=facts.learning_rate(run.global_batch_size),
        momentum=facts.MOMENTUM,
        weight_decay=facts.WEIGHT_DECAY,
    )

    def forward(images, labels):
        with torch.autocast(run.device, dtype=torch.bfloat16, enabled=run.amp):
            x = backbone(images)
        x = F.linear(F.normalize(x.float()), F.normalize(centres))
        return F.cross_entropy(margin(x.clamp(-1, 1), labels), labels)

    if run.compiler == "inductor":
        forward = torch.compile(forward)
    batches = open_batches(run, "NCHW")
    next_batch = feed(
        batches,
        lambda images, labels: (torch.from_numpy(images), torch.from_numpy(labels).long()),
    )

    def step():
        value = forward(*next_batch())
        value.backward()
        torch.nn.utils.clip_grad_norm_(trained, CLIP_NORM)
        sgd.step()
        sgd.zero_grad()
        return value.detach()

    return Work(
        step=step,
        wait=lambda: None,
        loss=lambda value: value.item(),
        parameters=sum(p.numel() for p in [*trained, centres]),
        batches=batches,
        parity={},
    )
