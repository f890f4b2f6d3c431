"""DeepSpeed's ThroughputTimer.

Until 0.7 its steps are micro-steps and its rate is a micro-batch's: a step of the window is then
one of `batch_size` samples a device.
"""

import re

from dlperf.analysis.logs.forms import Form, Skipped, Source, Stated, regex, stated_precision

SOURCE = Source(
    title="DeepSpeed: ThroughputTimer",
    upstream="""
        microsoft/DeepSpeed deepspeed/utils/timer.py, ThroughputTimer.stop(): until 2022 "{}/{},
        SamplesPerSec={}", then "{}/{}, RunningAvgSamplesPerSec={}, CurrSamplesPerSec={}, …", since
        0.8 "epoch={}/micro_step={}/global_step={}, RunningAvgSamplesPerSec={},
        CurrSamplesPerSec={}, …", after "[%(asctime)s] [INFO] [timer.py:157:stop] ";
        runtime/config.py, DeepSpeedConfig.print(): "  {arg} {dots} {value}"; runtime/engine.py:
        "step={}, skipped={}, lr={}, mom={}", which counts a skipped step;
        the current rate is of the last step only""",
    forms=(
        Form(
            "deepspeed",
            "DeepSpeed",
            regex(
                r"(?<![\d/])(?P<epoch>\d+)/(?P<step>\d+), SamplesPerSec=(?P<running_rate><N>)"
                r"(?=[,\s]|$)"
            ),
        ),
        Form(
            "deepspeed",
            "DeepSpeed",
            regex(
                r"(?<![\d/])(?P<epoch>\d+)/(?P<step>\d+), "
                r"RunningAvgSamplesPerSec=(?P<running_rate><N>), CurrSamplesPerSec=(?P<rate><N>)"
                r"(?=[,\s]|$)"
            ),
        ),
        Form(
            "deepspeed",
            "DeepSpeed",
            regex(
                r"\bepoch=\d+/micro_step=\d+/global_step=(?P<step>\d+), "
                r"RunningAvgSamplesPerSec=(?P<running_rate><N>), CurrSamplesPerSec=(?P<rate><N>)"
                r"(?=[,\s]|$)"
            ),
            stated=(
                Stated("global_batch_size", re.compile(r"\] +train_batch_size \.* ?(\d+)")),
                Stated("accumulation", re.compile(r"\] +gradient_accumulation_steps \.* ?(\d+)")),
            ),
        ),
    ),
    stated=(
        Stated("batch_size", re.compile(r"\] +train_micro_batch_size_per_gpu \.* ?(\d+)")),
        Stated("devices", re.compile(r"\] +world_size \.* ?(\d+)")),
        *stated_precision("fp16_enabled", "fp16"),
        *stated_precision("bfloat16_enabled", "bf16"),
        *stated_precision("amp_enabled"),
    ),
    skipped=Skipped(re.compile(r"\bstep=\d+, skipped=(?P<total>\d+)"), counted=True),
    pauses=re.compile(r"Saving (?:model )?checkpoint|\[Saved\]|saved\b.*mp_rank"),
)
