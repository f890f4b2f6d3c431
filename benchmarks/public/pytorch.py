"""timm's ResNet-50, label smoothing and optimizer grouping, trained as timm's train.py does.

timm imports torchvision's transforms for its data loaders only; its models do without.
"""

import timm
import torch
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2

from dlperf.measure.run import Work, feed
from dlperf.workloads.resnet50 import facts
