"""MLPerf Training: `:::MLLOG {json}` lines, which tell when epochs, blocks and evaluations begin.

A stretch of training lasts from the beginning of an epoch, or of a block of epochs, to its end or
to an evaluation; join() makes a line of each. A step of the window is then an epoch. BERT counts
samples instead: there a step is one of `global_batch_size` samples.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dlperf.analysis.logs.forms import Form, Source, Stated, regex
from dlperf.analysis.logs.lines import Line

_EVENT = re.compile(r":::MLLOG (?P<json>\{.*\})")
#: What NVIDIA's scripts call an epoch's rate.
_RATES = ("imgs_sec", "throughput")


@dataclass
class _Run:
    """What a rank's events have said so far; times in milliseconds."""

    samples: float = 0.0  # of an epoch
    batch: int = 0
    in_samples: bool = False  # BERT
    base: int | None = None  # the number of the first epoch
    epoch_began: dict[int, float] | None = None  # None: blocks only, so far
    block: tuple[int, int, float] | None = None  # first epoch, how many, when it began
    trained: tuple[int, float] | None = None  # BERT: samples, when the stretch after them began
    evaluating: bool = False

    def end(self, key: str, value: Any, about: dict[str, Any], time: float) -> str:
        """The stretch of training that an event ends, in words; or ''."""
        if key == "submission_benchmark":
            self.in_samples = value == "bert"
        elif key == "global_batch_size":
            self.batch = int(value)
        elif key == "train_samples":
            self.samples = float(value)
        elif self.in_samples:
            return self._of_samples(key, about.get("epoch_num"), time)
        elif key == "block_start":
            first = int(about["first_epoch_num"])
            self.base = first if self.base is None else self.base
            self.block = first, int(about.get("epoch_count", 1)), time
        elif key == "epoch_start":
            number = int(about["epoch_num"])
            self.base = number if self.base is None else self.base
            self.epoch_began = {number: time}
        elif key == "epoch_stop" and self.epoch_began and self.samples:
            number = int(about["epoch_num"])
            began = self.epoch_began.pop(number, None)
            return "" if began is None else self._epochs(number, 1, time - began)
        elif key in ("eval_start", "block_stop") and self.block and self.samples:
            (first, count, began), self.block = self.block, None
            if self.epoch_began is None:
                return self._epochs(first + count - 1, count, time - began)
        return ""

    def _epochs(self, last: int, count: int, took: float) -> str:
        step = last + 1 - (self.base or 0)
        return f"epoch {step} steps {count} milliseconds {took} epoch_samples {self.samples}"

    def _of_samples(self, key: str, number: Any, time: float) -> str:
        if key == "block_start" and self.trained is None:
            self.trained = 0, time
        ends = key == "eval_start" or (key == "eval_accuracy" and not self.evaluating)
        ended = ""
        if ends and self.trained and self.batch and number and int(number) % self.batch == 0:
            before, began = self.trained
            step, steps = int(number) // self.batch, (int(number) - before) // self.batch
            how = "" if key == "eval_start" else " evaluated"
            if steps > 0:
                ended = f"trained {step} steps {steps} milliseconds {time - began}{how}"
                self.trained = int(number), time
        if key == "eval_start":
            self.evaluating = True
        elif key == "eval_stop" and self.trained:
            self.trained = self.trained[0], time
        return ended


def join(lines: Iterable[Line]) -> Iterator[Line]:
    """All lines, and one of each stretch of training, with its rate where events have it."""
    runs: dict[int | None, _Run] = defaultdict(_Run)
    ended: dict[int | None, Line] = {}  # a stretch, until its rate comes or another event
    for line in lines:
        event = _event(line.text)
        if event is None:
            yield line
            continue
        key, value, about, time = event
        if (last := ended.pop(line.rank, None)) is not None:
            rate = _rate(key, value)
            yield last if rate is None else replace(last, text=f"{last.text} rate {rate}")
        yield line
        if text := runs[line.rank].end(key, value, about, time):
            ended[line.rank] = replace(line, text=text)
    yield from ended.values()


def _rate(key: str, value: Any) -> float | None:
    if key == "tracked_stats" and isinstance(value, dict):
        value = next((value[name] for name in _RATES if name in value), None)
    elif key != "throughput":
        return None
    return float(value) if isinstance(value, int | float) else None


def _event(text: str) -> tuple[str, Any, dict[str, Any], float] | None:
    match = _EVENT.search(text)
    try:
        record = json.loads(match["json"]) if match else {}
        return record["key"], record["value"], record["metadata"] or {}, float(record["time_ms"])
    except (ValueError, KeyError, TypeError):
        return None  # cut, or glued to another


SOURCE = Source(
    title="MLPerf Training: :::MLLOG lines",
    upstream="""
        mlcommons/logging mlperf_logging/mllog/mllog.py: ":::MLLOG {json}" with time_ms, key, value,
        metadata; constants.py: block_start (first_epoch_num, epoch_count), epoch_start, epoch_stop,
        eval_start, eval_accuracy (epoch_num; of BERT the samples trained so far), train_samples,
        global_batch_size; NVIDIA's own keys: d_batch_size, throughput, tracked_stats""",
    forms=(
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^epoch (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>) "
                r"epoch_samples (?P<epoch_samples><N>)(?: rate (?P<rate><N>))?$"
            ),
            note="a step is an epoch, evaluations left out",
        ),
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^trained (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>)$"
            ),
            note="evaluations left out",
        ),
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^trained (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>) "
                r"evaluated$"
            ),
            note="evaluations are in the time: the log does not say how long they took",
        ),
    ),
    stated=(
        Stated("global_batch_size", re.compile(r'"key": "global_batch_size", "value": (\d+)')),
        Stated("batch_size", re.compile(r'"key": "d_batch_size", "value": (\d+)')),
    ),
    durations_first=True,
    join=join,
)
