"""NVIDIA DeepLearningExamples: DLLogger's lines, on the console (`DLL`), as JSON (`DLLL`), and
those of its first version (`:::NVLOG`).
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from dlperf.analysis.logs.forms import Form, Skipped, Source, Stated, regex, stated_precision
from dlperf.analysis.logs.lines import Line

_NAME = "NVIDIA DeepLearningExamples"
_STEP = r"Epoch: (?P<epoch>\d+) +(?:Training )?Iteration: (?P<step>\d++) ++(?!Valid)"
_LOSS = r"(?:.*?\btrain\.loss : (?P<loss><N>))?"
_A_DEVICE = (Stated("batch_size", re.compile(r"PARAMETER.* batch_size : (\d+)")),)

FORMS = (
    # PyTorch ResNet-50: (epoch, iteration), from 1
    Form(
        "pytorch",
        _NAME,
        regex(rf"{_STEP}{_LOSS}.*?\btrain\.total_ips : (?P<rate><N>)"),
        stated=_A_DEVICE,
    ),
    # PyTorch BERT: (epoch, global_step); no rate, and since 2023 no loss of the step
    Form(
        "pytorch",
        _NAME,
        regex(
            r"Epoch: \d+ +(?:Training )?Iteration: (?P<step>\d++) ++"
            r"(?:average_loss : <N> +step_loss|final_loss|average_loss) : (?P<loss><N>)"
        ),
        stated=(
            Stated("batch_size", re.compile(r"Namespace\(.*\btrain_batch_size=(\d+)")),
            Stated("batch_size", re.compile(r"PARAMETER.* batch_size_per_gpu : (\d+)")),
            Stated("accumulation", re.compile(r"Namespace\(.*\bgradient_accumulation_steps=(\d+)")),
        ),
    ),
    # MXNet ResNet-50: (epoch, i), from 0; its batch is that of all devices
    Form(
        "mxnet",
        _NAME,
        regex(rf"{_STEP}{_LOSS}.*?\btrain\.ips : (?P<rate><N>)"),
        first_step=0,
        stated=(
            Stated("global_batch_size", re.compile(r"PARAMETER.* batch_size : (\d+)")),
            Stated(
                "devices_per_node", re.compile(r"PARAMETER.* gpus : \[([\d, ]+)\]"), listed=True
            ),
        ),
    ),
    # TensorFlow 1 ResNet-50: (epoch, global_step), from 0 and not anew in an epoch; `total_ips` is
    # the last step's, however many lie between two lines
    Form(
        "tensorflow1",
        _NAME,
        regex(
            r"Iteration: (?P<step>\d++) ++.*?(?<![\w.])(?:imgs_per_sec|total_ips) : (?P<rate><N>)"
        ),
        first_step=0,
        stated=(
            *_A_DEVICE,
            Stated("batch_size", re.compile(r"^Per-GPU Batch Size (\d+)")),
            Stated("devices", re.compile(r"^Num GPUs (\d+)")),
        ),
    ),
    # TensorFlow 1 BERT: print_step, from 1; `Rank` where every rank reports
    Form(
        "tensorflow1",
        _NAME,
        regex(
            r"Iteration: (?P<step>\d++) ++(?:Rank : (?P<rank>\d+) +)?"
            r"throughput_train : (?P<rate><N>)(?:.*?\btotal_loss : (?P<loss><N>))?"
        ),
        stated=(
            Stated("batch_size", re.compile(r"\btrain_batch_size: (\d+)")),
            Stated("accumulation", re.compile(r"\bnum_accumulation_steps: (\d+)")),
        ),
    ),
)

_RECORD = re.compile(r"(?=DLL \d{4}-)")
_TUPLE = re.compile(r" - \((\d+), (\d+)\) ")
_NVLOG = re.compile(r"(:::NVLOGv\S+ .*?\d{9,}\.\d+ \([^)]*\)) ([\w./ ]+?)\s*: (\S+)")


def join(lines: Iterable[Line]) -> Iterator[Line]:
    """DLLL and NVLOG lines as DLL lines; others as they are."""
    open_steps: dict[int | None, Line] = {}  # an NVLOG step, until its rate comes
    for line in lines:
        if "DLLL {" in line.text:
            yield _of_json(line)
        elif match := _NVLOG.search(line.text):
            stamp, key, value = match.groups()
            if key in ("iteration", "train_iter_stop"):
                open_steps[line.rank] = replace(line, text=f"{stamp} Iteration: {value} ")
            elif key in ("imgs_per_sec", "train.total_ips") and line.rank in open_steps:
                step = open_steps.pop(line.rank)
                yield replace(step, text=f"{step.text} imgs_per_sec : {value}")
            else:
                yield line
        else:
            # what ranks wrote at the same moment, on one line
            for text in _RECORD.split(line.text):
                # DLLogger's own way to print a step, where a script gives none
                yield replace(line, text=_TUPLE.sub(r" - Epoch: \1 Iteration: \2 ", text))


def _of_json(line: Line) -> Line:
    head, _, text = line.text.partition("DLLL ")
    try:
        record: dict[str, Any] = json.loads(text)
        step, data = record["step"], record["data"]
        data = "  ".join(f"{key} : {value}" for key, value in data.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return line  # cut, glued to another, or of another kind than LOG
    words = ("Epoch", "Iteration", "Validation Iteration")
    if isinstance(step, list):
        step = " ".join(f"{word}: {each}" for word, each in zip(words, step, strict=False))
    elif isinstance(step, int):
        step = f"Iteration: {step}"
    return replace(line, text=f"{head}DLL {record.get('datetime', '')} - {step}  {data}")


SOURCE = Source(
    title="NVIDIA DeepLearningExamples: DLLogger's lines (PyTorch, MXNet, TensorFlow 1)",
    upstream="""
        NVIDIA/dllogger dllogger/logger.py: StdOutBackend "DLL {time} - {step} {metric} : {value}
        {unit}", JSONStreamBackend "DLLL {json}";
        NVIDIA/DeepLearningExamples:
        PyTorch/Classification/ConvNets/image_classification/logger.py: format_step,
        train.total_ips;
        PyTorch/LanguageModeling/BERT/run_pretraining.py: average_loss, step_loss, final_loss;
        MxNet/Classification/RN50v1.5/fit.py, log_utils.py: train.ips;
        TensorFlow/Classification/ConvNets/utils/hooks/training_hooks.py: imgs_per_sec;
        TensorFlow/LanguageModeling/BERT/run_pretraining.py, utils/dllogger_class.py:
        throughput_train;
        TensorFlow/Classification/RN50v1.5/dllogger/logger.py: ":::NVLOGv{ver} {model} {secs:.9f}
        ({call_site}) {key}: {json}\"""",
    forms=FORMS,
    stated=(
        Stated("devices", re.compile(r"PARAMETER.* world_size : (\d+)")),
        Stated("devices_per_node", re.compile(r" --nproc[-_]per[-_]node[= ](\d+)")),
        Stated("precision", re.compile(r"PARAMETER.* dtype : float16"), "fp16"),
        Stated("precision", re.compile(r"PARAMETER.* dtype : float32"), "fp32"),
        # what `set -x` shows of NVIDIA's scripts for BERT
        Stated("devices_per_node", re.compile(r"^\++ num_gpus=(\d+)$")),
        Stated("precision", re.compile(r"^\++ precision=fp16$"), "fp16"),
        Stated("precision", re.compile(r"^\++ precision=fp32$"), "fp32"),
        *stated_precision("amp"),
        *stated_precision("fp16", "fp16"),
    ),
    skipped=Skipped(re.compile(r"\bskipped_steps : (?P<total>\d+)"), counted=False),
    pauses=re.compile(
        r"Validation Iteration: \d+|checkpoint_step|Saving checkpoints for|Starting evaluation"
    ),
    join=join,
)
