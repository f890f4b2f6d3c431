"""tensorflow/models' official models: the callback TimeHistory, and BERT's own training loop."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dlperf.analysis.logs.forms import Form, Source, Stated, regex
from dlperf.analysis.logs.lines import Line

_NAME = "tensorflow/models"
#: Lines that the settings may have.
MOST_LINES = 1000
_SETTINGS = re.compile(r"Final model parameters: (?=\{)")


def join(lines: Iterable[Line]) -> Iterator[Line]:
    """The settings, a dict printed over a hundred lines, on one: `runtime.num_gpus=8 …`."""
    opened: Line | None = None
    text = ""
    held: list[Line] = []
    for line in lines:
        if opened is None:
            if not (match := _SETTINGS.search(line.text)):
                yield line
                continue
            opened, text, held = line, line.text[match.end() :], [line]
        elif line.rank == opened.rank:
            text += line.text
            held.append(line)
        else:
            yield line
        if text.count("{") <= text.count("}"):
            yield replace(opened, text=f"settings {' '.join(_flat('', text))} ")
            opened = None
        elif len(held) > MOST_LINES:  # the dict was cut: these lines are the training's
            yield from held
            opened = None
    if opened is not None:
        yield from held


def _flat(prefix: str, text: str) -> Iterator[str]:
    try:
        settings = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return  # cut, or no dict
    waiting = [(prefix, settings)]
    while waiting:
        prefix, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{prefix}.{key}".lstrip("."), each) for key, each in value.items()]
        elif not isinstance(value, str) or " " not in value:
            yield f"{prefix}={value}"


SOURCE = Source(
    title="tensorflow/models: TimeHistory, and the loop of official/nlp/bert",
    upstream="""
        tensorflow/models official/utils/misc/keras_utils.py, TimeHistory:
        'TimeHistory: %.2f seconds, %.2f examples/second between steps %d and %d';
        2019: "BenchmarkMetric: {'global step':%d, 'time_taken': %f,'examples_per_second': %f}",
        batch_size is that of all devices; official/modeling/model_training_utils.py:
        'Train Step: %d/%d  / loss = %s'; official/vision/image_classification/
        classifier_trainer.py: 'Final model parameters: %s', pretty-printed; the batch is a
        device's where use_per_replica_batch_size says so""",
    forms=(
        Form(
            "tensorflow",
            _NAME,
            regex(
                r"TimeHistory: (?P<seconds><N>) seconds, (?P<rate><N>) examples/second between "
                r"steps (?P<since>\d+) and (?P<step>\d+)\b"
            ),
        ),
        Form(
            "tensorflow",
            _NAME,
            regex(
                r"BenchmarkMetric: \{'(?:global step|num_batches)': ?(?P<step>\d+), "
                r"'time_taken': (?P<seconds><N>), ?'examples_per_second': (?P<rate><N>)\}"
            ),
        ),
        Form(
            "tensorflow",
            _NAME,
            regex(r"Train Step: (?P<step>\d+)/\d+  ?/ loss = (?P<loss><N>)"),
        ),
    ),
    stated=(
        Stated("devices_per_node", re.compile(r"^settings .*\bruntime\.num_gpus=(\d+)")),
        Stated(
            "batch_size",
            re.compile(
                r"^settings (?=.*\btrain_dataset\.use_per_replica_batch_size=True)"
                r".*\btrain_dataset\.batch_size=(\d+)"
            ),
        ),
        Stated(
            "global_batch_size",
            re.compile(
                r"^settings (?=.*\btrain_dataset\.use_per_replica_batch_size=False)"
                r".*\btrain_dataset\.batch_size=(\d+)"
            ),
        ),
        Stated("precision", re.compile(r"^settings .*\btrain_dataset\.dtype=float32"), "fp32"),
        Stated("precision", re.compile(r"^settings .*\btrain_dataset\.dtype=float16"), "fp16"),
        Stated("precision", re.compile(r"^settings .*\btrain_dataset\.dtype=bfloat16"), "bf16"),
        Stated("precision", re.compile(r"Mixed precision compatibility check"), "amp"),
    ),
    join=join,
    pauses=re.compile(r"Running (?:final )?evaluation|Saving model as|Saved checkpoint|eval \|"),
)
