"""ResNet-50 v1.5 on 1000 classes: sizes, arithmetic and optimiser, the same for every framework.

v1.5: the stride 2 of a down-sampling bottleneck sits in its 3x3 convolution (v1: in the first
1x1). Source of the recipe: NVIDIA DeepLearningExamples, ResNet50 v1.5; He et al. 2015.
"""

from dlperf.workloads.dimension import Dimension

TITLE = "ResNet-50 v1.5"
UNIT = "images"
DIMENSIONS = {"image_size": Dimension(key="px", standard=224)}

CLASSES = 1000
PARAMETERS = 25557032  # trainable: convolutions, batch-norm scales and shifts, the dense layer
# (width of the bottleneck, blocks, stride of the first block); a block's output is 4 x its width
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
EXPANSION = 4

BATCH_NORM_EPSILON = 1e-5
BATCH_NORM_MOMENTUM = 0.9  # share of the old running statistic that is kept

MOMENTUM = 0.875
WEIGHT_DECAY = 1.0 / 32768  # not on batch-norm parameters or biases
LABEL_SMOOTHING = 0.1
LEARNING_RATE = 0.256  # for a global batch of 256, scaled linearly


def learning_rate(global_batch_size):
    """The constant rate of a throughput run: the mean rate of the first of 5 warm-up epochs.

    A training warms up linearly over 5 epochs to 0.256 per 256 images of global batch (NVIDIA
    DeepLearningExamples); a window of some hundred steps lies in the first of them. Constant, so
    that no framework is timed with a scheduler that another does without.
    """
    return 0.1 * LEARNING_RATE * global_batch_size / 256


def flops_per_sample(dimensions, scenario):
    """FLOPs an image: 2 x 4.09 GMAC forward at 224 px; training 3 x that (backward = 2 forward).

    Convolutions scale with the area of the image; the dense layer (2 MMAC) is counted in it.
    """
    forward = 2 * 4.09e9 * (dimensions["image_size"] / 224.0) ** 2
    return 3 * forward if scenario == "train" else forward
