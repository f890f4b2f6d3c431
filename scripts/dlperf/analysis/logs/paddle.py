"""PaddlePaddle: PaddleClas, PaddleNLP and the image classification of PaddlePaddle/models.

Rates are those of the rank that prints them, which is one: `batch_size` there is a card's.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dlperf.analysis.logs.forms import Form, Source, Stated, regex, stated_precision
from dlperf.analysis.logs.lines import Line

_SETTING = re.compile(r"ppcls INFO: (?P<indent> *)(?P<key>\w+) : ?(?P<value>.*)")
_TRAINS = re.compile(r"\[Train\]|\btrain step:")
_OF_ONE = (
    "they are of the printed step alone, or a mean of steps that the line does not name, and the "
    "steps between two lines are in none of them"
)
_MEAN = r"batch_cost: (?P<running_step_seconds><N>) ?s,"


def join(lines: Iterable[Line]) -> Iterator[Line]:
    """PaddleClas' settings with the sections that they stand in, and whether AMP was on.

    `    batch_size : 256` becomes `DataLoader.Train.sampler.batch_size : 256`. A section AMP turns
    mixed precision on, unless its `use_amp` says otherwise.
    """
    opened: list[str] = []
    seen: set[str] = set()
    for line in lines:
        if setting := _SETTING.search(line.text):
            opened = [*opened[: len(setting["indent"]) // 4], setting["key"]]
            seen.add(".".join(opened))
            yield replace(line, text=f"{'.'.join(opened)} : {setting['value']}")
            continue
        if seen and _TRAINS.search(line.text):
            if "Arch" in seen and "AMP.use_amp" not in seen:
                yield replace(line, text=f"AMP.use_amp : {'AMP' in seen}")
            seen = set()
        yield line


SOURCE = Source(
    title="PaddlePaddle: PaddleClas, PaddleNLP, models",
    upstream="""
        PaddlePaddle/PaddleClas ppcls/engine/train/utils.py, log_info():
        "[Train][Epoch {}/{}][Iter: {}/{}]…, ips: {:.5f} samples/s, eta: …", iter from 0, the mean
        since the epoch's fifth step; ppcls/static/program.py: "epoch:{:<3d} train step:{:<4d}
        lr: …, batch_cost: {:.5f} s, … ips: {:.5f} samples/sec.", from 1, the means since the
        fourth step;
        tools/program.py (2020): "epoch:{:<3d} train step:{:<4d} …",
        idx from 0; PaddlePaddle/models (2020): "[Pass {0}, train batch {1}] …", from 0;
        PaddlePaddle/PaddleNLP examples/language_model/bert/run_pretrain.py: "global step: %d,
        epoch: %d, batch: %d, loss: %f, …avg_batch_cost: %.5f sec, avg_samples: %.5f, ips: %.5f
        sequences/sec", in static/ "tobal step", then "total step"; before: "step: %d, loss: %f, …,
        speed: %f steps/s\"""",
    forms=(
        Form(
            "paddlepaddle",
            "PaddleClas",
            regex(
                r"\[Train\]\s?\[Epoch (?P<epoch>\d+)/\d+\]\s?\[Iter: (?P<step>\d+)/\d+\]"
                r"(?:(?!\[Iter).)*?\b(?:[Ll]oss: (?P<loss><N>)(?:(?!\[Iter).)*?)?"
                rf"(?:\b{_MEAN}(?:(?!\[Iter).)*?)?ips: (?P<running_rate><N>)"
            ),
            first_step=0,
            printed_by="rank",
            running_since=5,
        ),
        Form(
            "paddlepaddle",
            "PaddleClas",
            regex(
                r"epoch:(?P<epoch>\d+) +train step:(?P<step>\d+) +lr: <N>, +loss: +(?P<loss><N>)"
                rf"(?:(?!train step).)*?\b{_MEAN}(?:(?!train step).)*?ips: (?P<running_rate><N>)"
            ),
            printed_by="rank",
            running_since=4,
        ),
        Form(
            "paddlepaddle",
            "PaddleClas",
            regex(
                r"epoch:(?P<epoch>\d+) *,? *train step:(?P<step>\d+)(?! *lr)[ ,]"
                r"(?:(?!train step).)*?\b(?:elapse: ?<N>|batch_cost: ?<N>)"
            ),
            first_step=0,
            printed_by="rank",
            uncounted=_OF_ONE,
        ),
        Form(
            "paddlepaddle",
            "PaddlePaddle/models",
            regex(
                r"\[Pass (?P<epoch>\d+), train batch (?P<step>\d+)\]"
                r"(?:(?!train batch).)*?\b(?:elapse|batch_cost) <N>"
            ),
            first_step=0,
            printed_by="rank",
            uncounted=_OF_ONE,
        ),
        Form(
            "paddlepaddle",
            "PaddleNLP",
            regex(
                r"(?:global|total|tobal) step:? (?P<step>\d+)(?: / \d+)?, "
                r"(?:epoch: \d+, batch: \d+, )?"
                r"loss: (?P<loss><N>), (?:(?! step:? \d).)*?"
                r"avg_batch_cost: (?P<step_seconds><N>) sec, avg_samples: (?P<batch><N>), "
                r"ips: (?P<rate><N>)"
            ),
            printed_by="rank",
        ),
        Form(
            "paddlepaddle",
            "PaddleNLP",
            regex(
                r"step:? (?P<step>\d+), (?:epoch: \d+, batch: \d+, )?loss: (?P<loss><N>),"
                r"(?:(?!\bstep:? ).)*?speed: (?P<step_rate><N>) steps?/s\b"
            ),
        ),
    ),
    stated=(
        *stated_precision("use_amp"),
        *stated_precision("use_fp16", "fp16"),
        *stated_precision("use_pure_fp16", "fp16"),
        *stated_precision("AMP\\.use_amp"),
        Stated("batch_size", re.compile(r"\bbatch_size_per_card ?[:=] ?(\d+)")),
        Stated("batch_size", re.compile(r"^DataLoader\.Train\.sampler\.batch_size : (\d+)")),
        Stated("batch_size", re.compile(r"Namespace\(.*\bbatch_size=(\d+)")),
        Stated("devices", re.compile(r"\bPADDLE_TRAINERS_NUM +(\d+)")),
        Stated("devices", re.compile(r"DALI Train pipeline with num_shards: (\d+)")),
        Stated("devices_per_node", re.compile(r"Run Pod: \w+, replicas (\d+), status ready")),
        Stated(
            "devices_per_node",
            re.compile(r"paddle\.distributed\.launch .*--(?:gpus|devices)[= ]['\"]?(\d[\d,]*)"),
            listed=True,
        ),
        Stated("nodes", re.compile(r"LAUNCH INFO .* nnodes: (\d+)$")),
    ),
    join=join,
    pauses=re.compile(r"\[Eval\]|\bvalid step:|\[Pass \d+, test batch|Already save model"),
)
