"""The r50 of oneflow.py beside this, with what it leaves out: PReLUs, dropout and the last norm.

That is the work that all others do. MobileFaceNet (y1) is the same in both.
"""

import importlib.util
import os

from oneflow import nn

from dlperf.workloads.insightface import facts

SOURCE = "deepinsight/insightface, arcface_oneflow, with PReLU, dropout and the last norm"
REQUIREMENTS = []


def training(run):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "oneflow.py")
    spec = importlib.util.spec_from_file_location("with_less_work", path)
    published = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(published)
    published.iresnet = changed(published.iresnet)
    return published.training(run)


def changed(iresnet):
    """A function that builds a published backbone, with what it leaves out."""

    def built(backbone, px):
        network = iresnet(backbone, px)
        width = None
        for module in list(network.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.BatchNorm2d):
                    width = child.num_features
                elif isinstance(child, nn.ReLU):
                    setattr(module, name, nn.PReLU(width))
        layers = list(network.children())
        norm = nn.BatchNorm1d(facts.embedding({"backbone": backbone}), eps=facts.BATCH_NORM_EPSILON)
        return nn.Sequential(*layers[:-2], nn.Dropout(facts.DROPOUT), *layers[-2:], norm)

    return built
