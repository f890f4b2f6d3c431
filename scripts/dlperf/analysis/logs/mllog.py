"""MLPerf Training: `:::MLLOG {json}` lines, which tell when blocks of epochs and evaluations begin.

A stretch of training lasts from the beginning of a block to its evaluation: join() makes a line of
each. (Not from epoch_start to epoch_stop: work that was only queued is waited for before the
evaluation.) What a window counts is epochs, and in BERT, whose events count samples, samples.
"""

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from dlperf import workloads
from dlperf.analysis.logs.forms import Form, Source, Stated, regex
from dlperf.analysis.logs.lines import Line

_EVENT = re.compile(r":::MLLOG (?P<json>\{.*\})")
#: MLPerf's names of benchmarks whose events count samples, not epochs.
_IN_SAMPLES = {
    benchmark
    for workload in workloads.NAMES
    for benchmark in workloads.of(workload).mlperf_in_samples
}
#: What NVIDIA's scripts call an epoch's rate.
_RATES = ("imgs_sec", "throughput")


@dataclass
class _Run:
    """What a rank's events have said so far; times in milliseconds."""

    samples: float = 0.0  # of an epoch
    in_samples: bool = False  # BERT
    base: int | None = None  # the number of the first epoch
    block: tuple[int, int, float] | None = None  # first epoch, how many, when it began
    rates: list[float] = field(default_factory=list)  # of the block's epochs
    trained: tuple[int, float] | None = None  # BERT: samples, when the stretch after them began
    evaluating: bool = False

    def end(self, key: str, value: Any, about: dict[str, Any], time: float) -> str:
        """The stretch of training that an event ends, in words; or ''."""
        if key == "submission_benchmark":
            self.in_samples = value in _IN_SAMPLES
        elif key == "train_samples":
            self.samples = float(value)
        elif self.in_samples:
            return self._samples(key, about.get("epoch_num"), time)
        elif key == "block_start":
            first = int(about["first_epoch_num"])
            self.base = first if self.base is None else self.base
            self.block, self.rates = (first, int(about.get("epoch_count", 1)), time), []
        elif (rate := _rate(key, value)) is not None:
            self.rates.append(rate)
        elif key in ("eval_start", "block_stop") and self.block and self.samples:
            (first, count, began), self.block = self.block, None
            step = first + count - (self.base or 0)
            mean = f" rate {statistics.fmean(self.rates)}" if self.rates else ""
            return f"epoch {step} steps {count} milliseconds {time - began} of {self.samples}{mean}"
        return ""

    def _samples(self, key: str, number: Any, time: float) -> str:
        if key == "block_start" and self.trained is None:
            self.trained = 0, time
        elif key == "eval_stop" and self.trained:
            self.trained = self.trained[0], time
        elif (
            self.trained
            and number
            and (key == "eval_start" or (key == "eval_accuracy" and not self.evaluating))
        ):
            self.evaluating = key == "eval_start"
            before, began = self.trained
            count = int(number) - before
            if count > 1:  # some logs say the epoch here, against the rules
                self.trained = int(number), time
                how = "" if self.evaluating else " evaluated"
                return f"trained {number} steps {count} milliseconds {time - began} of 1{how}"
        return ""


def join(lines: Iterable[Line]) -> Iterator[Line]:
    """All lines, and one of each stretch of training."""
    runs: dict[int | None, _Run] = defaultdict(_Run)
    for line in lines:
        yield line
        event = _event(line.text)
        if event and (text := runs[line.rank].end(*event)):
            yield replace(line, text=text)


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


def _setting(key: str) -> re.Pattern[str]:
    return re.compile(rf'"key": "{key}", "value": (\d+)')


SOURCE = Source(
    title="MLPerf Training: :::MLLOG lines",
    upstream="""
        mlcommons/logging mlperf_logging/mllog/mllog.py: ":::MLLOG {json}" with time_ms, key, value,
        metadata; constants.py: block_start (first_epoch_num, epoch_count), block_stop,
        eval_start, eval_accuracy (epoch_num; of BERT the samples trained so far), train_samples,
        global_batch_size; NVIDIA's own keys: d_batch_size, throughput, tracked_stats""",
    forms=(
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^epoch (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>) "
                r"of (?P<epoch_samples><N>)(?: rate (?P<rate><N>))?$"
            ),
            stated=(  # of BERT they are of packed sequences
                Stated("batch_size", _setting("d_batch_size")),
                Stated("accumulation", _setting("gradient_accumulation_steps")),
            ),
            note="a step is an epoch, evaluations left out",
        ),
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^trained (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>) "
                r"of (?P<epoch_samples>1)$"
            ),
            note="a step is a sample, evaluations left out",
        ),
        Form(
            "",
            "MLPerf Training",
            regex(
                r"^trained (?P<step>\d+) steps (?P<steps>\d+) milliseconds (?P<milliseconds><N>) "
                r"of (?P<epoch_samples>1) evaluated$"
            ),
            note="a step is a sample; evaluations are in the time, as the log does not tell them",
        ),
    ),
    stated=(Stated("global_batch_size", _setting("global_batch_size")),),
    durations_first=True,
    join=join,
)
