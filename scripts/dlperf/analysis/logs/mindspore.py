"""MindSpore's callbacks: LossMonitor says the step, TimeMonitor how long the epoch took.

With data sinking an 'epoch' is as many steps as are sent to the device at once: the benchmark's
window is made of such epochs. Both lines are joined to one, of the epoch's steps.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dlperf.analysis.logs.forms import NUMBER, Form, Source, Stated, regex
from dlperf.analysis.logs.lines import Line

# LossMonitor counts steps anew in an epoch; BERT's own callback counts them through all epochs
_ANEW = re.compile(rf"epoch: (?P<epoch>\d+) step: (?P<step>\d+), loss is (?P<loss>{NUMBER})")
_THROUGH = re.compile(r"epoch: \d+, (?:current epoch percent: \S+, )?step: (?P<step>\d+), ")
_EPOCH = re.compile(rf"(?<!Eval )epoch time: ({NUMBER}) ms, per step time: ({NUMBER}) ms")


def join(lines: Iterable[Line]) -> Iterator[Line]:
    """An epoch's last step and loss, and its time, on one line; steps counted through."""
    before: dict[int | None, list[Line]] = defaultdict(list)
    for line in lines:
        if _ANEW.search(line.text) or _THROUGH.search(line.text):
            before[line.rank].append(line)
        elif (match := _EPOCH.search(line.text)) and before[line.rank]:
            # ranks that share a log print in turns: each epoch line is the oldest step line's
            yield replace(line, text=_joined(before[line.rank], match))
        else:
            yield line


def _joined(waiting: list[Line], epoch: re.Match[str]) -> str:
    ratio = float(epoch[1]) / float(epoch[2]) if float(epoch[2]) > 0 else 0.0
    steps = round(ratio) if 0 < ratio < 1e15 else 0  # neither of a time that is no number
    text = waiting.pop(0).text
    # a monitor that prints every step prints all of an epoch before its time
    while waiting and _follows(text, waiting[0].text):
        text = waiting.pop(0).text
    anew, through = _ANEW.search(text), _THROUGH.search(text)
    if anew:
        step, loss = (int(anew["epoch"]) - 1) * steps + int(anew["step"]), anew["loss"]
    else:
        assert through is not None  # as join found it
        step, loss = int(through["step"]), "0"  # its outputs are a tuple of any form
    return f"step {step} steps {steps} loss {loss} milliseconds {epoch[1]}"


def _follows(text: str, later: str) -> bool:
    """Whether a line is of a later step of the same epoch, and by the same rank."""
    one, other = _ANEW.search(text), _ANEW.search(later)
    if one and other:
        return one["epoch"] == other["epoch"] and int(one["step"]) < int(other["step"])
    one, other = _THROUGH.search(text), _THROUGH.search(later)
    return bool(one and other and int(one["step"]) < int(other["step"]))


SOURCE = Source(
    title="MindSpore: LossMonitor and TimeMonitor",
    upstream="""
        mindspore-ai/mindspore mindspore/train/callback: LossMonitor "epoch: %s step: %s, loss is
        %s", TimeMonitor "epoch time: {:5.3f} ms, per step time: {:5.3f} ms" ("Train epoch time"
        since 2.0); mindspore-ai/models official/nlp/bert/src/utils.py, LossCallBack: "epoch: {},
        current epoch percent: {}, step: {}, outputs are {}\"""",
    forms=(
        Form(
            "mindspore",
            "mindspore-ai/models",
            regex(
                r"step (?P<step>\d+) steps (?P<steps>\d+) loss (?P<loss><N>) "
                r"milliseconds (?P<milliseconds><N>)"
            ),
        ),
    ),
    stated=(  # the models print their settings as a dict
        Stated("batch_size", re.compile(r"^[ {]*['\"]batch_size['\"]: (\d+)")),
        Stated("devices", re.compile(r"^[ {]*['\"]device_num['\"]: (\d+)")),
    ),
    pauses=re.compile(r"Eval epoch time|[Ee]val(?:uation)? result"),
    durations_first=True,
    join=join,
)
