"""gluon-cv's ImageNet scripts, and NVIDIA's MXNet ResNet-50 before it used DLLogger.

gluon-cv's logger writes no time: then there is no wall clock, only what its rates give.
"""

import re

from dlperf.analysis.logs.forms import Form, Source, Stated, regex, stated_precision

_GLUON_CV = (
    Stated("batch_size", re.compile(r"Namespace\(.*\bbatch_size=(\d+)")),
    Stated("devices_per_node", re.compile(r"Namespace\(.*\bnum_gpus=([1-9]\d*)")),
)

SOURCE = Source(
    title="gluon-cv train_imagenet.py; NVIDIA MXNet ResNet-50 before DLLogger",
    upstream=r"""
        dmlc/gluon-cv scripts/classification/imagenet/train_imagenet.py:
        'Epoch[%d] Batch [%d]\tSpeed: %f samples/sec\t%s=%f\tlr=%f', i from 0;
        train_horovod.py: 'Epoch[%d] Rank[%d] Batch[%d]\t%s=%f\tlr=%f', nbatch from 1;
        NVIDIA/DeepLearningExamples MxNet/Classification/RN50v1.5/fit.py (2019):
        'Epoch[{}] Batch [{}-{}]\tSpeed: {} samples/sec\tLR: …'""",
    forms=(
        Form(
            "mxnet",
            "gluon-cv",
            regex(
                r"Epoch\[(?P<epoch>\d+)\] Batch ?\[(?P<step>\d+)\]\s+"
                r"Speed: (?P<rate><N>) samples/sec"
            ),
            first_step=0,
            stated=_GLUON_CV,
        ),
        Form(
            "mxnet",
            "NVIDIA DeepLearningExamples",
            regex(
                r"Epoch\[(?P<epoch>\d+)\] Batch \[\d+-(?P<step>\d+)\]\s+"
                r"Speed: (?P<rate><N>) samples/sec(?:.*?\bloss: (?P<loss><N>))?"
            ),
            first_step=0,
            stated=(  # its batch is that of all devices
                Stated("global_batch_size", re.compile(r"Namespace\(.*\bbatch_size=(\d+)")),
                Stated(
                    "devices_per_node",
                    re.compile(r"Namespace\(.*\bgpus=\[([\d, ]+)\]"),
                    listed=True,
                ),
            ),
        ),
        Form(
            "mxnet",
            "gluon-cv",
            regex(
                r"Epoch\[(?P<epoch>\d+)\] Rank\[(?P<rank>\d+)\] Batch\[(?P<step>\d+)\]\s+"
                r"[\w-]+=<N>\s+lr=<N>"
            ),
            stated=_GLUON_CV,
        ),
    ),
    stated=(
        Stated("precision", re.compile(r"Namespace\(.*\bdtype='float16'"), "fp16"),
        Stated("precision", re.compile(r"Namespace\(.*\bdtype='float32'"), "fp32"),
        *stated_precision("amp"),
    ),
    pauses=re.compile(r"\[Epoch \d+\] validation|Validating epoch|Validation-"),
)
