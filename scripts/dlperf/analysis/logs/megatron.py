"""Megatron-LM, with or without DeepSpeed: the last rank prints the mean time of the last steps.

The timer runs through evaluations and checkpoints in some versions and not in others: a window
that has one is refused.
"""

import re

from dlperf.analysis.logs.forms import Form, Skipped, Source, Stated, regex

SOURCE = Source(
    title="Megatron-LM, Megatron-DeepSpeed",
    upstream="""
        NVIDIA/Megatron-LM megatron/training.py, training_log(): ' iteration {:8d}/{:8d} | consumed
        samples: {:12d} | elapsed time per iteration (ms): {:.1f} | learning rate: {:.3E} | global
        batch size: {:5d} | lm loss: {:.6E} | …', since 2024 after '[%Y-%m-%d %H:%M:%S]';
        Megatron-DeepSpeed: ' samples/sec: {:.3f} | iteration …'; the settings of
        megatron/arguments.py, '  {arg} {dots} {value}'""",
    forms=(
        Form(
            "megatron",
            "Megatron-LM",
            regex(
                r"(?:samples/sec: (?P<rate><N>) +\| +)?"
                r"\biteration +(?P<step>\d+)/ *\d+ +\|(?: consumed samples: +(?P<samples>\d+) +\|)?"
                r"(?: consumed tokens: +\d+ +\|)? elapsed time per iteration \(ms\): "
                r"(?P<step_milliseconds><N>) +\|(?:(?!\biteration ).)*?"
                r"(?:\bglobal batch size: +(?P<global_batch>\d+) +\|(?:(?!\biteration ).)*?)?"
                r"(?:\blm[ _]loss:? (?P<loss><N>)|$)"
            ),
        ),
    ),
    stated=(
        Stated("global_batch_size", re.compile(r"^ *global_batch_size \.+ (\d+)")),
        Stated("devices", re.compile(r"^ *world_size \.+ (\d+)")),
        Stated("precision", re.compile(r"^ *fp16 \.+ True"), "fp16"),
        Stated("precision", re.compile(r"^ *bf16 \.+ True"), "bf16"),
        Stated("precision", re.compile(r"^ *params_dtype \.+ torch\.float32"), "fp32"),
    ),
    pauses=re.compile(r"validation loss at|saving checkpoint at|saved checkpoint"),
    skipped=Skipped(re.compile(r"number of skipped iterations: +(?P<since>\d+)"), counted=True),
    durations_first=True,
)
