"""WebDataset's documented loader of ImageNet: tar shards, PIL, torchvision's transforms."""

import glob
import os

import torch

# The wheel on PyPI is built for CUDA: see public/resnet50/pytorch.py.
for name in ("nms", "qnms"):
    torch.library.define(
        "torchvision::" + name, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )

import webdataset as wds  # noqa: E402
from torchvision import transforms  # noqa: E402

SOURCE = "webdataset 1.0.2's ImageNet example, torchvision 0.28.0"
REQUIREMENTS = [
    "webdataset==1.0.2",
    "braceexpand==0.1.7",
    "pyyaml==6.0.3",
    "torchvision==0.28.0",
]
FORMAT = "webdataset"


def open_example(folder, batch_size, size):
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    steps = [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), normalize]
    shards = sorted(glob.glob(os.path.join(folder, "*.tar")))
    data = wds.WebDataset(shards, shardshuffle=False, resampled=True).shuffle(1000)
    data = data.decode("pil").to_tuple("jpg", "cls")
    data = data.map_tuple(transforms.Compose(steps), int).batched(batch_size)
    loader = wds.WebLoader(data, batch_size=None, num_workers=1)
    return iter(loader).__next__
